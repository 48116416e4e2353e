"""Three policies to try, and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dovetail.analysis.contenders import BASELINE
from dovetail.analysis.policy_contest import Contest, Tried
from dovetail.text.durations import duration_text

NUMBER = 3
CLOSE = 1.05  # means up to so many times the best are called as good
WHOLE = "told the distribution of service of the whole trace; live it can only learn it"


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    policy: str
    why: str
    gain: float  # part of FIFO's mean completion time that it saves
    low: float | None
    high: float | None
    best: float  # part of the resamples in which it is the best


def choices(contest: Contest | None) -> tuple[PolicyChoice, ...]:
    """The best of all, the best without predictions, the best without preemption; if two of these
    are the same policy, the next in line."""
    rows = [row for row in contest.tried if not row.reference] if contest else []
    if all_alike(rows):
        return ()
    rows = [row for row in rows if row.policy != BASELINE and row.gain > 0]
    found: dict[str, PolicyChoice] = {}
    for row, why in _ranked(rows):
        known = found.get(row.policy)
        if known is None and len(found) < NUMBER:
            found[row.policy] = _choice(row, why)
        elif known is not None and why not in known.why and not why.startswith("next"):
            found[row.policy] = _choice(row, f"{known.why}, and {why}")
    return tuple(found.values())


def all_alike(rows: Sequence[Tried]) -> bool:
    """Are the means of these rows, best first, as good as equal?"""
    return not rows or rows[-1].mean_jct_s <= CLOSE * rows[0].mean_jct_s


def _ranked(rows: Sequence[Tried]) -> Iterator[tuple[Tried, str]]:
    kinds: tuple[tuple[Callable[[Tried], bool], str], ...] = (
        (lambda row: True, "the shortest mean completion time of all"),
        (lambda row: not row.told, "the shortest of those that need no prediction"),
        (lambda row: not row.preemptions, "the shortest of those that interrupt nobody"),
    )
    for fits, why in kinds:
        yield from ((row, why) for row in [own for own in rows if fits(own)][:1])
    yield from ((row, "next in line") for row in rows)


def _choice(row: Tried, why: str) -> PolicyChoice:
    if row.told == "services" and WHOLE not in why:
        why = f"{why} ({WHOLE})"
    return PolicyChoice(row.policy, why, row.gain, row.low, row.high, row.best)


def gain_text(gain: float, low: float | None, high: float | None) -> str:
    around = f" ({percent(low)} to {percent(high)})" if low is not None and high is not None else ""
    return f"{percent(gain)}{around}"


def percent(part: float | None) -> str:
    """Whole percents, but tenths near 100 and near 0, where they matter."""
    if part is None:
        return "–"
    value = 100 * part
    return f"{value:.1f} %" if abs(value) < 10 or 90 < abs(value) < 110 else f"{value:,.0f} %"


def choice_text(choice: PolicyChoice, contest: Contest) -> str:
    """One sentence."""
    row = next(own for own in contest.tried if own.policy == choice.policy)
    base = next(own for own in contest.tried if own.policy == BASELINE)
    return (
        f"{choice.why[0].upper()}{choice.why[1:]}: mean {duration_text(row.mean_jct_s)} instead of "
        f"{duration_text(base.mean_jct_s)} under {BASELINE}, "
        f"{gain_text(choice.gain, choice.low, choice.high)} less; 99 % of the jobs are done within "
        f"{duration_text(row.p99_jct_s)}; {row.preemptions:,} preemptions."
    )
