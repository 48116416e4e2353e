"""Random journals over every kind of entry: whatever the state accepts, in no sensible order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from dovetail.core import entries as e
from dovetail.core.entry import Entry
from dovetail.core.errors import DovetailError
from dovetail.core.model import (
    Estimate,
    Interruption,
    Job,
    JobId,
    Limit,
    Node,
    Option,
    Placement,
    Tenant,
)
from dovetail.core.state import State
from dovetail.policies.placement import consolidated
from dovetail.workloads.service import entries as v
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.kind import services_of
from dovetail.workloads.study import entries as s
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.kind import studies_of

KINDS, TENANTS, USERS = ("a", "b"), ("", "us", "them"), ("ann", "bob")
NOBODY = JobId("nobody")


def all_kinds() -> dict[str, type[Entry]]:
    """Every kind of entry that a journal may hold, found by looking."""
    found, left = dict[str, type[Entry]](), [Entry]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if vars(kind).get("tag", "") not in ("", e.Wake.tag):  # a wake-up is never written
            found[kind.tag] = kind
    return found


def journal(chance: Random, length: int) -> list[Any]:
    """So many entries that a state accepts one after the other."""
    state, accepted = State(past=1000), list[Any]()
    for entry in _openings(chance):
        state.record(entry)
        accepted.append(entry)
    while len(accepted) < length:
        entry = MAKERS[chance.choice(sorted(MAKERS))](chance, state, _at(chance, state))
        try:
            state.record(entry)
        except DovetailError:
            continue
        accepted.append(entry)
    return accepted


def _openings(chance: Random) -> Iterator[Any]:
    for i in range(3):
        yield e.NodeJoined(0.0, _node(chance, f"n{i}"))
    for i in range(4):
        yield e.Submitted(0.0, Job(JobId(f"first{i}"), chance.choice([1, 2])))


def _at(chance: Random, state: State) -> float:
    return state.now + chance.choice([0.0, 0.0, 0.5, 7.25])


def _node(chance: Random, name: str) -> Node:
    gpus, kind = chance.choice([1, 4, 8]), chance.choice(KINDS)
    tenant = chance.choice(["", "", "us"])
    prompt = chance.random() < 0.5
    keeps = not prompt
    return Node(
        *(name, gpus, kind), tenant=tenant, cpus=16.0, memory_gb=64.0, prompt=prompt, keeps=keeps
    )


def _new_name(chance: Random, state: State) -> str:
    return f"x{len(state._seen)}-{chance.randrange(10**6)}"


def _job(chance: Random, state: State, name: str) -> Job:
    gpus = chance.choice([1, 1, 2, 4, 6, 8])
    fields: dict[str, Any] = {
        "tenant": chance.choice(TENANTS), "user": chance.choice(USERS),
        "cpus": chance.choice([0.0, 0.0, 1.5, 4.0]), "memory_gb": chance.choice([0.0, 8.0]),
        "priority": float(chance.randrange(3)), "deadline": chance.choice([None, 50.0]),
        "estimate": chance.choice([None, Estimate(20.0)]), "retries": chance.choice([0, 2]),
        "interruption": chance.choice([Interruption(), Interruption(1.0, 2.0)]),
        "preemptible": chance.random() < 0.9,
    }  # fmt: skip
    what = chance.random()
    if what < 0.1:
        fields |= {"share": chance.choice([250, 500])}
        gpus = 1
    elif what < 0.2:
        fields |= {"nodes": 2}
        gpus *= 2
    elif what < 0.3:
        fields |= {"kinds": (chance.choice([*KINDS, "never"]),)}
    elif what < 0.4:
        fields |= {"after": (_any_job(chance, state),)}
    elif what < 0.5:
        options = tuple(Option(kind, gpus, 10.0) for kind in KINDS)
        fields |= {"options": options, "kinds": KINDS[:1], "settles": chance.random() < 0.5}
        fields |= {"cpus": 0.0, "memory_gb": 0.0}
    elif what < 0.55:
        gpus = 0
        fields |= {"cpus": 2.0}
    elif what < 0.65:
        fields |= {"min_gpus": 1, "max_gpus": gpus + chance.choice([0, 2, 8])}
    elif what < 0.8:
        study = _any_study(chance, state)
        fields |= {"group": study, "member": _next_member(state, study), "name": study}
    elif what < 0.9:
        service = _any_service(chance, state)
        number = (*[own.next_number for own in [services_of(state).open.get(service)] if own], 0)
        settings = (("port", chance.randrange(1, 65536)),)
        fields |= {"group": service, "member": number[0], "settings": settings}
    return Job(JobId(name), gpus, **fields)


def _next_member(state: State, study: str) -> int:
    known = studies_of(state).open.get(study)
    return 0 if known is None else len(known.trials)


def _any_study(chance: Random, state: State) -> str:
    return chance.choice([*studies_of(state).open, "no-study"])


def _any_service(chance: Random, state: State) -> str:
    return chance.choice([*services_of(state).open, "no-service"])


def _any_job(chance: Random, state: State) -> JobId:
    ended = [track.job.id for track in state.past]
    return chance.choice([*state.tracks, *ended[-3:], NOBODY])


def _running(chance: Random, state: State) -> JobId:
    return chance.choice([*state.running, NOBODY])


def _waiting(chance: Random, state: State) -> JobId:
    return chance.choice([*[t.job.id for t in state.tracks.values() if t.waiting], NOBODY])


def _any_node(chance: Random, state: State) -> str:
    return chance.choice([*state.room.index, "nowhere"])


def _placement(chance: Random, state: State, job_id: JobId) -> Placement:
    """One that fits or, now and then, one that nobody has looked at."""
    track = state.tracks.get(job_id)
    found = None if track is None else consolidated(state.room, track.shape)
    if found is not None and chance.random() < 0.9:
        return found
    return state.room.single(chance.randrange(len(state.room.nodes)), chance.choice([1, 2, 3, 15]))


def _start(chance: Random, state: State, _: float) -> Any:
    job_id = _waiting(chance, state)
    return e.Start(job_id, _placement(chance, state, job_id))


def _resize(chance: Random, state: State, _: float) -> Any:
    job_id = _running(chance, state)
    track = state.running.get(job_id)
    if track is None or track.placement is None:
        return e.Resize(job_id, _placement(chance, state, job_id))
    if chance.random() < 0.4:
        sized = track.shape.sized(chance.choice([1, 2, 3, track.shape.gpus]) or 1)
        return e.Resize(job_id, consolidated(state.room, sized) or track.placement)
    if chance.random() < 0.5:
        return e.Resize(job_id, track.placement.limited_to(chance.choice([0, 200])))
    return e.Resize(job_id, Placement(track.placement.slices, chance.choice([500, 1000])))


def _stayed(chance: Random, state: State, at: float) -> Any:
    job_id = _any_job(chance, state)
    track = state.tracks.get(job_id)
    left = None if track is None else track.left
    return e.Stayed(at, job_id, left or _placement(chance, state, job_id), "it would not go")


def _amended(chance: Random, state: State, at: float) -> Any:
    job_id = _any_job(chance, state)
    track = state.tracks.get(job_id)
    asked = Job(job_id) if track is None else track.job
    if not asked.options and chance.random() < 0.5:
        asked = replace(asked, cpus=3.0, memory_gb=4.0)
    return e.Amended(at, replace(asked, priority=chance.choice([0.0, 5.0])))


def _saved(chance: Random, state: State, at: float) -> Any:
    parked = chance.random() < 0.5
    lost, tied = chance.choice([0.0, 1.0]), chance.choice([None, True])
    return e.Saved(at, _any_job(chance, state), "freeze", 0.5, 1000, parked, lost, tied)


def _reported(chance: Random, state: State, at: float) -> Any:
    metrics: dict[str, float | str] = {"loss": chance.random(), "note": "NaN"}
    step = chance.choice([None, 1.0, 2.0, 5.0])
    return e.Reported(at, _any_job(chance, state), step, metrics, chance.randrange(100))


def _note(chance: Random, state: State, _: float) -> Any:
    job_id = chance.choice([None, _any_job(chance, state)])
    return e.Note(f"policy: {chance.randrange(3)}", chance.choice([None, 1, [2.5, "x"]]), job_id)


def _tenant(chance: Random, _: State, at: float) -> Any:
    return e.TenantSet(at, Tenant(chance.choice(TENANTS[1:]), chance.choice([4.0, 12.0])))


def _opened(chance: Random, state: State, at: float) -> Any:
    name = _new_name(chance, state)
    at_once = chance.choice([None, 1, 2])
    return s.StudyOpened(at, Design(name, "digits", "loss", 5, 4, user="ann", at_once=at_once))


def _declared(chance: Random, state: State, at: float) -> Any:
    name = _new_name(chance, state)
    return v.ServiceDeclared(at, ServiceDesign(name, "chat", user="ann", port=80, least=0, most=4))


def _scaled(chance: Random, state: State, at: float) -> Any:
    return v.ServiceScaled(at, _any_service(chance, state), chance.randrange(4), "it is needed")


def _branch(chance: Random, state: State, _: float) -> Any:
    return e.Branch(_any_job(chance, state), _any_job(chance, state), (("lr", 0.5),))


Maker = Callable[[Random, State, float], Any]
MAKERS: Mapping[str, Maker] = {
    "submitted": lambda c, st, at: e.Submitted(at, _job(c, st, _new_name(c, st))),
    "started": lambda c, st, at: e.Started(at, _running(c, st)),
    "finished": lambda c, st, at: e.Finished(at, _running(c, st)),
    "failed": lambda c, st, at: e.Failed(at, _any_job(c, st), "oops", c.choice([0.0, 1.0]), 3),
    "interrupted": lambda c, st, at: e.Interrupted(at, _running(c, st), "oops", 0.5),
    "cancelled": lambda c, st, at: e.Cancelled(at, _any_job(c, st), "not needed"),
    "paced": lambda c, st, at: e.Paced(at, _running(c, st), c.choice([0.5, 1.0, 2.0])),
    "reported": _reported,
    "saved": _saved,
    "restored": lambda c, st, at: e.Restored(at, _any_job(c, st), "thaw", 0.25),
    "pinned": lambda c, st, at: e.Pinned(at, _running(c, st), "it cannot be stopped"),
    "unpinned": lambda c, st, at: e.Unpinned(at, _any_job(c, st)),
    "stayed": _stayed,
    "displaced": lambda c, st, at: e.Displaced(at, _any_job(c, st), "another needs its memory"),
    "held": lambda c, st, at: e.Held(at, _any_job(c, st), "paused"),
    "released": lambda c, st, at: e.Released(at, _any_job(c, st)),
    "requeued": lambda c, st, at: e.Requeued(at, _any_job(c, st), "once more"),
    "amended": _amended,
    "occupied": lambda c, st, at: e.Occupied(
        at, _any_node(c, st), c.choice([0, 1, 6]), c.choice([None, 1.5]), c.choice([None, 2.0])
    ),
    "gpus-closed": lambda c, st, at: e.GpusClosed(
        at, _any_node(c, st), c.choice([1, 2, 3]), "by root", c.random() < 0.5
    ),
    "gpus-opened": lambda c, st, at: e.GpusOpened(at, _any_node(c, st), c.choice([1, 3])),
    "policy": lambda c, st, at: e.PolicySet(at, c.choice(["fifo", "las"])),
    "node-joined": lambda c, st, at: e.NodeJoined(at, _node(c, _new_name(c, st))),
    "node-down": lambda c, st, at: e.NodeDown(at, _any_node(c, st)),
    "node-up": lambda c, st, at: e.NodeUp(at, _any_node(c, st)),
    "node-draining": lambda c, st, at: e.NodeDraining(at, _any_node(c, st)),
    "node-left": lambda c, st, at: e.NodeLeft(at, _any_node(c, st)),
    "no-more-nodes": lambda c, st, at: e.NoMoreNodes(at) if c.random() < 0.1 else e.Woke(at),
    "tenant": _tenant,
    "limit": lambda c, st, at: e.LimitSet(
        at, Limit(c.choice(USERS), running=c.choice([None, 2.0]))
    ),
    "woke": lambda c, st, at: e.Woke(at),
    "start": _start,
    "preempt": lambda c, st, at: e.Preempt(_running(c, st)),
    "resize": _resize,
    "promote": lambda c, st, at: e.Promote(_waiting(c, st)),
    "refuse": lambda c, st, at: e.Refuse(_waiting(c, st), "it can never run"),
    "stop": lambda c, st, at: e.Stop(_any_job(c, st), "its time is up", c.choice([None, 124])),
    "branch": _branch,
    "note": _note,
    "study-opened": _opened,
    "study-stopped": lambda c, st, at: s.StudyStopped(at, _any_study(c, st)),
    "study-resumed": lambda c, st, at: s.StudyResumed(at, _any_study(c, st)),
    "study-extended": lambda c, st, at: s.StudyExtended(at, _any_study(c, st), c.randint(1, 12)),
    "study-cancelled": lambda c, st, at: s.StudyCancelled(at, _any_study(c, st), "enough"),
    "service-declared": _declared,
    "service-scaled": _scaled,
    "service-bounded": lambda c, st, at: v.ServiceBounded(at, _any_service(c, st), 1, 3),
    "service-loaded": lambda c, st, at: v.ServiceLoaded(
        at, _any_service(c, st), {"rate": c.random()}
    ),
    "service-paused": lambda c, st, at: v.ServicePaused(at, _any_service(c, st)),
    "service-resumed": lambda c, st, at: v.ServiceResumed(at, _any_service(c, st)),
    "service-stopped": lambda c, st, at: v.ServiceStopped(at, _any_service(c, st), "enough"),
    "close-study": lambda c, st, at: s.CloseStudy(_any_study(c, st), "it is over"),
}
