"""Times and durations as people say them."""

from __future__ import annotations

import time

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def span(seconds: float) -> str:
    """42 s, 12 min, 1 h 20 min, 3 d 4 h."""
    seconds = max(seconds, 0.0)
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < HOUR - MINUTE / 2:
        return f"{seconds / MINUTE:.0f} min"
    if seconds < DAY - MINUTE / 2:
        return _two(round(seconds / MINUTE), 60, "h", "min", seconds < 10 * HOUR)
    return _two(round(seconds / HOUR), 24, "d", "h", seconds < 100 * DAY)


def _two(whole: int, per: int, large: str, small: str, both: bool) -> str:
    many, rest = divmod(whole, per)
    return f"{many} {large} {rest} {small}" if both and rest else f"{many} {large}"


def ago(at: float, now: float) -> str:
    return "just now" if now - at < 1.0 else f"{span(now - at)} ago"


def about(at: float, now: float) -> str:
    """When something is expected: `in ~12 min`, `now`."""
    ahead = at - now
    if ahead < 1.0:
        return "now"
    return f"in ~{ahead:.0f} s" if ahead < MINUTE - 0.5 else f"in ~{span(ahead)}"


def clock(at: float, now: float) -> str:
    """18:40 today, Nov 14 18:40 this year, else the whole date."""
    then, today = time.localtime(at), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%b %e %H:%M" if then[0] == today[0] else "%Y-%m-%d %H:%M", then)


def moment(at: float, now: float) -> str:
    """A time of the past, both ways: `18:40:12 (3 min ago)`."""
    seconds = time.strftime(":%S", time.localtime(at))
    return f"{clock(at, now)}{seconds} ({ago(at, now)})"
