"""The storm of `storm`, over a controller whose jobs are pods: it is killed while pods are made,
suspended, let go on and ended, and their steps are counted on a claim."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from random import Random

from counting_jobs import Count, counting, folder
from daemon_process import DaemonProcess
from dovetail.core.entries import Finished, Interrupted, Submitted
from dovetail.testing import Audit
from real_cluster import RealCluster, eventually
from storm import Known, Storm


class PodStorm(Storm):
    def __init__(self, daemon: DaemonProcess, seed: int) -> None:
        self.daemon = daemon
        self.known = Known()
        self.kills = 0
        self._out = folder()
        self._chance = Random(seed)
        self._number = 0
        self._open = []
        self._pace = 4.0
        self._counts: dict[str, tuple[Count, int]] = {}  # by name of the job

    def _one_life(self) -> None:
        """What is asked for takes a while: the kill comes anywhere within it."""
        daemon, chance = self.daemon, self._chance
        daemon.start(wait=False)
        if chance.random() < 0.2:
            time.sleep(chance.random() * self._pace)
        else:
            daemon.wait_for_start()
            self._ask_for_things()
            time.sleep(chance.choice((0.0, 0.3, 1.0, 2.0)) * chance.random())
        assert daemon.process.poll() is None or self._was_killed(), daemon.own_log()[-3000:]
        with suppress(ProcessLookupError):
            daemon.kill()
        self.kills += 1

    def _ask_for_one(self) -> None:
        self._number += 1
        asked = (self._submit, self._pause, self._resume, self._cancel, self._requeue, self._policy)
        self._chance.choices(asked, (4, 5, 5, 1, 1, 1))[0]()

    def _submit(self) -> None:
        steps = self._chance.choice((2, 10, 40, 80))
        count, fields = counting(steps)
        self._counts[count.name] = (count, steps)
        job = {"spec": {**fields, "estimate": steps * 0.05}, "workdir": "/", "environment": {}}
        self.daemon.ask("POST", "/v1/jobs", {"jobs": [job]})
        self.known.names.append(count.name)

    # ------------------------------------------------------------------------------- looking back

    def check_pods(self, cluster: RealCluster) -> None:
        entries = self.daemon.journal()
        told = [entry for _, entry in entries]
        self._check_answers(told)
        Audit().read(entries)
        allowed = Counter(e.job_id for e in told if isinstance(e, Interrupted))
        finished = {e.job_id for e in told if isinstance(e, Finished)}
        for job in (e.job for e in told if isinstance(e, Submitted)):
            count, steps = self._counts[job.name]
            _check_count(count, steps, 1 + allowed[job.id], job.id in finished)
        assert not self.daemon.live_jobs()
        home = (self.daemon.folder / "kubernetes-home").read_text()
        eventually(lambda: not _pods_of_home(cluster, home))


def _check_count(count: Count, steps: int, most: int, is_finished: bool) -> None:
    """Each launch counts on from 1, without a gap or a step done twice; the last of a job that has
    finished counts to the end."""
    lines = count.lines()
    begins = [i for i, line in enumerate(lines) if line.startswith("launch")]
    assert "twice" not in lines, lines
    assert len({*(lines[i] for i in begins)}) == len(begins) <= most, (lines, most)
    parts = [lines[i + 1 : j] for i, j in pairwise([*begins, len(lines)])]
    for part in parts:
        numbers = [line for line in part if line != "end"]
        assert numbers == [str(n) for n in range(1, len(numbers) + 1)], lines
    if is_finished:
        assert parts[-1] == [*map(str, range(1, steps + 1)), "end"], lines


def _pods_of_home(cluster: RealCluster, home: str) -> list[str]:
    pods = cluster.api.get("/api/v1/namespaces/default/pods")["items"]
    names = [pod["metadata"]["name"] for pod in pods]
    return [name for name in names if name.startswith(f"dt-{home}-")]
