"""Jobs in pods that count on a claim: whoever runs twice, or loses what it has done, is seen there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from kubernetes_daemon import CLAIM, claimed
from live_box import ME, Box
from real_cluster import Json, RealCluster, eventually
from waiting import LONG_S

# Two of one job at a time would fight for the lock. Who saves itself goes on behind what it has saved.
_COUNT: Final = """
import fcntl, os, signal, sys, time
out, steps, pause, saves = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "saves"
def say(line):
    with open(out, "a") as file:
        file.write(str(line) + chr(10))
lock = open(out + ".lock", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    say("twice")
asked = []
if saves:
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
kept = os.path.join(os.environ["DOVETAIL_CHECKPOINT_DIR"], "n")
n = int(open(kept).read()) if saves and os.path.exists(kept) else 0
say("launch " + os.environ["HOSTNAME"])
while n < steps:
    if asked or saves and os.path.exists(os.environ["DOVETAIL_STOP"]):
        with open(kept, "w") as file:
            file.write(str(n))
        say("saved")
        sys.exit(7)
    n += 1
    say(n)
    time.sleep(pause)
say("end")
"""
PAUSE_S: Final = 0.05
FOREVER: Final = 1_000_000  # steps of one that is cancelled in the end


def folder() -> Path:
    return claimed() / "counts"


@dataclass(frozen=True)
class Count:
    """What one job has written."""

    name: str

    def lines(self) -> list[str]:
        path = folder() / self.name
        return path.read_text().splitlines() if path.exists() else []

    def numbers(self) -> list[int]:
        return [int(line) for line in self.lines() if line.isdigit()]

    def launches(self) -> int:
        return sum(line.startswith("launch") for line in self.lines())

    def grows(self) -> None:
        """It works, now."""
        before = len(self.numbers())
        eventually(lambda: len(self.numbers()) > before + 1, LONG_S)

    def stands_still(self, look: Any) -> None:
        before = self.numbers()
        look()
        assert self.numbers() == before

    def check_once_at_a_time(self, launches: int) -> None:
        assert "twice" not in self.lines(), self.lines()
        assert self.launches() == launches, self.lines()

    def check_so_far(self) -> None:
        """Of one that is not over: every step once, in one go."""
        self.check_once_at_a_time(launches=1)
        assert self.numbers() == list(range(1, len(self.numbers()) + 1))

    def check_whole(self, steps: int, launches: int = 1) -> None:
        """Every step once, in one go after the other, and never two of it at a time."""
        lines = self.lines()
        self.check_once_at_a_time(launches)
        assert self.numbers() == list(range(1, steps + 1)), lines
        assert (lines[-1], lines.count("end")) == ("end", 1), lines


def counting(steps: int, saves: bool = False, pause_s: float = PAUSE_S) -> tuple[Count, Json]:
    """A new count, and the fields of a job file for it."""
    folder().mkdir(parents=True, exist_ok=True)
    name = uuid4().hex[:12]
    words = [f"/data/counts/{name}", str(steps), str(pause_s), "saves" if saves else "dies"]
    fields: Json = {"volumes": {"/data": CLAIM}, "name": name}
    if saves:
        fields["checkpoint"] = {"grace": 20}
    return Count(name), {"command": ["python3", "-c", _COUNT, *words], **fields}


def begin(here: Box, steps: int, saves: bool = False, **more: Any) -> tuple[str, Count]:
    """Submitted, and at work."""
    count, fields = counting(steps, saves)
    job_id = here.submit(fields.pop("command"), **{**fields, **more})
    here.wait_until(job_id, "running")
    eventually(count.numbers, LONG_S)
    return job_id, count


def run_through(here: Box, steps: int) -> None:
    """A short one: it may be over before anybody has seen it at work."""
    count, fields = counting(steps)
    (row,) = here.wait(here.submit(fields.pop("command"), **fields))
    assert row["phase"] == "finished"
    count.check_whole(steps)


def suspend(here: Box, job_id: str, count: Count) -> None:
    here.service.pause([job_id], ME)
    here.wait_until(job_id, "suspended")
    eventually(lambda: any(own["state"] == "suspended" for own in told_of(here)), LONG_S)
    count.stands_still(lambda: None)


def resume(here: Box, *ids: str) -> None:
    here.service.resume(list(ids), ME)


def told_of(here: Box) -> list[Json]:
    """What the agents say of all pods."""
    world: Any = here.daemon.world
    found = world._api.get(world._settings.channel_path)["items"]
    return [row for item in found for row in (item.get("status") or {}).get("pods") or ()]


def cancel(here: Box, job_id: str, count: Count) -> None:
    """One that counted without a fault until now."""
    here.service.cancel([job_id], ME)
    here.wait(job_id)
    count.check_so_far()


def pods_of(cluster: RealCluster, job_id: str) -> list[Json]:
    """Those that run, of that job, by name."""
    pods = cluster.api.get("/api/v1/namespaces/default/pods")["items"]
    return [
        pod
        for pod in pods
        if pod["metadata"]["name"].split("-")[:1] == ["dt"]
        and pod["metadata"]["name"].split("-")[2:3] == [job_id]
        and "deletionTimestamp" not in pod["metadata"]
    ]


def pod_of(cluster: RealCluster, job_id: str) -> Json:
    found: Json = eventually(lambda: (pods_of(cluster, job_id) or [{}])[0], LONG_S)
    return found


def reasons(here: Box, job_id: str) -> Sequence[str]:
    """Of all that the journal says of it."""
    told = (entry for entry in here.journal() if getattr(entry, "job_id", "") == job_id)
    return [reason for entry in told if (reason := getattr(entry, "reason", ""))]
