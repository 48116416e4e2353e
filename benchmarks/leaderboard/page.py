"""docs/leaderboard.md, made whole from the settings and the rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from platform import python_version
from statistics import median

from benchmarks.leaderboard import loads as known
from benchmarks.leaderboard.loads import Load
from benchmarks.leaderboard.rows import BoardRow, Settings
from benchmarks.leaderboard.runs import PREDICTOR, SHORTEST_S
from benchmarks.leaderboard.scores import complete, front, half_width, middle, overall, ratios
from dovetail.core import state
from dovetail.text.durations import duration_text, unit_of
from dovetail.text.tables import figures_table, wrapped
from dovetail.version import version

_TIMES = (("mean_jct_s", "mean"), ("p99_jct_s", "p99"), ("makespan_s", "span"))
_PARTS = (("fairness", "fair %"), ("on_time", "on time %"))
_TOLD = re.compile(f":(left=predicted/)?predictor={PREDICTOR}")
KNOWS = f"""\
D: the true durations (`oracle`) · P: durations predicted from jobs that ended before
(`NAME:predictor={PREDICTOR}`) · S: the distribution of service over the whole trace · V: speeds by
GPU kind and number · W: the work left, by the job's own count of iterations · E: what nodes draw ·
-: nothing"""


def page(
    loads: Sequence[Load], rows: Sequence[BoardRow], settings: Settings, absent: Sequence[str],
    took_s: float,
) -> str:  # fmt: skip
    """The whole page."""
    parts = [
        "# Leaderboard: every policy on every public trace at hand",
        f"Written by `{command(settings)}`; do not edit it.",
        *_how(settings, absent, took_s),
        "## All loads: mean completion over that of the best",
        _block(summary(loads, rows)),
        "Sorted by the geometric mean over loads (last column), which only those have that finish all "
        "jobs of each load. 1.00 is the best of that load.",
    ]
    for load in loads:
        own = [row for row in rows if row.load == load.name]
        parts += [f"## {load.name}", f"{load.jobs} Cluster: {load.cluster}.", _block(table(own))]
        parts.append(f"Front: {', '.join(_named(row) for row in own if row.policy in front(own))}.")
    return "\n\n".join(parts) + "\n"


def command(settings: Settings) -> str:
    """That makes the same page."""
    if settings == Settings():
        return "python -m benchmarks leaderboard"
    words = [f"--seeds {settings.seeds}", f"--row-s {settings.row_s:g}"]
    words.append(f"--minutes {settings.minutes:g}")
    words += [f"--loads {','.join(settings.loads)}"] if settings.loads else []
    words += [f"--policies {','.join(settings.policies)}"] if settings.policies else []
    return " ".join(["python -m benchmarks.leaderboard", *words])


def _how(settings: Settings, absent: Sequence[str], took_s: float) -> list[str]:
    core = "compiled" if state.__file__.endswith(".so") else "plain Python"
    return [
        f"Dovetail {version()} ({core}), Python {python_version()}, {duration_text(took_s)} of "
        f"processor time in all. At most {settings.row_s:g} s of it for a row (all its seeds) and "
        f"{settings.minutes:g} min for all; a row that runs out says so, and a faster machine may have "
        "figures there.",
        f"Where chance plays (generated loads, policies with a seed): seeds 0 to {settings.seeds - 1}, "
        "means with 95 % intervals (Student's t). Every other run gives the same figures each time; "
        "so do these, except policies whose searches stop by the clock (`limit_s`).",
        "Every policy of `dovetail policies` with its usual parameters, a name alone being its text; "
        "`elasticflow` and `chronus` once more with `refuse=false`. What a policy knows beyond "
        f"the present:\n{KNOWS}.",
        "mean, p99: completion time, from submission to end, of finished jobs. span: makespan. fair: "
        "Jain's index of the slowdowns (completion time over the job's own length, taken for at least "
        f"{SHORTEST_S:g} s). on time: jobs finished by their deadline, of all that have one; public "
        "traces name none. "
        f"kWh: nodes without jobs are off, others draw {known.NODE_WATTS:g} W and the board power of "
        f"each busy GPU ({_watts()}). These watts are assumed, not measured.",
        f"Moving or preempting a job costs it {known.RESTORE_S:g} s, but for traces with rules of "
        "their own (gavel, pollux). Front (`*`): nobody is as good in mean completion, fairness, "
        "deadlines kept and energy and better in one; who finishes fewer jobs than others, or not all "
        "seeds, is not on it.",
        "Without deadlines, priorities, users or elastic jobs in a trace, policies that look at these "
        "fall back to their order for equals. Results depend on slices and clusters: each is named.",
        *_absent(absent),
    ]  # fmt: skip


def _watts() -> str:
    named = ", ".join(f"{kind} {watts:g} W" for kind, watts in known.BOARD_WATTS.items())
    return f"{named}, others {known.OTHER_WATTS:g} W"


def _absent(absent: Sequence[str]) -> list[str]:
    return [f"Left out, as their files were not there: {', '.join(absent)}."] if absent else []


def _block(lines: Sequence[str]) -> str:
    return "\n".join(["```", *lines, "```"])


def _named(row: BoardRow) -> str:
    """The name, and what it knows: a predictor is told by its letter."""
    return f"{_TOLD.sub('', row.policy)} {row.knows}"


def table(rows: Sequence[BoardRow]) -> list[str]:
    """All rows of one load, the best mean first; those without figures below, with the reason."""
    shown = sorted((r for r in rows if r.runs), key=lambda r: middle(r, "mean_jct_s") or 0.0)
    if not shown:
        return _reasons(rows)
    best = front(rows)
    columns = [["policy, knows", *map(_named, shown)]]
    columns += [_times(shown, key, title) for key, title in _TIMES]
    columns += [_percent(shown, key, title) for key, title in _PARTS]
    columns.append(["kWh", *(_cell(row, "energy_kwh", 1.0) for row in shown)])
    columns.append(["front", *("*" if row.policy in best else "" for row in shown)])
    lines = figures_table(list(zip(*columns, strict=True)))
    return [*lines, *_reasons(rows), *_fewer(rows)]


def _times(rows: Sequence[BoardRow], key: str, title: str) -> list[str]:
    unit = unit_of(median([middle(row, key) or 0.0 for row in rows]))
    return [f"{title} {unit.name}", *(_cell(row, key, unit.seconds) for row in rows)]


def _percent(rows: Sequence[BoardRow], key: str, title: str) -> list[str]:
    return [title, *(_cell(row, key, 0.01) for row in rows)]


def _cell(row: BoardRow, key: str, unit: float) -> str:
    value, spread = middle(row, key), half_width(row, key)
    if value is None:
        return "-"
    return _digits(value / unit) + (f"±{_digits(spread / unit)}" if len(row.runs) > 1 else "")


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.1f}"


def _reasons(rows: Sequence[BoardRow]) -> list[str]:
    return [line for r in rows if r.reason for line in wrapped(f"{_named(r)}: {r.reason}")]


def _fewer(rows: Sequence[BoardRow]) -> list[str]:
    """Who refused jobs: its means are of fewer."""
    whole = complete(rows)
    fewer = [row for row in rows if row.runs and not row.reason and row not in whole]
    return [
        line
        for row in fewer
        for line in wrapped(
            f"{_named(row)}: figures of {middle(row, 'finished'):.1f} finished jobs only; the others "
            "were refused or not finished"
        )
    ]


def summary(loads: Sequence[Load], rows: Sequence[BoardRow]) -> list[str]:
    """Ratios by load, the best geometric mean first; those without one below."""
    by_load = [ratios([row for row in rows if row.load == load.name]) for load in loads]
    names = {row.policy: _named(row) for row in reversed(rows)}
    found = {policy: [own.get(policy) for own in by_load] for policy in names}
    ranked = sorted(found, key=lambda policy: (overall(found[policy]) or 1e9, policy))
    lines = [["policy, knows", *(load.name[:7] for load in loads), "all"]]
    for policy in ranked:
        cells = [*found[policy], overall(found[policy])]
        lines.append([names[policy], *map(_ratio, cells)])
    return figures_table(lines)


def _ratio(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 99.995 else f"{value:,.0f}"
