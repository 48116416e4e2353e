"""A study's metric in lines that were printed for people: `epoch 3/10 - loss: 0.5 - val_loss: 0.31`.

Nobody said how the line is made, so only what can hardly mean anything else is taken: the metric's
very name, then its value. What looks like another quantity (`best_val_loss`, `train loss` where the
metric is `loss`) is left alone: a trial that is not understood is said to be so, one that is
misunderstood would not be noticed. All expressions here take time in proportion to the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from dovetail.worlds.printed_parts import PARTS, PrintedPart, parts_of, words_of

_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,30}[ -/]{0,5}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\))")

_NUMBER = (
    r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3}){1,5}(?:\.\d{1,30})?|\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})"
    r"(?:[eE][-+]?\d{1,3})?|[-+]?(?i:nan|inf(?:inity)?)"
)
# `'val_loss': np.float64(0.31)`, `val_loss = 3.1e-1`, `val_loss 0.31`, `| val_loss | 0.31 |`
_VALUE = (
    r"""["'\])]{0,2}(?:[ \t]{0,20}(?P<sign>[:=]{1,2}|->|→|is\b|[|│┃])|[ \t])[ \t]{0,40}"""
    rf"""["'(]{{0,2}}(?:(?:[A-Za-z]\w{{0,19}}\.)?[A-Za-z]\w{{0,19}}\()?"""
    rf"""(?P<value>{_NUMBER})(?!\w|\.\w|,\d)"""
)
# What comes after a number that is no value, or not the one: `40%|███   | 4/10`, `9870/10000`,
# `0.40 -> 0.31`; in a table a second column; after a name and a space what belongs to the name, as in
# `mAP (0.5): 0.31`.
_GOES_ON = re.compile(r"%\||/\d|[ \t]{0,3}(?:-{1,2}>|=>|→)")
_COLUMN: Final = frozenset("|│┃")
_NEXT_COLUMN = re.compile(r"[ \t]{0,40}[|│┃][ \t]{0,40}[-+]?\.?\d")
_LABEL_ENDS = re.compile(r"[)\]]{0,2}[ \t]{0,3}[:=]")
# The metric of another time or of another trial: `Best epoch: 4, val_loss: 0.25`.
_OF_THE_BEST = re.compile(
    r"\bbest[ _](?:epoch|step|iteration|trial|run|model|checkpoint|weights|config)\b",
    re.IGNORECASE,
)
# Before a name with nothing but a space between, they make it the name of another quantity.
_QUALIFIERS: Final = frozenset(
    (
        *("best", "lowest", "highest", "min", "max", "minimum", "maximum", "smallest", "largest"),
        *("previous", "prev", "old", "target", "goal", "initial", "baseline"),
        *("train", "training", "val", "valid", "validation", "eval", "evaluation", "test"),
        *("testing", "dev", "train's", "training's"),
        *("last", "required", "desired", "balanced", "smoothed"),
        *("batch", "class", "ema", "macro", "micro", "weighted"),
    )
)
_TOP = re.compile(r"\btop[-_ ]?(?!1\b)\d{1,4}[ \t:]{1,3}$", re.IGNORECASE)  # `Top-5 accuracy`
# `Loss: 0.5 (0.6)`: of a batch, and the average so far, which is of all when the count is full.
_AVERAGE = re.compile(rf"[ \t]{{0,3}}\([ \t]{{0,9}}(?P<average>{_NUMBER})[ \t]{{0,3}}\)")
_FULL = re.compile(r"\[[ \t]{0,9}(\d{1,9})/[ \t]{0,9}\1(?!\d)")
_WORD_BEFORE = re.compile(r"([A-Za-z]{1,12}(?:'s)?)[ \t:]{1,3}$")
_LONGEST_BEFORE = 17
_BAR = re.compile(r"(?<![\w./])\d{1,12}/(\d{1,12})(?![\w/]|\.\d)")
_STEP = re.compile(
    r"""(?<![\w./-])(epoch|ep|global[_ ]step|step|iteration|iter)['"]?[ \t]{0,9}[:=#]?[ \t]{0,9}"""
    r"""[\[(]?[ \t]{0,9}(\d{1,15})(?:\.0{1,10})?(?![\w%]|\.\d)""",
    re.IGNORECASE,
)


class Sought(NamedTuple):
    """The metric that a study wants to hear from its trials."""

    metric: str
    steps: int = 0  # of a whole trial; 0: not known
    every: int = 1  # so many of them are made from one report to the next


def value_in(line: str, metric: str) -> float | None:
    """The metric's value, if the line tells it. The very name goes before one that is spelled a
    little differently (`Val Loss`)."""
    key, patterns = _patterns(metric)
    if key not in line.lower():  # as a rule: that is ten times as quick to see
        return None
    best = _OF_THE_BEST.search(line)
    upto = len(line) if best is None else best.start()
    parts = parts_of(line)
    others = [part for part in parts if part.hides(metric)]
    for pattern in patterns:
        for match in pattern.finditer(line):
            value = _value(line, match) if match.start() <= upto else None
            if value is not None and not any(own.holds(match.start()) for own in others):
                return value
    return _in_a_part(line, metric, parts, upto) if parts else None


def _value(line: str, match: re.Match[str], since: int = 0) -> float | None:
    """None: it is of something else, or which of several it is cannot be told. What stands before
    `since` is taken into account already."""
    if _is_qualified(line, match.start(), since) or not _is_all(line, match):
        return None
    average = _AVERAGE.match(line, match.end("value"))
    if average is not None and _FULL.search(line) is None:
        return None
    found = match["value"] if average is None else average["average"]
    return float(found.replace(",", ""))


def _in_a_part(line: str, metric: str, parts: Sequence[PrintedPart], upto: int) -> float | None:
    """`val_loss` where the line says that it is of `val`, and then `loss`; not if it says two."""
    found: set[float] = set()
    for part in parts:
        rest = part.rest_of(metric)
        for match in _loosely(rest).finditer(line, part.start, min(part.end, upto)) if rest else ():
            value = _value(line, match, part.start)
            if value is not None and part is _innermost(parts, match.start()):
                found.add(value)
                break
    return found.pop() if len(found) == 1 else None


def _innermost(parts: Sequence[PrintedPart], place: int) -> PrintedPart | None:
    holding = [own for own in parts if own.holds(place)]
    return min(holding, key=lambda own: own.end - own.start, default=None)


def counts_batches(line: str, steps: int) -> bool:
    """Does a progress bar count something else than the steps of the trial?"""
    match = _BAR.search(line) if steps else None
    return match is not None and int(match[1]) != steps


def step_in(line: str, steps: int) -> float | None:
    """The epoch that it names, else the step; none that a whole trial does not have."""
    found: dict[bool, int] = {}
    for match in _STEP.finditer(line):
        number = int(match[2])
        if not _is_qualified(line, match.start()) and (not steps or number <= steps):
            found.setdefault(match[1][:2].lower() == "ep", number)
    return found.get(True, found.get(False))


def without_colours(line: str) -> str:
    return _ANSI.sub("", line) if "\x1b" in line else line


@lru_cache(maxsize=256)
def _patterns(metric: str) -> tuple[str, tuple[re.Pattern[str], ...]]:
    """Letters that any line that tells it has, and how it is told there."""
    exact = re.compile(rf"(?<![\w./@-]){re.escape(metric)}{_VALUE}")
    words = words_of(metric)
    if not words:
        return metric.lower(), (exact,)
    inner = [*words[1:]] if len(words) > 1 and words[0] in PARTS else words
    return max(inner, key=len), (exact, _loosely(words))


@lru_cache(maxsize=256)
def _loosely(words: tuple[str, ...]) -> re.Pattern[str]:
    loose = "[ _./@-]?".join(map(re.escape, words))
    return re.compile(rf"(?<![\w./@-]){loose}{_VALUE}", re.IGNORECASE)


def _is_qualified(line: str, place: int, since: int = 0) -> bool:
    since = max(place - _LONGEST_BEFORE, since)
    before = _WORD_BEFORE.search(line, since, place)
    if _TOP.search(line, since, place):
        return True
    return before is not None and before[1].lower() in _QUALIFIERS


def _is_all(line: str, match: re.Match[str]) -> bool:
    """Is the number the value, and the only one?"""
    sign, end = match["sign"], match.end("value")
    if _GOES_ON.match(line, end):
        return False
    if sign is None:
        return _LABEL_ENDS.match(line, end) is None
    return sign not in _COLUMN or _NEXT_COLUMN.match(line, end) is None
