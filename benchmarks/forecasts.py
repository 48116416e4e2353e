"""How often what a forecast says first of a job holds: its start if it waits, and its end.

Simulated: days of 300 jobs under a policy, each job asked about when it has come. Live: a daemon on
this machine, real processes that sleep, asked by its API.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Final

from benchmarks import live
from benchmarks.forecast_days import (
    CHOSEN_ON,
    DATA,
    JOBS,
    LEFT_OUT,
    Made,
    day,
    days_of_trace,
    laboratory,
    log_width,
)
from benchmarks.lines import Line
from dovetail.client.connection import Client
from dovetail.core.entries import Action, Event
from dovetail.core.loop import run
from dovetail.core.model import JobId, Node, Seconds
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.active_policy import Chosen
from dovetail.daemon.foresight import copy as likenesses
from dovetail.daemon.foresight.forecast import Forecast, shown
from dovetail.models.workload import Arrival
from dovetail.policies.fairness import owner
from dovetail.worlds.simulated import SimulatedCluster

SLOTS = 8
POLICIES = ("fifo", "fair-share")
DAYS = 3
WANTED = {True: 0.80, False: 0.75}  # by whether a job of that name had ended
TRACES = (
    "philly/philly_jobs_sep_oct.csv.gz",
    "alibaba_gpu_2023/openb_pod_list_default.csv.gz",
    "muri/trace3.csv.gz",
)


@dataclass
class Said:
    """The first that was said of one job, and what came of it. Seconds from then."""

    known: bool
    what: str
    low: Seconds | None  # None: unknown
    high: Seconds | None  # None: open
    truth: Seconds = -1.0

    @property
    def holds(self) -> bool:
        assert self.low is not None
        early, late = self.low - _SLACK_S, (self.high or 1e18) + _SLACK_S
        return early <= self.truth <= late


_SLACK_S = 0.05  # that starting a process takes, live


@dataclass
class Found:
    said: list[Said] = field(default_factory=list)

    def lines(self, name: str) -> Iterator[Line]:
        for what in ("start", "end"):
            for known in (True, False):
                rows = [own for own in self.said if own.known is known and own.what == what]
                told = [own for own in rows if own.low is not None]
                if len(told) >= _FEWEST:
                    yield self._line(f"{name}, {what}", known, rows, told)

    def _line(self, name: str, known: bool, rows: Sequence[Said], told: Sequence[Said]) -> Line:
        covered = sum(own.holds for own in told) / len(told)
        widths = [log_width(own.low or 0.0, own.high) for own in told if own.high is not None]
        wide = f"{2.718 ** median(widths):.1f} x wide" if widths else "open"
        unknown = 1 - len(told) / len(rows)
        which = "known" if known else "never seen"
        return Line(
            f"{name}, {which} ({len(told)} jobs)",
            f"{covered:.1%}, {wide}, {unknown:.0%} unknown",
            f"{WANTED[known]:.0%}",
            covered >= WANTED[known],
        )


_FEWEST = 20  # judged: fewer cannot tell


# --------------------------------------------------------------------------------------- simulated


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

    def job(self, job_id: str) -> dict[str, Any]:
        raise KeyError(job_id)


class _Watched:
    """The world, in which everybody asks when their job has come and does not start at once."""

    def __init__(self, world: SimulatedCluster, asked: _Asked, found: Found) -> None:
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

    def _ask(self, track: Track, forecast: Forecast) -> None:
        known, now = _name(track) in self._names, self._asked.state.now
        spans = {"end": forecast.end(track.job.id)}
        if track.placement is None:
            spans["start"] = forecast.start(track.job.id)
        for what, span in spans.items():
            low = None if span is None else span.low - now
            high = None if span is None or span.high is None else span.high - now
            said = Said(known, what, low, high, truth=now)
            self._open.setdefault(track.job.id, []).append(said)
            self._found.said.append(said)

    def _judge(self, track: Track) -> None:
        for said in self._open.pop(track.job.id, ()):
            at = track.first_start_at if said.what == "start" else track.ended_at
            said.truth = at - said.truth

    def act(self, action: Action) -> None:
        self._world.act(action)


def _name(track: Track) -> tuple[str, str]:
    return owner(track.job), track.job.name


def simulated(days: Iterable[Sequence[Arrival]], policies: Sequence[str] = POLICIES) -> Found:
    found = Found()
    for number, arrivals in enumerate(days):
        state = State(5_000)
        asked = _Asked(policies[number % len(policies)], state)
        world = SimulatedCluster([Node("box", SLOTS)], arrivals)
        run(_Watched(world, asked, found), [asked.chosen], state)
    return found


# -------------------------------------------------------------------------------------------- live

_SHORTEST_S, _LONGEST_S = 0.05, 20.0
_LIVE_LOAD = 1.0


def lived(jobs: int, seed: int = 0) -> tuple[Found, float]:
    """A day of jobs that sleep, in minutes; and how busy the machine was meanwhile (1: every core)."""
    chance, found = Random(seed), Found()
    makes = laboratory(chance)
    made = [next(makes) for _ in range(jobs)]
    seconds = [min(max(own.seconds / 720.0, _SHORTEST_S), _LONGEST_S) for own in made]
    apart = sum(seconds) / jobs / SLOTS / _LIVE_LOAD
    before, began = _busy_s(), time.monotonic()
    with live.daemon(SLOTS) as (client, home):
        people = _People(client, home, found)
        for own, lasts in zip(made, seconds, strict=True):
            people.submit_and_ask(own, lasts)
            time.sleep(chance.expovariate(1.0 / apart))
        while client.get("/v1/jobs")["total"]:
            time.sleep(0.2)
        people.judge()
    busy = (_busy_s() - before) / (time.monotonic() - began) / (os.cpu_count() or 1)
    return found, busy


class _People:
    """Who submit, and ask at once why their job waits and when it will end."""

    def __init__(self, client: Client, home: Path, found: Found) -> None:
        self._client, self._home, self._found = client, home, found
        self._asked: dict[str, list[Said]] = {}
        self._names: dict[str, str] = {}  # of jobs by id

    def submit_and_ask(self, own: Made, lasts: Seconds) -> None:
        """How long it lasts stands where no scheduler looks."""
        script = self._home / f"{own.user}-{own.words[1]}"
        script.write_text("exec sleep $LASTS\n")
        command = ["/bin/sh", str(script), *own.words[2:]]
        environment = {"PATH": os.environ["PATH"], "LASTS": f"{lasts:.3f}"}
        one = {
            "spec": {"command": command},
            "environment": environment,
            "workdir": "/",
            "umask": 18,
        }
        (job_id,) = self._client.post("/v1/jobs", {"jobs": [one]})["ids"]
        self._names[job_id] = script.name
        why = self._client.get(f"/v1/jobs/{job_id}/why")
        known = script.name in {self._names[row["id"]] for row in self._ended()}
        spans = {"end": why.get("end")}
        if why["phase"] == "queued" and why["reason"] != "soon":
            spans["start"] = why["start"]
        now = time.time()
        for what, span in spans.items():
            low = None if span is None else span["low"] - now
            high = None if span is None or span["high"] is None else span["high"] - now
            said = Said(known, what, low, high, truth=now)
            self._asked.setdefault(job_id, []).append(said)
            self._found.said.append(said)

    def judge(self) -> None:
        for row in self._ended():
            for said in self._asked.pop(row["id"], ()):
                at = row["started_at"] if said.what == "start" else row["ended_at"]
                said.truth = at - said.truth

    def _ended(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._client.get("/v1/history", limit=1000)["jobs"]
        return rows


def _busy_s() -> float:
    with open("/proc/stat") as file:
        fields = [int(own) for own in file.readline().split()[1:]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


# ----------------------------------------------------------------------------------------- measured


def measured() -> Iterator[Line]:
    """Four of five starts and ends inside the interval that was told first."""
    for title, families in (("chosen on", CHOSEN_ON), ("left out", LEFT_OUT)):
        for name, family in families.items():
            chances = [Random(f"{name}/{seed}") for seed in range(DAYS)]
            days = [day(family(chance), chance, SLOTS) for chance in chances]
            yield from simulated(days).lines(f"{title}: {name}")
    for path in TRACES:
        if (DATA / path).exists():
            days = list(days_of_trace(DATA / path, DAYS, seed=1))
            yield from simulated(days).lines(f"left out: {path.partition('/')[0]}")
    found, busy = lived(JOBS)
    print(f"     live: the machine was {busy:.0%} busy, others' work included")
    yield from found.lines("live")
