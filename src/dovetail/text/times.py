"""Clock times as people write them."""

from __future__ import annotations

import time

from dovetail.text.durations import MINUTE, duration_text

_NEAR_S = 100.0


def ago(at: float, now: float) -> str:
    return "just now" if now - at < 1.0 else f"{duration_text(now - at)} ago"


def about(at: float, now: float) -> str:
    """When something is expected: `in ~12 min`, `now`."""
    ahead = at - now
    if ahead < 1.0:
        return "now"
    return f"in ~{ahead:.0f} s" if ahead < MINUTE - 0.5 else f"in ~{duration_text(ahead)}"


def clock(at: float, now: float, seconds: bool = False) -> str:
    """18:40 today, 3 Oct 18:40 this year, else 3 Oct 2027 18:40. The pages write it alike: `clockText`
    of `reports/assets/units.js`."""
    then, today = time.localtime(at), time.localtime(now)
    told = time.strftime("%H:%M:%S" if seconds else "%H:%M", then)
    if then[:3] == today[:3]:
        return told
    year = "" if then[0] == today[0] else f" {then[0]}"
    return f"{then[2]} {time.strftime('%b', then)}{year} {told}"


def clock_near(at: float, now: float) -> str:
    """The same, to the second if it is that close."""
    return clock(at, now, seconds=abs(at - now) < _NEAR_S)


def moment(at: float, now: float) -> str:
    """A past time, both ways: `18:40:12 (3 min ago)`."""
    return f"{clock(at, now, seconds=True)} ({ago(at, now)})"
