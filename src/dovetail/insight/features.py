"""The features of each job of a trace as a table: columns, their groups, and when each is known.

A job's history is computed from the jobs that had ended when it was submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import log1p, nan
from operator import attrgetter

import numpy as np

from dovetail.core.model import Job
from dovetail.models.workload import Arrival

SUBMIT, HISTORY, PROFILE, RUN = LEVELS = ("submit", "history", "profile", "run")

# known after five minutes of profiling, and after an hour of running
PROFILE_S, RUN_S = 300.0, 3600.0
_DAY_S = 86_400.0
_MOST_CODES = 250  # of a text column; rarer values share one code: boosting bins into 255
RECENT, GAP = "recent past", "since the last"
_WEIGHT = 0.2  # of the newest; a mean over everything would mark the date, not the job


@dataclass(frozen=True)
class Features:
    """Rows are jobs by time of submission. A text column is stored as codes, missing as NaN."""

    names: tuple[str, ...]  # of the columns that vary
    groups: Mapping[str, tuple[str, ...]]  # columns that express the same thing: user, size, …
    levels: Mapping[str, str]  # by column: when it is known, one of LEVELS
    categorical: frozenset[str]
    columns: Mapping[str, np.ndarray]
    submitted: np.ndarray
    duration: np.ndarray
    gpus: np.ndarray
    left_out: Mapping[str, str]  # groups without information here, and why
    # the texts behind the codes
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def upto(self, level: str) -> tuple[str, ...]:
        """The columns known at that level."""
        known = LEVELS[: LEVELS.index(level) + 1]
        return tuple(name for name in self.names if self.levels[name] in known)

    def known_before_start(self) -> tuple[str, ...]:
        """The groups with information that is known before the job runs."""
        known = set(self.upto(HISTORY))
        return tuple(group for group, names in self.groups.items() if known & set(names))


@dataclass(frozen=True)
class _Text:
    """A named property, of which jobs that finished before give a history."""

    group: str
    of: Callable[[Job], str]
    absent: str


_TEXTS = (
    _Text("user", attrgetter("user"), "the trace names no users"),
    _Text("name", attrgetter("name"), "the trace gives jobs no names"),
    _Text("tenant", attrgetter("tenant"), "the trace names no tenants"),
    _Text("model", attrgetter("model"), "the trace names no models"),
    _Text("study", attrgetter("group"), "the trace names no studies or pipelines"),
    _Text("GPU kind", lambda job: "/".join(job.kinds), "no job asks for a kind of GPU"),
)


@dataclass(frozen=True)
class _Figure:
    group: str
    column: str
    of: Callable[[Arrival], float | None]


def _less(due: float | None, now: float) -> float | None:
    return None if due is None else due - now


_FIGURES = (
    _Figure("size", "gpus", lambda a: float(a.job.gpus)),
    _Figure("size", "share", lambda a: float(a.job.share)),
    _Figure("size", "least gpus", lambda a: a.job.min_gpus),
    _Figure("size", "most gpus", lambda a: a.job.max_gpus),
    _Figure("host", "cpus", lambda a: a.job.cpus),
    _Figure("host", "memory", lambda a: a.job.memory_gb),
    _Figure("host", "gpu memory", lambda a: a.job.gpu_memory_gb),
    _Figure("estimate", "time limit", lambda a: a.job.time_limit_s),
    _Figure("estimate", "estimate", lambda a: getattr(a.job.estimate, "seconds", None)),
    _Figure("priority", "priority", lambda a: a.job.priority),
    _Figure("deadline", "time to deadline", lambda a: _less(a.job.deadline, a.at)),
)
_ABSENT = {
    "size": "every job asks for the same GPUs",
    "host": "no job asks for CPUs or memory of its own",
    "estimate": "the trace has no time limits or estimates",
    "priority": "all priorities are equal",
    "deadline": "no job has a deadline",
    "calendar": "the trace is shorter than two days",
    "recent jobs": "no job ended before another was submitted",
    "first minutes": "no duration differs in its first minutes",
    "first hour": "no duration differs in its first hour",
}


def features_of(arrivals: Sequence[Arrival]) -> Features:
    """The features of every job, with the history of jobs that had ended when it was submitted.

    A trace does not record waiting times, so jobs count as ended after their duration.
    """
    ordered = sorted(arrivals, key=attrgetter("at"))
    submitted = np.array([a.at for a in ordered], dtype=float)
    duration = np.array([a.work_s for a in ordered], dtype=float)
    gpus = np.array([a.job.gpus for a in ordered], dtype=float)
    table = _Table()
    for figure in _FIGURES:
        column = np.array([nan if (v := figure.of(a)) is None else v for a in ordered], float)
        table.add(figure.group, figure.column, SUBMIT, column)
    _add_past(table, "size", gpus, submitted, duration)
    for text in _TEXTS:
        _add_text(table, text, [text.of(a.job) for a in ordered], submitted, duration)
    _add_calendar(table, submitted)
    _add_past(table, "recent jobs", np.zeros(len(ordered)), submitted, duration)
    table.add("first minutes", "first minutes", PROFILE, np.minimum(duration, PROFILE_S))
    table.add("first hour", "first hour", RUN, np.minimum(duration, RUN_S))
    return table.features(submitted, duration, gpus)


class _Table:
    """Collects the columns that vary."""

    def __init__(self) -> None:
        self._columns: dict[str, np.ndarray] = {}
        self._groups: dict[str, tuple[str, ...]] = {}
        self._levels: dict[str, str] = {}
        self._labels: dict[str, tuple[str, ...]] = {}
        self._asked: dict[str, str] = dict(_ABSENT)

    def add(self, group: str, column: str, level: str, values: np.ndarray) -> None:
        self._groups.setdefault(group, ())
        if _varies(values):
            self._columns[column] = values
            self._levels[column] = level
            self._groups[group] += (column,)

    def add_text(self, text: _Text, values: Sequence[str]) -> None:
        codes, self._labels[text.group] = _coded(values)
        self.add(text.group, text.group, SUBMIT, codes)

    def leave_out(self, group: str, why: str) -> None:
        self._groups.setdefault(group, ())
        self._asked[group] = why

    def features(self, submitted: np.ndarray, duration: np.ndarray, gpus: np.ndarray) -> Features:
        said = {group: names for group, names in self._groups.items() if names}
        return Features(
            tuple(self._columns),
            said,
            self._levels,
            frozenset(self._labels),
            self._columns,
            submitted,
            duration,
            gpus,
            {
                g: self._asked.get(g, "it is the same for all")
                for g in self._groups
                if g not in said
            },
            self._labels,
        )


def _varies(values: np.ndarray) -> bool:
    missing = np.isnan(values)
    if missing.all():
        return False
    first = values[~missing][0]
    return bool(missing.any() or (values != first).any())


def _add_text(
    table: _Table, text: _Text, values: list[str], submitted: np.ndarray, duration: np.ndarray
) -> None:
    different = set(values)
    if len(different) < 2:
        same = f"every job has the {text.group} {next(iter(different), '')!r}"
        table.leave_out(text.group, same if any(different) else text.absent)
        return
    table.add_text(text, values)
    _add_past(table, text.group, _identities(values), submitted, duration)


def _add_past(
    table: _Table, group: str, keys: np.ndarray, submitted: np.ndarray, duration: np.ndarray
) -> None:
    for what, column in past_of(keys, submitted, duration).items():
        table.add(group, f"{group}: {what}", HISTORY, column)


def _add_calendar(table: _Table, submitted: np.ndarray) -> None:
    """Hours and days that occur only once would only be another name for elapsed time."""
    table.leave_out("calendar", _ABSENT["calendar"])
    span = float(submitted[-1] - submitted[0]) if len(submitted) else 0.0
    if span >= 2 * _DAY_S:
        table.add("calendar", "hour", SUBMIT, submitted % _DAY_S // 3600.0)
    if span >= 14 * _DAY_S:
        table.add("calendar", "weekday", SUBMIT, submitted // _DAY_S % 7)


def _identities(values: Iterable[str]) -> np.ndarray:
    number: dict[str, int] = {}
    numbers: np.ndarray = np.array([number.setdefault(v, len(number)) for v in values], float)
    return numbers


def _coded(values: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """The most frequent values as codes, all rarer ones as one more code, none as NaN; and the texts."""
    from collections import Counter

    counts = Counter(value for value in values if value)
    labels = [value for value, _ in counts.most_common(_MOST_CODES)]
    number = {"": nan, **{value: float(i) for i, value in enumerate(labels)}}
    codes = np.array([number.get(value, float(_MOST_CODES)) for value in values])
    return codes, (*labels, *(["others"] if len(counts) > _MOST_CODES else []))


def past_of(
    keys: np.ndarray, submitted: np.ndarray, duration: np.ndarray
) -> Mapping[str, np.ndarray]:
    """Over jobs with the same key: the mean log duration of those that ended before, the newest
    weighing most, and the log of the time since the last submission. NaN: none yet."""
    recent: dict[float, float] = {}
    last: dict[float, float] = {}
    recent_of, gap_of = [], []
    running: list[tuple[float, float, float]] = []
    rows = zip(keys.tolist(), submitted.tolist(), duration.tolist(), strict=True)
    for key, at, seconds in rows:
        while running and running[0][0] <= at:
            _, whose, length = heappop(running)
            recent[whose] = (1 - _WEIGHT) * recent.get(whose, length) + _WEIGHT * length
        recent_of.append(recent.get(key, nan))
        gap_of.append(log1p(at - last[key]) if key in last else nan)
        last[key] = at
        heappush(running, (at + seconds, key, log1p(seconds)))
    return {RECENT: np.array(recent_of), GAP: np.array(gap_of)}
