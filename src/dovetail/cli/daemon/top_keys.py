"""The keys of `dovetail top`: what is chosen, filtered, sorted and asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from dovetail.api.job_row import JobRow
from dovetail.cli.jobs.job_columns import lasted
from dovetail.cli.reach import ListedJob

HELP: Final = "↑↓ move  / filter  s sort  l log  w why  ⏎ show  c cancel  p pause  q quit"
_KEY: Final = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1bO.|.", re.DOTALL)  # ECMA-48
_ESCAPES: Final = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down",
    "\x1b[5~": "page up", "\x1b[6~": "page down",
    "\x1b[H": "home", "\x1b[F": "end", "\x1bOH": "home", "\x1bOF": "end",
    "\x1b[1~": "home", "\x1b[4~": "end",
}  # fmt: skip
_NAMES: Final = {
    "\r": "enter", "\n": "enter", "\x1b": "escape", "\x7f": "erase", "\x08": "erase",
    "\x03": "quit", "\x04": "quit", "q": "quit", "Q": "quit", "k": "up", "j": "down",
    "g": "home", "G": "end",
}  # fmt: skip
_MOVES: Final = {
    "up": -1,
    "down": 1,
    "page up": -10,
    "page down": 10,
    "home": -1 << 30,
    "end": 1 << 30,
}
_PANELS: Final = {"l": "log", "w": "why", "enter": "show"}
_SORTS: Final[dict[str, Callable[[JobRow], tuple[object, ...]]]] = {
    "queue order": lambda row: (),
    "longest": lambda row: (-lasted(row),),
    "most GPUs": lambda row: (-row.gpus * row.share,),
    "priority": lambda row: (-row.priority,),
    "user": lambda row: (row.user,),
    "name": lambda row: (row.name,),
}


class TopKeys(NamedTuple):
    """What the keys so far have led to. `wish` is to be carried out: `cancel`, `pause`, `resume`."""

    chosen: str = ""  # the id of a job
    filter: str = ""
    types: bool = False  # the filter is being typed
    sort: str = "queue order"
    panel: str = ""  # log, why, show
    asks: str = ""  # a wish that waits for a yes
    wish: str = ""
    says: str = ""  # what came of the last one
    quits: bool = False


def typed_keys(data: bytes) -> Iterator[str]:
    """The names of the keys, or the characters."""
    for key in _KEY.findall(data.decode(errors="ignore")):
        yield _ESCAPES.get(key, key)


def in_view(rows: Sequence[ListedJob], keys: TopKeys) -> list[ListedJob]:
    """Those that pass the filter, as sorted. A word passes jobs that have it in id, name, user…"""
    words = keys.filter.lower().split()
    found = [row for row in rows if all(word in _text(row.job) for word in words)]
    return sorted(found, key=lambda row: _SORTS[keys.sort](row.job))


def _text(row: JobRow) -> str:
    return f"{row.id} {row.name} {row.user} {row.tenant} {row.phase} {row.group}".lower()


def after(keys: TopKeys, key: str, rows: Sequence[ListedJob]) -> TopKeys:
    """`rows` are those in view."""
    keys = keys._replace(says="")
    if keys.types:
        return _typing(keys, key)
    name = _NAMES.get(key, key)
    if keys.asks:
        wish = keys.asks if key in "yY" else ""
        return keys._replace(asks="", wish=wish, says="" if wish else "left as it is")
    if name == "quit" or (name == "escape" and not (keys.panel or keys.filter)):
        closes = keys.panel and key in "qQ"
        return keys._replace(panel="") if closes else keys._replace(quits=True)
    if name == "escape":
        return keys._replace(panel="") if keys.panel else keys._replace(filter="")
    if name in _MOVES:
        return keys._replace(chosen=_moved(keys.chosen, _MOVES[name], rows))
    if key == "/":
        return keys._replace(types=True, panel="")
    if key == "s":
        return keys._replace(sort=_next(keys.sort), panel="")
    return _about_one(_with_a_choice(keys, rows), name, rows)


def _about_one(keys: TopKeys, name: str, rows: Sequence[ListedJob]) -> TopKeys:
    row = next((own.job for own in rows if own.job.id == keys.chosen), None)
    if row is None:
        return keys
    if name in _PANELS:
        return keys._replace(panel="" if keys.panel == _PANELS[name] else _PANELS[name])
    if name == "c":
        return keys._replace(asks="cancel")
    if name == "p":
        return keys._replace(wish="resume" if is_paused(row) else "pause")
    return keys


def is_paused(row: JobRow) -> bool:
    return row.reason.startswith(("paused", "held"))


def _typing(keys: TopKeys, key: str) -> TopKeys:
    name = _NAMES.get(key, "") if not key.isprintable() or len(key) > 1 else ""
    if name == "quit":
        return keys._replace(quits=True)
    if name in ("enter", "escape"):
        return keys._replace(types=False, filter=keys.filter if name == "enter" else "")
    if name == "erase":
        return keys._replace(filter=keys.filter[:-1])
    return keys._replace(filter=keys.filter + key) if len(key) == 1 and key.isprintable() else keys


def _with_a_choice(keys: TopKeys, rows: Sequence[ListedJob]) -> TopKeys:
    """Where none is chosen, or that one has gone, the first."""
    ids = [row.job.id for row in rows]
    return keys if keys.chosen in ids or not ids else keys._replace(chosen=ids[0])


def _moved(chosen: str, by: int, rows: Sequence[ListedJob]) -> str:
    ids = [row.job.id for row in rows]
    if not ids:
        return ""
    place = (ids.index(chosen) if chosen in ids else -1) + by
    return ids[min(max(place, 0), len(ids) - 1)]


def _next(sort: str) -> str:
    names = list(_SORTS)
    return names[(names.index(sort) + 1) % len(names)]
