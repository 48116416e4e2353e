"""A real job on 1, 4, 2, then 3 slots, while others come and go; then the same simulated."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from benchmarks import live
from benchmarks.elastic_losses import EXAMPLE, curve_lines, within_5_percent_of_profile
from benchmarks.lines import Line
from dovetail.client.connection import Client
from dovetail.core.entries import (
    Finished,
    JournalEntry,
    NodeJoined,
    Reported,
    Resize,
    Restored,
    Saved,
    Start,
    Submitted,
)
from dovetail.core.journal import Journal, decode
from dovetail.core.loop import run
from dovetail.core.model import Interruption, Job, JobId, Node, Placement, Seconds
from dovetail.core.paces import Pace
from dovetail.core.state import State
from dovetail.models.workload import Arrival
from dovetail.policies import registry
from dovetail.policies.placement import consolidated
from dovetail.policies.registry import Knowledge
from dovetail.predict.scaling import fitted
from dovetail.store import JournalReader
from dovetail.worlds.simulated import SimulatedCluster

POLICY = "flex"
SIZES = [1, 4, 2, 3]  # of the elastic job, one after the other
EPOCHS, SAMPLES, BATCH = 60, 240, 24
_LONGEST_S = 300.0
_HOLDS = "while [ ! -e {go} ]; do sleep 0.05; done"  # keeps its slots until it is let go


@dataclass(frozen=True, slots=True)
class Played:
    """What the journal says of the run."""

    entries: Sequence[tuple[Seconds, JournalEntry]]
    elastic: JobId

    @property
    def decisions(self) -> list[tuple[JobId, int]]:
        """Who was given how many slots, in order."""
        return decided([entry for _, entry in self.entries])


def decided(entries: Sequence[JournalEntry]) -> list[tuple[JobId, int]]:
    found = [entry for entry in entries if isinstance(entry, Start | Resize)]
    return [(entry.job_id, entry.placement.gpus) for entry in found]


# ---------------------------------------------------------------------------------------------- live


class Stage:
    """A daemon with four slots, the elastic job, and jobs that stay until they are let go."""

    def __init__(self, client: Client, home: Path) -> None:
        self._client = client
        self._home = home
        self.elastic = ""

    def hold(self, *slots: int) -> list[Path]:
        """Jobs with so many slots each, handed in at once; each is let go by its file."""
        files = [self._home / f"go-{time.monotonic_ns()}-{i}" for i in range(len(slots))]
        specs = [
            {"command": ["/bin/sh", "-c", _HOLDS.format(go=file)], "resources": {"gpus": number},
             "estimate": "2m", "name": file.name}
            for file, number in zip(files, slots, strict=True)
        ]  # fmt: skip
        one = {"environment": live.environment(), "workdir": str(self._home), "umask": 18}
        self._client.post("/v1/jobs", {"jobs": [{**one, "spec": spec} for spec in specs]})
        return files

    def start(self, argv: Sequence[str]) -> None:
        spec = {"command": list(argv), "elastic": {"min": 1, "max": 4}, "estimate": "10m"}
        one = {"environment": live.environment(), "workdir": str(self._home), "umask": 18}
        (self.elastic,) = self._client.post("/v1/jobs", {"jobs": [{**one, "spec": spec}]})["ids"]

    def wait_until_measured(self, slots: int, seconds: Seconds) -> None:
        """Until its speed there has been measured for so long."""
        self._wait(lambda: self._measured_s(slots) >= seconds, f"nothing measured on {slots}")

    def _measured_s(self, slots: int) -> Seconds:
        row = self._client.get(f"/v1/jobs/{self.elastic}")
        assert row["ended_at"] is None, f"it ended before it had {slots} slots: give it more to do"
        held = sum(len(piece["gpus"]) for piece in row["placement"])
        speeds = [own for own in row["speeds"] if own["gpus"] == slots == held]
        if not speeds or row["phase"] != "running":
            self._since = time.time()
            return 0.0
        return float(speeds[0]["at"]) - self._since

    def wait_until_all_ended(self) -> None:
        self._wait(lambda: not self._client.get("/v1/jobs")["jobs"], "jobs are left")

    def wait_until_ended(self) -> None:
        self._wait(
            lambda: self._client.get(f"/v1/jobs/{self.elastic}")["ended_at"] is not None,
            "it runs on",
        )

    _since = 0.0

    @staticmethod
    def _wait(is_so: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + _LONGEST_S
        while not is_so():
            assert time.monotonic() < until, otherwise
            time.sleep(0.1)


def played(
    argv: Sequence[str], measured_s: Seconds, policy: str = POLICY, enough: Path | None = None
) -> Played:
    """One slot beside a job with three; four; two beside two jobs; three beside one. `enough` is the
    file by which the elastic job is told that it has done enough, if it waits for one."""
    with live.daemon(slots=4, policy=policy) as (client, home):
        stage, began = Stage(client, home), time.monotonic()
        (three,) = stage.hold(3)
        stage.start(argv)
        stage.wait_until_measured(1, measured_s)
        three.touch()
        stage.wait_until_measured(4, measured_s)
        one, other = stage.hold(1, 1)
        stage.wait_until_measured(2, measured_s)
        one.touch()
        stage.wait_until_measured(3, measured_s)
        if enough is not None:
            enough.touch()
        stage.wait_until_ended()
        time.sleep(
            0.1 * (time.monotonic() - began)
        )  # it stays until the other has ended, simulated too
        other.touch()
        stage.wait_until_all_ended()
        return Played(journal_of(home), JobId(stage.elastic))


def journal_of(home: Path) -> list[tuple[Seconds, JournalEntry]]:
    with closing(JournalReader(home / "dovetail.db")) as reader:
        lines = [line for _, line in reader.lines_after(0)]
    return [(float(json.loads(line)["at"]), decode(line)) for line in lines]


# --------------------------------------------------------------------------------------- simulated


@dataclass(frozen=True)
class AsPlayed:
    """How fast the elastic job really was, by its slots."""

    elastic: JobId
    paces: tuple[Pace, ...]

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        return self.steps_per_s(gpus) / self.steps_per_s(1) if job.id == self.elastic else 1.0

    def steps_per_s(self, gpus: int) -> float:
        known = {pace.gpus: pace.steps_per_s for pace in self.paces}
        law = fitted([(pace.gpus, pace.steps_per_s) for pace in self.paces])
        assert law is not None
        return known.get(gpus) or law.steps_per_s(gpus)

    def on(self, job: Job, placement: Placement, nodes: Sequence[Node]) -> float:
        return self.speed(job, "cpu", placement.gpus, 1)


def simulated(real: Played, policy: str = POLICY) -> list[tuple[Seconds, JournalEntry]]:
    """The same jobs at the same times, with their real speeds, lengths and costs of a resize."""
    state = State(past=100)
    for _, entry in real.entries:
        state.record(entry)
    truth = AsPlayed(real.elastic, next(t.paces for t in state.past if t.job.id == real.elastic))
    arrivals = [_arrival(real, at, entry.job, truth)
                for at, entry in real.entries if isinstance(entry, Submitted)]  # fmt: skip
    nodes = [entry.node for _, entry in real.entries if isinstance(entry, NodeJoined)]
    knowledge = Knowledge(speeds={"played": truth}, speed="played")
    entries: list[tuple[Seconds, JournalEntry]] = []
    journal = Journal(lambda new, times: entries.extend(zip(times, new, strict=True)))  # type: ignore[arg-type]
    run(
        SimulatedCluster(nodes, arrivals, speed=truth.on),
        [registry.make(policy, consolidated, knowledge)],
        State(),
        journal,
    )
    journal.flush()
    return entries


def _arrival(real: Played, at: Seconds, job: Job, truth: AsPlayed) -> Arrival:
    own = [(when, entry) for when, entry in real.entries if getattr(entry, "job_id", "") == job.id]
    began = next(when for when, entry in own if isinstance(entry, Start))
    ended = next(when for when, entry in own if isinstance(entry, Finished))
    if job.id != real.elastic:
        return Arrival(at, job, ended - began)
    reports = [(when, entry) for when, entry in own if isinstance(entry, Reported)]
    steps = reports[-1][1].step
    assert steps is not None
    startup = reports[0][0] - began - 1 / truth.steps_per_s(1)
    closing_s = ended - reports[-1][0]
    work = startup + closing_s + (steps + 1) / truth.steps_per_s(1)
    costs = cost_of_resize(real)
    return Arrival(at, replace(job, interruption=Interruption(*costs)), work)


def cost_of_resize(real: Played) -> tuple[Seconds, Seconds]:
    """Saving, and coming back: the means."""
    saved = [entry.seconds for _, entry in real.entries if isinstance(entry, Saved)]
    back = [entry.seconds for _, entry in real.entries if isinstance(entry, Restored)]
    return fmean(saved), fmean(back)


def completions(entries: Sequence[tuple[Seconds, JournalEntry]]) -> dict[JobId, Seconds]:
    came = {entry.job.id: at for at, entry in entries if isinstance(entry, Submitted)}
    return {
        entry.job_id: at - came[entry.job_id]
        for at, entry in entries
        if isinstance(entry, Finished)
    }


# ------------------------------------------------------------------------------------------- lines


def measured() -> Iterator[Line]:
    """Live, simulated, and what it learns."""
    folder = Path(live.temporary_folder())
    words = [sys.executable, str(EXAMPLE), "--epochs", str(EPOCHS), "--samples", str(SAMPLES)]
    argv = [*words, "--batch", str(BATCH), "--record", str(folder)]
    real = played(argv, measured_s=8.0)
    yield from compared(real)
    seen = Counter(line for file in folder.iterdir() for line in file.read_text().splitlines())
    once = len(seen) == EPOCHS * SAMPLES and set(seen.values()) == {1}
    yield Line(
        "samples seen once an epoch", f"{sum(n == 1 for n in seen.values()):,}",
        f"all {EPOCHS * SAMPLES:,}", once,
    )  # fmt: skip
    losses = {
        entry.step: float(entry.metrics["loss"])
        for _, entry in real.entries if isinstance(entry, Reported) and entry.step is not None
    }  # fmt: skip
    yield from curve_lines(losses, EPOCHS, SAMPLES, BATCH)
    yield from within_5_percent_of_profile(words[1:], AsPlayed(real.elastic, _paces(real)).paces)


def _paces(real: Played) -> tuple[Pace, ...]:
    state = State(past=100)
    for _, entry in real.entries:
        state.record(entry)
    return next(track.paces for track in state.past if track.job.id == real.elastic)


def compared(real: Played) -> Iterator[Line]:
    """What was decided and how long jobs took: live, and simulated."""
    sizes = [gpus for job_id, gpus in real.decisions if job_id == real.elastic]
    yield Line("slots of the elastic job", " ".join(map(str, sizes)), "1 4 2 3", sizes == SIZES)
    save, restore = cost_of_resize(real)
    yield Line("cost of a resize", f"{save:.2f} + {restore:.2f} s", "measured", save + restore > 0)
    again = simulated(real)
    same = decided([entry for _, entry in again]) == real.decisions
    yield Line("decisions simulated", "the same" if same else "others", "the same", same)
    live_s, simulated_s = (
        fmean(completions(real.entries).values()),
        fmean(completions(again).values()),
    )
    off = simulated_s / live_s - 1
    yield Line(
        "mean completion live, simulated",
        f"{live_s:.1f}, {simulated_s:.1f} s",
        "within 5 %",
        abs(off) <= 0.05,
    )
