"""A storm: a daemon is killed again and again, in the midst of everything that can be asked of it.

What it has answered is noted down here, and at the end looked for in its journal: nothing may be
missing. Jobs note their own launches: none may run twice at once, or more often than the journal says.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Timer
from typing import Any

from daemon_process import Away, DaemonProcess, Refused
from dovetail.core.entries import (
    Amended,
    Cancelled,
    Finished,
    Held,
    Interrupted,
    JournalEntry,
    PolicySet,
    Requeued,
    Submitted,
    TenantSet,
)
from dovetail.daemon.holds import PAUSED
from dovetail.testing import Audit
from dovetail.workloads.study.entries import StudyCancelled, StudyOpened, StudyResumed, StudyStopped
from waiting import until

# Two of the same job at a time would fight for the lock. Every launch has a folder of its own.
_JOB = """exec 9>>{out}.lock
flock -n 9 || echo twice >> {out}
echo "launch $DOVETAIL_STOP" >> {out}
for step in $(seq {steps}); do sleep 0.05 9>&-; done
echo end >> {out}
"""
_TRIAL = """echo "launch $DOVETAIL_STOP" >> {out}.$DOVETAIL_JOB_ID
for step in 1 2 3; do sleep 0.1; echo "{{\\"step\\": $step, \\"loss\\": 1.5}}" >> $DOVETAIL_REPORT; done
echo end >> {out}.$DOVETAIL_JOB_ID
"""
_POLICIES = ("fifo-skip", "las", "srtf:predictor=user-estimate", "fair-share")


@dataclass
class Known:
    """What was answered, and so must be in the journal, by kind."""

    names: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    paused: Counter[str] = field(default_factory=Counter)
    requeued: Counter[str] = field(default_factory=Counter)
    priorities: list[tuple[str, float]] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    quotas: list[float] = field(default_factory=list)
    studies: list[str] = field(default_factory=list)
    turned: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        listed: tuple[Sized, ...] = (
            self.names,
            self.cancelled,
            self.priorities,
            self.policies,
            self.quotas,
        )
        counted = (self.paused, self.requeued, self.turned)
        return sum(map(len, listed)) + len(self.studies) + sum(c.total() for c in counted)


class Storm:
    def __init__(self, folder: Path, seed: int) -> None:
        self.daemon = DaemonProcess(folder / "home", policy="fifo-skip")
        self.known = Known()
        self.kills = 0
        self._out = folder / "out"
        self._out.mkdir()
        self._chance = Random(seed)
        self._number = 0
        self._open: list[str] = []  # studies
        self._pace = 0.5  # seconds from a start to the first answer

    def blow(self, kills: int, said: Callable[[str], None] = lambda line: None) -> None:
        """Ctrl-C ends it early; what was answered until then is looked at all the same."""
        began = time.monotonic()
        try:
            while self.kills < kills:
                self._one_life()
                if self.kills % 25 == 0:
                    took = time.monotonic() - began
                    said(f"{self.kills} kills, {self.known.count} answers, {took:.0f} s")
        except KeyboardInterrupt:
            said(f"ended early, after {self.kills} kills and {self.known.count} answers")
            self.daemon.kill()

    def _one_life(self) -> None:
        daemon, chance = self.daemon, self._chance
        began = time.monotonic()
        daemon.start(wait=False)
        if chance.random() < 0.4:  # before it can be asked, while it takes up what is there
            time.sleep(chance.random() * self._pace)
        else:
            daemon.wait_for_start()
            self._pace = 0.7 * self._pace + 0.3 * (time.monotonic() - began)
            self._ask_for_things()
        assert daemon.process.poll() is None or self._was_killed(), daemon.said()
        with suppress(ProcessLookupError):
            daemon.kill()
        self.kills += 1

    def _was_killed(self) -> bool:
        return self.daemon.process.returncode == -9

    def _ask_for_things(self) -> None:
        """The last answer is followed by a kill at once, or the kill comes before any answer."""
        for left in range(self._chance.randint(1, 8), 0, -1):
            timer = None
            if left == 1 and self._chance.random() < 0.4:
                timer = Timer(self._chance.random() * 0.02, self.daemon.kill)
                timer.start()
            try:
                self._ask_for_one()
            except Refused as error:
                if error.status not in (404, 409):  # it has ended, or waits already
                    raise
            except Away:
                pass  # nobody knows whether it was heard
            if timer is not None:
                timer.join()

    def _ask_for_one(self) -> None:
        self._number += 1
        wishes = (self._cancel, self._pause, self._resume, self._prio, self._requeue)
        rare = (self._study, self._turn_study, self._policy, self._tenant)
        ask = self._chance.choices((self._submit, *wishes, *rare), (8, 1, 2, 3, 2, 4, 1, 2, 1, 1))[
            0
        ]
        ask()

    def _live(self, *phases: str) -> str:
        rows = self.daemon.ask("GET", "/v1/jobs")["jobs"]
        ids = [row["id"] for row in rows if not phases or row["phase"] in phases]
        if not ids:
            raise Refused(404, "none")
        return str(self._chance.choice(ids))

    def _change(self, verb: str, job_id: str, **more: Any) -> None:
        self.daemon.ask("POST", f"/v1/jobs/{verb}", {"ids": [job_id], **more})

    def _submit(self) -> None:
        name = f"job-{self._number}"
        steps = self._chance.choice((2, 6, 15, 40))
        script = _JOB.format(out=self._out / name, steps=steps)
        self.daemon.submit(script, name=name, estimate=steps * 0.05)
        self.known.names.append(name)

    def _cancel(self) -> None:
        self._change("cancel", job_id := self._live())
        self.known.cancelled.append(job_id)

    def _pause(self) -> None:
        rows = self.daemon.ask("GET", "/v1/jobs")["jobs"]
        job_id = next((row["id"] for row in rows if row["reason"] != PAUSED), None)
        if job_id is not None:
            self._change("pause", job_id)
            self.known.paused[job_id] += 1

    def _resume(self) -> None:
        self._change("resume", self._live("queued", "suspended"))

    def _prio(self) -> None:
        value = float(self._number)
        self._change("priority", job_id := self._live(), priority=value)
        self.known.priorities.append((job_id, value))

    def _requeue(self) -> None:
        self._change("requeue", job_id := self._live("running", "suspended", "starting"))
        self.known.requeued[job_id] += 1

    def _policy(self) -> None:
        policy = f"{self._chance.choice(_POLICIES)}"
        self.daemon.ask("PUT", "/v1/policy", {"policy": policy})
        self.known.policies.append(policy)

    def _tenant(self) -> None:
        quota = 100.0 + self._number
        self.daemon.ask("PUT", "/v1/tenants", {"name": "lab", "gpu_quota": quota, "weight": 1.0})
        self.known.quotas.append(quota)

    def _study(self) -> None:
        name = f"study-{self._number}"
        spec = {
            "name": name,
            "run": _TRIAL.format(out=self._out / name),
            "space": {"lr": {"float": [0, 1]}},
            "metric": "loss",
            "steps": 3,
            "trials": 2,
        }
        asked = {"spec": spec, "environment": {"PATH": os.environ["PATH"]}, "workdir": "/"}
        self.daemon.ask("POST", "/v1/studies", asked)
        self.known.studies.append(name)
        self._open.append(name)

    def _turn_study(self) -> None:
        if not self._open:
            return
        name, verb = self._chance.choice(self._open), self._chance.choice(("stop", "resume"))
        if self._chance.random() < 0.2:
            verb = "cancel"
        state = self.daemon.ask("GET", f"/v1/studies/{name}")["state"]
        if (verb, state) in (("stop", "stopped"), ("resume", "open")):
            return  # it would change nothing
        self.daemon.ask("POST", f"/v1/studies/{name}/{verb}")
        self.known.turned[name, verb] += 1

    # ------------------------------------------------------------------------------- looking back

    def finish(self) -> None:
        """In calm: everything that was paused goes on, and ends."""
        self.daemon.start()
        assert self.daemon.notices() == ""
        for study in self.daemon.ask("GET", "/v1/studies?limit=1000")["studies"]:
            if study["state"] == "stopped":
                self.daemon.ask("POST", f"/v1/studies/{study['id']}/resume")
        rows = self.daemon.ask("GET", "/v1/jobs?limit=10000")["jobs"]
        if rows:
            self.daemon.ask("POST", "/v1/jobs/resume", {"ids": [row["id"] for row in rows]})
        until(lambda: self.daemon.ask("GET", "/v1/jobs")["total"] == 0, 300 + self.kills)
        self.daemon.stop()

    def check(self) -> None:
        entries = self.daemon.journal()
        told = [entry for _, entry in entries]
        self._check_answers(told)
        self._check_launches(told)
        Audit().read(entries)  # believes nothing: no GPU given twice, nobody ended twice or left
        assert not list((self.daemon.folder / "runs" / "live").iterdir())
        assert not list((self.daemon.folder / "env").iterdir())
        assert not list((self.daemon.folder / "runs").glob("*/unsaid"))

    def _check_answers(self, told: Sequence[JournalEntry]) -> None:
        known = self.known
        names = Counter(e.job.name for e in told if isinstance(e, Submitted))
        assert all(names[name] == 1 for name in known.names), names
        cancelled = {e.job_id for e in told if isinstance(e, Cancelled)}
        assert {*known.cancelled} <= cancelled
        paused = Counter[str](e.job_id for e in told if isinstance(e, Held) and e.reason == PAUSED)
        assert not known.paused - paused
        requeued = Counter(e.job_id for e in told if isinstance(e, Requeued))
        assert {*known.requeued} <= {*requeued}  # a second one may come while the first is at it
        amended = {(e.job.id, e.job.priority) for e in told if isinstance(e, Amended)}
        assert {*known.priorities} <= amended
        policies = [e.policy for e in told if isinstance(e, PolicySet)]
        assert not Counter(known.policies) - Counter(policies)
        quotas = {e.tenant.gpu_quota for e in told if isinstance(e, TenantSet)}
        assert {*known.quotas} <= quotas
        self._check_studies(told)

    def _check_studies(self, told: Sequence[JournalEntry]) -> None:
        ids = {e.design.id: e.design.name for e in told if isinstance(e, StudyOpened)}
        assert {*self.known.studies} <= {*ids.values()}
        verbs = {StudyStopped: "stop", StudyResumed: "resume", StudyCancelled: "cancel"}
        turned = Counter(
            (ids[e.study_id], verbs[type(e)])
            for e in told
            if isinstance(e, StudyStopped | StudyResumed | StudyCancelled)
        )
        assert not self.known.turned - turned

    def _check_launches(self, told: Sequence[JournalEntry]) -> None:
        """A job is launched once, and once more after each time it was sent back to the queue."""
        allowed = Counter(e.job_id for e in told if isinstance(e, Interrupted))
        finished = {e.job_id for e in told if isinstance(e, Finished)}
        for job in (e.job for e in told if isinstance(e, Submitted)):
            name = job.name if job.member is None else f"{job.name.rpartition('-')[0]}.{job.id}"
            path = self._out / name
            lines = path.read_text().split("\n")[:-1] if path.exists() else []
            launches = [line for line in lines if line.startswith("launch")]
            assert "twice" not in lines, (job, lines)
            assert len({*launches}) == len(launches) <= 1 + allowed[job.id], (job, lines)
            ends = lines.count(
                "end"
            )  # more than one: its end was not seen yet when it was sent back
            assert ends <= len(launches), (job, lines)
            assert ends or job.id not in finished, (job, lines)
