"""The yardstick: tight event loops over plain tuples and lists. No placement, no journal, no policy.

Jobs are (submitted, GPUs, duration). Each returns the mean completion time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

Jobs = Sequence[tuple[float, int, float]]


def fifo(jobs: Jobs, free: int) -> float:
    """First come, first served; a head that does not fit blocks."""
    queue: deque[tuple[float, int, float]] = deque()
    ends: list[tuple[float, int, float]] = []
    number, total, i = len(jobs), 0.0, 0
    while i < number or ends:
        if i < number and (not ends or jobs[i][0] <= ends[0][0]):
            job = jobs[i]
            now = job[0]
            queue.append(job)
            i += 1
        else:
            now, gpus, submitted = heappop(ends)
            free += gpus
            total += now - submitted
        while queue and queue[0][1] <= free:
            submitted, gpus, duration = queue.popleft()
            free -= gpus
            heappush(ends, (now + duration, gpus, submitted))
    return total / number


def srtf(jobs: Jobs, free: int) -> float:
    """Shortest remaining time first, preemptive, skipping what does not fit.

    The same schedule as the policy `srtf` with `--placement count`: at every event jobs are served in
    the order of what is left of them, and a job may take the GPUs of those that have more left.
    """
    ends: list[tuple[float, int]] = []  # a heap; rows of preempted jobs are stale
    running: list[tuple[float, int]] = []  # end, number; sorted
    waiting: list[tuple[float, int]] = []  # remaining, number; sorted
    end_of = [0.0] * len(jobs)
    total, i, number = 0.0, 0, len(jobs)
    while i < number or ends:
        if i < number and (not ends or jobs[i][0] <= ends[0][0]):
            now = jobs[i][0]
            insort(waiting, (jobs[i][2], i))
            i += 1
        else:
            now, n = heappop(ends)
            if end_of[n] != now:
                continue
            end_of[n] = -1.0
            del running[bisect_left(running, (now, n))]
            free += jobs[n][1]
            total += now - jobs[n][0]
        k = 0
        while k < len(waiting):
            left, n = waiting[k]
            gpus = jobs[n][1]
            if gpus > free:
                worst = len(running)
                room = free
                while worst and room < gpus and (running[worst - 1][0] - now, running[worst - 1][1]) > (left, n):
                    worst -= 1
                    room += jobs[running[worst][1]][1]
                if room < gpus:
                    if not free and worst == len(running):
                        break
                    k += 1
                    continue
                for end, victim in running[worst:]:
                    insort(waiting, (end - now, victim))
                    end_of[victim] = -1.0
                del running[worst:]
                free = room
            del waiting[k]
            free -= gpus
            end = end_of[n] = now + left
            insort(running, (end, n))
            heappush(ends, (end, n))
    return total / number
