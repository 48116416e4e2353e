"""The yardstick: tight event loops over plain tuples and lists. No placement, no journal, no policy.

Jobs are (submitted, GPUs, duration). Each returns the mean completion time.
"""

from __future__ import annotations

from bisect import insort
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

    Running jobs stand by their end, waiting ones by what is left of them.
    """
    running: list[tuple[float, int, int, float]] = []  # end, number, GPUs, submitted
    waiting: list[tuple[float, int, int, float]] = []  # remaining, number, GPUs, submitted
    number, total, i = len(jobs), 0.0, 0
    while i < number or running:
        if i < number and (not running or jobs[i][0] <= running[0][0]):
            now, gpus, duration = jobs[i]
            job = (duration, i, gpus, now)
            i += 1
            if gpus > free:
                room, k = free, len(running)
                while k and room < gpus and running[k - 1][0] - now > duration:
                    k -= 1
                    room += running[k][2]
                if room < gpus:
                    insort(waiting, job)
                    continue
                for end, n, held, submitted in running[k:]:
                    insort(waiting, (end - now, n, held, submitted))
                del running[k:]
                free = room
            insort(running, (now + duration, job[1], gpus, now))
            free -= gpus
        else:
            now, _, gpus, submitted = running.pop(0)
            free += gpus
            total += now - submitted
        if waiting and free:
            k = 0
            while k < len(waiting) and free:
                left, n, gpus, submitted = waiting[k]
                if gpus <= free:
                    del waiting[k]
                    free -= gpus
                    insort(running, (now + left, n, gpus, submitted))
                else:
                    k += 1
    return total / number
