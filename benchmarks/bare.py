"""The yardstick: tight event loops over plain tuples and lists. No placement, no journal, no policy.

Jobs are (submitted, GPUs, duration), in order of submission. Each loop yields the same schedule, job by
job, as our policy of that name with `--placement count`: when each job first started and when it ended.
As everywhere, what happens at one instant happens before anyone is served.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

Jobs = Sequence[tuple[float, int, float]]


def fifo(jobs: Jobs, free: int) -> tuple[list[float], list[float]]:
    """First come, first served; a head that does not fit blocks."""
    queue: deque[int] = deque()
    ends: list[tuple[float, int]] = []
    number, i = len(jobs), 0
    started, ended = [0.0] * number, [0.0] * number
    arrives = jobs[0][0] if jobs else inf
    while True:
        if ends and ends[0][0] <= arrives:
            now, n = heappop(ends)
            free += jobs[n][1]
            ended[n] = now
        elif arrives < inf:
            now = arrives
            queue.append(i)
            i += 1
            arrives = jobs[i][0] if i < number else inf
        else:
            return started, ended
        if arrives == now or (ends and ends[0][0] == now):
            continue
        while queue and jobs[queue[0]][1] <= free:
            n = queue.popleft()
            _, gpus, duration = jobs[n]
            free -= gpus
            started[n] = now
            heappush(ends, (now + duration, n))


def srtf(jobs: Jobs, free: int) -> tuple[list[float], list[float]]:
    """Shortest remaining time first, preemptive, skipping what does not fit.

    At every event jobs are served in the order of what is left of them, and a job may take the GPUs
    of those that have more left.
    """
    ends: list[tuple[float, int]] = []  # a heap; rows of preempted jobs are stale
    running: list[tuple[float, int]] = []  # end, number; sorted
    waiting: list[tuple[float, int]] = []  # remaining, number; sorted
    number, i = len(jobs), 0
    started, ended = [-1.0] * number, [0.0] * number
    ends_at = [-1.0] * number  # of running jobs
    arrives = jobs[0][0] if jobs else inf
    while True:
        if ends and ends[0][0] <= arrives:
            now, n = heappop(ends)
            if ends_at[n] == now:
                ends_at[n] = -1.0
                ended[n] = now
                del running[bisect_left(running, (now, n))]
                free += jobs[n][1]
        elif arrives < inf:
            now = arrives
            insort(waiting, (jobs[i][2], i))
            i += 1
            arrives = jobs[i][0] if i < number else inf
        else:
            return started, ended
        if arrives == now or (ends and ends[0][0] == now):
            continue
        k = 0
        while k < len(waiting):
            left, n = waiting[k]
            gpus = jobs[n][1]
            if gpus > free:
                worst = len(running)
                room = free
                while worst and room < gpus:
                    end, victim = running[worst - 1]
                    if (end - now, victim) <= (left, n):
                        break
                    worst -= 1
                    room += jobs[running[worst][1]][1]
                if room < gpus:
                    if not free and worst == len(running):
                        break
                    k += 1
                    continue
                for end, victim in running[worst:]:
                    insort(waiting, (end - now, victim))
                    ends_at[victim] = -1.0
                del running[worst:]
                free = room
            del waiting[k]
            free -= gpus
            if started[n] < 0:
                started[n] = now
            end = ends_at[n] = now + left
            insort(running, (end, n))
            heappush(ends, (end, n))
