"""Steps a second, from what jobs report: over the last half minute or so, by where they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dovetail.core.model import Seconds

MEASURED_S: Final = 2.0  # a speed is told over at least so long
MEASURED_REPORTS: Final = 4  # and so many reports
_HALF_S: Final = 15.0  # a window moves on by halves, so that it is never short again


class ReportWindow(NamedTuple):
    """The latest reports of a job in one place. Reports of one look at its file come at once: they
    tell how far it is, not how fast."""

    where: str  # a report from elsewhere begins another window
    began_at: Seconds
    began_step: float
    half_at: Seconds
    half_step: float
    at: Seconds
    step: float
    reports: int = 0
    reports_at_half: int = 0

    @property
    def seconds(self) -> Seconds:
        return self.at - self.began_at

    @property
    def rate(self) -> float | None:
        """Steps a second; None: too early to say."""
        if self.seconds < MEASURED_S or self.reports < MEASURED_REPORTS:
            return None
        rate = (self.step - self.began_step) / self.seconds
        return rate if rate > 0 else None


def heard(window: ReportWindow | None, where: str, at: Seconds, step: float) -> ReportWindow:
    """The window after a report."""
    if window is None or window.where != where or step < window.step:
        return ReportWindow(where, at, step, at, step, at, step)
    if at == window.began_at:
        return ReportWindow(where, at, step, at, step, at, step)
    later = window._replace(at=at, step=step, reports=window.reports + 1)
    since_half = later.reports - later.reports_at_half
    if at - later.half_at < _HALF_S or since_half < MEASURED_REPORTS:
        return later
    return ReportWindow(
        where, later.half_at, later.half_step, at, step, at, step, since_half, since_half
    )


class Pace(NamedTuple):
    """How fast a job was with so many whole GPUs of a kind, on so many nodes."""

    kind: str
    gpus: int
    nodes: int
    steps_per_s: float
    at: Seconds  # of the last report that counts


def with_pace(paces: tuple[Pace, ...], pace: Pace) -> tuple[Pace, ...]:
    """What was known before, and this instead of what was known of the same place. The first place
    that was measured stays the first."""
    places = [own[:3] for own in paces]
    if pace[:3] not in places:
        return (*paces, pace)
    known = list(paces)
    known[places.index(pace[:3])] = pace
    return tuple(known)


def latest_first(paces: Sequence[Pace]) -> list[Pace]:
    return sorted(paces, key=lambda pace: pace.at, reverse=True)
