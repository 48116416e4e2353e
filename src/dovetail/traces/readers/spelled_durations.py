"""Durations in words and with colons."""

from __future__ import annotations

import re

DAY_S, HOUR_S, MINUTE_S = 86_400.0, 3600.0, 60.0
NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
WORDS = re.compile(
    rf"(?:{NUMBER} ?(?:d|days?) ?)?(?:{NUMBER} ?(?:h|hrs?|hours?) ?)?"
    rf"(?:{NUMBER} ?(?:m|mins?|minutes?) ?)?(?:{NUMBER} ?(?:s|secs?|seconds?))?"
)
COLONS = re.compile(r"(?:(\d+)(?:-| days?,? ))?(\d+):([0-5]\d):([0-5]\d(?:\.\d*)?)")
SLURM_MINUTES = re.compile(r"(\d+)-(\d+):([0-5]\d)()")  # days, hours, minutes, nothing
TWO_PARTS = re.compile(r"\d+:\d\d")
IN_SECONDS = (DAY_S, HOUR_S, MINUTE_S, 1.0)


def spelled(text: str) -> float:
    """Seconds of `0:30:00`, `1-02:30:00` (as Slurm writes), `1 day 2:30:00`, `30m` or `1h 30min`."""
    plain = text.strip().lower()
    match = COLONS.fullmatch(plain) or SLURM_MINUTES.fullmatch(plain)
    if match is not None and match[1] and int(match[2][:9]) >= 24:
        match = None  # 1-30:00:00 is nothing that Slurm would write
    elif match is None:
        match = WORDS.fullmatch(plain) if plain else None
    if match is not None:
        return sum(float(part or 0) * unit for part, unit in zip(match.groups(), IN_SECONDS))  # noqa: B905
    if TWO_PARTS.fullmatch(plain):
        raise ValueError(
            f"could be minutes:seconds or hours:minutes; write 0:{plain} or {plain}:00"
        )
    raise ValueError("is not a number of seconds, nor a duration such as 30m, 2h or 1:30:00")
