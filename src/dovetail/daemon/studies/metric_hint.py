"""For trials that print and are not understood: what they print, and an expression that would find
the metric there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from dovetail.daemon import logs
from dovetail.worlds.world import JobLog

_SHOWN: Final = 3  # lines
_LOOKED_AT: Final = 8192  # bytes at the end of the log
_LONGEST: Final = 160
_NUMBER = r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,3})?(?![\w.])|nan\b"
# A label of up to three words, what stands between, and a number.
_LABELLED = re.compile(
    rf"((?:[A-Za-z][\w./@-]{{0,30}} ){{0,2}}[A-Za-z][\w./@-]{{0,30}})"
    rf"((?:[^\w\n.+-]|-+(?=[>\s])){{1,6}})({_NUMBER})"
)
_OTHERS: Final = frozenset(("epoch", "epochs", "step", "iter", "iteration", "lr", "time", "eta"))
_VALUE = r"[-+.\w]+"


class Hint(NamedTuple):
    lines: tuple[str, ...]  # that were printed last, those with numbers if there are any
    pattern: str  # for `metric_pattern`; "" where none suggests itself


def hint(log: JobLog, metric: str) -> Hint:
    """What the log suggests; it may be any size and hold anything."""
    raw = b"".join(logs.whole(log, _LOOKED_AT)).decode(errors="replace")
    lines = [shown for line in re.split(r"[\r\n]+", raw) if (shown := logs.as_shown(line))]
    numbered = [line for line in lines if re.search(r"\d", line)]
    told = tuple(dict.fromkeys(line[:_LONGEST] for line in (numbered or lines)[-_SHOWN:]))
    return Hint(told, pattern_for(metric, numbered[-20:]))


def pattern_for(metric: str, lines: Sequence[str]) -> str:
    """For the number whose label is most like the metric's name; of several, the last."""
    if not metric.isidentifier():
        return ""  # no group can be called so
    found = [(_likeness(label, metric), label, between) for label, between in _labels(lines)]
    if not found:
        return ""
    _, label, between = max(reversed(found), key=lambda own: own[0])
    return f"{_literally(label)}{_literally(between)}(?P<{metric}>{_VALUE})"


def _labels(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        for match in _LABELLED.finditer(line):
            if match[1].split()[-1].lower() not in _OTHERS:
                yield match[1], match[2]


def _likeness(label: str, metric: str) -> float:
    one, other = (" ".join(re.split(r"[\W_]+", own.lower())) for own in (label, metric))
    return SequenceMatcher(None, one, other).ratio()


def _literally(text: str) -> str:
    """As it stands there, but for the number of spaces; YAML shall need no more than quotes."""
    escaped = re.sub(r"([][.^$*+?{}|()\\])", r"\\\1", text).replace("'", ".")
    return re.sub(r" +", r"\\s+", escaped)
