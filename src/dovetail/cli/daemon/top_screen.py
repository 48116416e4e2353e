"""The picture of `dovetail top`: lines that fit a terminal of any size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from dovetail.api.job_row import Jobs
from dovetail.api.machine_row import NodeRow, Occupant
from dovetail.cli.daemon.top_keys import HELP, TopKeys, in_view
from dovetail.cli.jobs.job_columns import COLUMNS, expected, progress
from dovetail.cli.reach import ListedJob
from dovetail.text.durations import duration_text
from dovetail.text.tables import (
    PHASE_STYLES,
    clean,
    columns_of,
    cut,
    padded,
    paint,
    plain,
    table,
)

_BAR = 12
_QUEUE = ("id", "name", "user", "phase", "gpus", "prio", "for", "expected", "reason")


NO_KEYS = TopKeys()
_NOTHING_YET = Jobs(jobs=[], total=0, running=0, waiting=0, notices=0, policy="", trouble="")


class TopScene(NamedTuple):
    """The last answers of the daemon."""

    found: Jobs = _NOTHING_YET
    nodes: Sequence[NodeRow] = ()
    rows: Sequence[ListedJob] = ()
    away: str = ""
    panel: Sequence[str] = ()  # what was asked about the chosen job


def frame(
    scene: TopScene, columns: int, lines: int, now: float, keys: TopKeys = NO_KEYS
) -> list[str]:
    """The head, the GPUs with what runs on them, as many of the jobs as there is room for, and what
    the keys do."""
    if lines < 4:
        return [_head(scene, columns, now)][:lines]
    if keys.panel:
        body = _panel(scene, keys, columns, lines - 1)
    else:
        body = _overview(scene, keys, columns, lines - 1, now)
    body += [""] * (lines - 1 - len(body))
    return [*body, _foot(keys, columns)]


def _panel(scene: TopScene, keys: TopKeys, columns: int, room: int) -> list[str]:
    """Of a log the end, of the rest the beginning."""
    title = paint(cut(f"job {keys.chosen}: {keys.panel}  (Esc closes)", columns), "bold")
    text = scene.panel[-room + 1 :] if keys.panel == "log" else scene.panel[: room - 1]
    return [title, *(cut(clean(line), columns) for line in text)]


def _foot(keys: TopKeys, columns: int) -> str:
    if keys.types:
        return cut(f"filter: {clean(keys.filter)}▏", columns)
    if keys.asks:
        return paint(cut(f"{keys.asks} job {keys.chosen}? y/n", columns), "yellow")
    if keys.says:
        return paint(cut(clean(keys.says), columns), "yellow")
    told = [HELP]
    told += [f"filter: {clean(keys.filter)}"] if keys.filter else []
    told += [f"sorted: {keys.sort}"] if keys.sort != NO_KEYS.sort else []
    return paint(cut("   ".join(reversed(told)), columns), "dim")


def _overview(scene: TopScene, keys: TopKeys, columns: int, lines: int, now: float) -> list[str]:
    head = [_head(scene, columns, now)]
    for trouble in (scene.away, scene.found.trouble):
        if trouble:
            head.append(paint(cut(clean(trouble), columns), "red"))
    gpus = [line for node in scene.nodes for line in _node(node, scene.rows, columns)]
    most = max((lines - len(head)) * 2 // 3, 1)
    if len(gpus) > most:
        gpus = [*gpus[: most - 1], paint(f"  … {len(gpus) - most + 1} more lines", "dim")]
    above = [*head, *gpus, ""]
    return [*above, *_jobs(scene, keys, columns, lines - len(above))][:lines]


def _head(scene: TopScene, columns: int, now: float) -> str:
    found = scene.found
    left = f"Dovetail  {found.running:,} running, {found.waiting:,} waiting"
    left += f" · {found.policy}"
    right = f"{time.strftime('%H:%M:%S', time.localtime(now))}  q quits"
    room = columns - columns_of(right) - 2
    if room < 20:
        return paint(cut(left, columns), "bold")
    return paint(padded(cut(left, room), room), "bold") + "  " + paint(right, "dim")


# -------------------------------------------------------------------------------------------- GPUs


def _node(node: NodeRow, rows: Sequence[ListedJob], columns: int) -> list[str]:
    by_id = {row.job.id: row for row in rows}
    lines = ["", paint(cut(_node_title(node), columns), "bold")]
    for gpu in node.gpus:
        name = f"{gpu.index:>3}  "
        if gpu.strangers:
            told = clean("; ".join(gpu.others)) or "processes of others"
            lines.append(name + paint(cut(f"in use by {told}", columns - 5), "red"))
        elif gpu.closed and not gpu.jobs:
            lines.append(name + paint(cut(f"closed {clean(gpu.closed)}", columns - 5), "yellow"))
        elif not gpu.jobs:
            lines.append(name + paint(cut("free", columns - 5), "dim"))
        for own in gpu.jobs:
            lines.append(_occupant(name, own, by_id.get(own.job), columns))
            name = " " * len(name)
    return lines


def _node_title(node: NodeRow) -> str:
    thing = "processor slots" if node.kind == "cpu" else f"{node.kind} GPUs"
    down = "" if node.up else ", down"
    return f"{node.id}: {len(node.gpus)} {thing}, {node.free} free{down}"


def _occupant(name: str, own: Occupant, row: ListedJob | None, columns: int) -> str:
    told = f"{own.job} {clean(own.name)}"
    if own.share < 1:
        told += f" ({own.share:.0%})"
    if row is None:
        return name + cut(told, columns - len(name))
    pieces = [
        padded(cut(told, 24), 24),
        padded(cut(own.user, 8), 8),
        f"{duration_text(row.job.run_s):>11}",
    ]
    pieces += [part for part in (clean(progress(row.job)), expected(row)) if part]
    line, bar, room = "  ".join(pieces), _bar(row), columns - len(name)
    if bar and columns_of(line) + 2 + columns_of(bar) <= room:
        line += f"  {bar}"
    return name + paint(cut(line, room), PHASE_STYLES.get(row.job.phase, ""))


def _bar(row: ListedJob) -> str:
    """How much of it is done, if its end is expected, and not only guessed."""
    end = None if row.expected is None else row.expected.expected_end
    if end is None or end.guess:
        return ""
    run_s = row.job.run_s
    whole = run_s + max(end.expected - time.time(), 0.0)
    done = run_s / whole if whole > 0 else 0.0
    full = int(done * _BAR)
    return f"{'█' * full}{'░' * (_BAR - full)} {done:>3.0%}"


# ------------------------------------------------------------------------------------------- queue


def _jobs(scene: TopScene, keys: TopKeys, columns: int, room: int) -> list[str]:
    """The lines around the chosen one."""
    rows = in_view(scene.rows, keys)
    if not rows:
        told = "No job passes the filter." if keys.filter else "No job runs or waits."
        return [paint(told, "dim")] if room > 0 else []
    height = max(room - 2, 1)
    ids = [row.job.id for row in rows]
    place = ids.index(keys.chosen) if keys.chosen in ids else 0
    first = min(max(place - height // 2, 0), max(len(rows) - height, 0))
    shown = rows[first : first + height]
    lines = table([COLUMNS[name] for name in _QUEUE], shown, room=columns, colours=True)
    if first <= place < first + len(shown) and keys.chosen in ids:
        lines[1 + place - first] = _marked(lines[1 + place - first], columns)
    more = len(rows) - len(shown) + (0 if keys.filter else scene.found.total - len(scene.rows))
    return [*lines, *([paint(f"… and {more:,} more", "dim")] if more > 0 else [])]


def _marked(line: str, columns: int) -> str:
    """In reverse, also behind its colours."""
    filled = line + " " * max(columns - columns_of(plain(line)), 0)
    return f"\x1b[7m{filled.replace(chr(27) + '[0m', chr(27) + '[0;7m')}\x1b[0m"
