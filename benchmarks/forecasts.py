"""How often what a forecast says first of a job holds: its start if it waits, and its end.

Simulated: days of 300 jobs under a policy, each job asked about when it has come. Live: a daemon on
this machine, real processes that sleep, asked by its API.

    python -m benchmarks.forecasts [PART ...] [--days N] [--seed TEXT] [--processes N]

measures only these parts (`live` is one), over so many days each, so many of them at once.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Final, NamedTuple

from benchmarks.forecast_days import JOBS, PARTS, SLOTS, day_of
from benchmarks.forecast_live import lived
from benchmarks.forecast_said import Said, lines
from benchmarks.lines import Line
from dovetail.api.job_row import JobDetails
from dovetail.core.entries import Action, Event
from dovetail.core.loop import run
from dovetail.core.model import JobId, Node, Seconds
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.active_policy import Chosen
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight.forecast import QueueForecast, shown
from dovetail.models.workload import Arrival
from dovetail.policies.between_users import owner
from dovetail.worlds.simulated import SimulatedCluster

POLICIES = ("fifo", "fair-share")
DAYS = 3
LIVE = "live"


class _Asked:
    """A state and a policy that are asked as a daemon's service is."""

    def __init__(self, policy: str, state: State) -> None:
        self.state: Final = state
        self.chosen: Final = Chosen(policy, state, lambda seconds: None)

    @property
    def clock(self) -> Any:
        return self

    def unix(self, at: Seconds) -> float:
        return at

    def look(self, look: Any) -> Any:
        return look(self.state, self.state.now)

    def job(self, job_id: str) -> JobDetails:
        raise KeyError(job_id)


class _Watched:
    """The world, in which everybody asks when their job has come and does not start at once."""

    def __init__(self, world: SimulatedCluster, asked: _Asked, found: list[Said]) -> None:
        self._world, self._asked, self._found = world, asked, found
        self._seen = 0  # tracks that were asked about, by sequence
        self._open: dict[JobId, list[Said]] = {}
        self._names: set[tuple[str, str]] = set()
        self._ended = 0

    def observe(self) -> Sequence[Event]:
        state = self._asked.state
        for track in list(state.past)[self._ended :]:
            self._names.add(_name(track))
            self._judge(track)
        self._ended = len(state.past)
        new = [track for track in state.tracks.values() if track.sequence >= self._seen]
        self._seen = max([track.sequence + 1 for track in new], default=self._seen)
        if new:
            forecast = shown(likenesses.take(self._asked), self._asked.unix)
            for track in new:
                self._ask(track, forecast)
        return self._world.observe()

    def _ask(self, track: Track, forecast: QueueForecast) -> None:
        known, now = _name(track) in self._names, self._asked.state.now
        spans = {"end": forecast.end(track.job.id)}
        if track.placement is None:
            spans["start"] = forecast.start(track.job.id)
        for what, span in spans.items():
            low = None if span is None else span.low - now
            high = None if span is None or span.high is None else span.high - now
            said = Said(known, what, low, high, truth=now)
            self._open.setdefault(track.job.id, []).append(said)
            self._found.append(said)

    def _judge(self, track: Track) -> None:
        for said in self._open.pop(track.job.id, ()):
            at = track.first_start_at if said.what == "start" else track.ended_at
            said.truth = at - said.truth

    def act(self, action: Action) -> None:
        self._world.act(action)


def _name(track: Track) -> tuple[str, str]:
    return owner(track.job), track.job.name


def simulated(arrivals: Sequence[Arrival], policy: str) -> list[Said]:
    """Of one day: everything that was said, and what came of it."""
    found: list[Said] = []
    state = State(5_000)
    asked = _Asked(policy, state)
    world = SimulatedCluster([Node("box", SLOTS)], arrivals)
    run(_Watched(world, asked, found), [asked.chosen], state)
    return found


# ----------------------------------------------------------------------------------------- measured


class _Day(NamedTuple):
    part: str
    number: int
    seed: str


def _said_on(day: _Day) -> list[Said]:
    policy = POLICIES[day.number % len(POLICIES)]
    return simulated(day_of(day.part, day.number, day.seed), policy)


def measured(
    parts: Sequence[str] = (), days: int = DAYS, seed: str = "", processes: int | None = None
) -> Iterator[Line]:
    """Four of five starts and ends inside the interval that was told first."""
    parts = parts or [*PARTS, LIVE]
    there = [part for part in parts if part != LIVE and PARTS[part].is_there]
    tasks = [_Day(part, number, seed) for part in there for number in range(days)]
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        found = pool.map(_said_on, tasks)
        for part in there:
            said = [own for _ in range(days) for own in next(found)]
            yield from lines(f"{PARTS[part].title}: {part}", said)
    if LIVE in parts:  # when the machine is free of the others
        said, busy = lived(JOBS)
        print(f"     live: the machine was {busy:.0%} busy, others' work included")
        yield from lines(LIVE, said)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("parts", nargs="*", metavar="PART", help=", ".join([*PARTS, LIVE]))
    options.add_argument("--days", type=int, default=DAYS, help="of each part")
    options.add_argument("--seed", default="", help="other days of the same kind")
    options.add_argument("--processes", type=int, help="days at once; one for each core otherwise")
    given = options.parse_args()
    for part in given.parts:
        if part not in PARTS and part != LIVE:
            options.error(f"there is no part {part!r}; choose from {', '.join([*PARTS, LIVE])}")
    missed = 0
    for line in measured(given.parts, given.days, given.seed, given.processes):
        print(line, flush=True)
        missed += not line.holds
    print(f"\n{missed} missed" if missed else "\nall hold")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
