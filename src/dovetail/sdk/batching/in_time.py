"""Which batch of a line can still be in time. Lines stand in the order of their deadlines."""

from __future__ import annotations

from dovetail.sdk.batching.forming import SLACK_S, Durations, RequestLine


def too_late(now: float, line: RequestLine, seconds: Durations) -> int:
    """So many at the front would be late even alone."""
    end = now + seconds[1] - SLACK_S
    late = 0
    for request in line:
        if request.deadline >= end:
            break
        late += 1
    return late


def largest_in_time(
    now: float, line: RequestLine, seconds: Durations, most: int
) -> tuple[int, int]:
    """The largest batch whose requests are all in time if it begins now: how many at the front are not
    in it, since it would take too long for them, and its size; (0, 0) if there is none."""
    waiting = len(line)
    size = waiting if waiting < most else most
    if not size:
        return 0, 0
    # As a rule, everybody at the front is in time.
    if line[0].deadline >= now + seconds[size] - SLACK_S:
        return 0, size
    skipped = waiting - size
    while size:
        end = now + seconds[size] - SLACK_S
        if line[skipped].deadline >= end:  # of those who leave so many behind them, the first
            while skipped and line[skipped - 1].deadline >= end:
                skipped -= 1
            return skipped, size
        size -= 1
        skipped += 1
    return 0, 0


def window_in_time(now: float, line: RequestLine, seconds: Durations, wanted: int) -> int:
    """So many at the front are given up for a batch of the wanted size (early drop): the first of the
    others begins a batch, of that size or of all who are left, that is in time for it."""
    waiting = len(line)
    for skipped in range(waiting):
        size = min(wanted, waiting - skipped)
        if line[skipped].deadline >= now + seconds[size] - SLACK_S:
            return skipped
    return waiting
