"""A day live: a daemon on this machine and real processes that sleep, asked by its API."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import live
from benchmarks.forecast_days import SLOTS, Made, laboratory
from benchmarks.forecast_said import Said
from dovetail.client.connection import Client
from dovetail.core.model import Seconds

_SHORTEST_S, _LONGEST_S = 0.05, 20.0
_LIVE_LOAD = 1.0


def lived(jobs: int, seed: int = 0) -> tuple[list[Said], float]:
    """A day of jobs that sleep, in minutes; and how busy the machine was meanwhile (1: every core)."""
    chance, found = Random(seed), list[Said]()
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

    def __init__(self, client: Client, home: Path, found: list[Said]) -> None:
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
            self._found.append(said)

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
