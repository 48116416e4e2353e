"""Why a job waits: the first reason that applies, the most fundamental first."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.core.inventory import Pool
from dovetail.core.model import WHOLE_GPU
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.daemon.closed_gpus import count_closed
from dovetail.daemon.foresight.case import Case
from dovetail.daemon.foresight.queue_order import PlaceInLine
from dovetail.daemon.holds import held_text
from dovetail.policies.placement import consolidated
from dovetail.text.counting import counted
from dovetail.tune.board import Mirror
from dovetail.tune.live import make_rule
from dovetail.tune.study import RUNNING
from dovetail.workloads.study.kind import studies_of
from dovetail.workloads.study.track import StudyTrack

HELD, DEPENDS, NEVER, TURN, QUOTA, CLUSTER, ROOM, HOST, BEHIND, SOON = (
    *("held", "depends", "never", "turn", "quota", "cluster", "room", "host", "behind", "soon"),
)


@dataclass(frozen=True, slots=True)
class Reason:
    tier: str
    text: str


def reason_to_wait(case: Case, line: PlaceInLine) -> Reason:
    track, state = case.track, case.state
    room, shape = state.room, track.shape
    if track.held:
        return Reason(HELD, held_text(track.held, track.job.id, case.now))
    if track.awaits:
        others = ", ".join(track.awaits[:5]) + (" …" if len(track.awaits) > 5 else "")
        return Reason(DEPENDS, f"it comes after job {others}, which must finish first")
    never = state.unplaceable.get(track.job.id)
    if never:
        return Reason(NEVER, never)
    if track.stranded:
        return Reason(CLUSTER, f"{track.stranded}; it waits until the cluster can run it again")
    study = studies_of(state).of(track)
    if study is not None and any(trial.since >= 0 for trial in study.trials.values()):
        return Reason(TURN, turn_text(state, study, track))
    if room.tenants and not room.within_quota(shape):
        quota, held = room.tenants[shape.tenant].gpu_quota, room.held[shape.tenant]
        return Reason(
            QUOTA, f"tenant {shape.tenant!r} holds {held:g} of the {quota:g} GPUs of its quota"
        )
    return _reason_of_room(case, line)


def _reason_of_room(case: Case, line: PlaceInLine) -> Reason:
    room, shape = case.state.room, case.track.shape
    pools = room.eligible(shape)
    most = max([usable(room, pool) for pool in pools], default=0)
    if most < shape.gpus or lacks_nodes(room, shape):
        return Reason(
            CLUSTER,
            f"it needs {shape}, and {most} can be used at all now: "
            "the others are closed or used by processes that are not ours",
        )
    place = getattr(case.policy, "place", consolidated)
    if place(room, shape) is not None:
        holds_back = getattr(case.policy, "holds_back", "")
        if not line.ahead and holds_back:
            return Reason(BEHIND, f"there is room, but {holds_back}")
        first = f"job {line.ahead[0]}" if line.ahead else "who is to run first"
        how = f"{first} goes first" + (" and does not fit" if line.blocks else "")
        return Reason(BEHIND, f"there is room for it, but {how}")
    if shape.home:
        return Reason(ROOM, home_text(room, shape))
    shortage = node_shortage(room, shape)
    if shortage:
        return Reason(ROOM, shortage)
    free = max([pool.free for pool in pools], default=0)
    if free >= shape.gpus and shape.share == WHOLE_GPU:
        return Reason(HOST, "there are GPUs, but not the CPUs or memory that it needs beside")
    if shape.share != WHOLE_GPU:
        return Reason(ROOM, f"it needs {shape}, and no GPU has as much left")
    return Reason(ROOM, f"it needs {counted(shape.gpus, 'GPU')}, and {count_free(free)}")


def home_text(room: Room, shape: Shape) -> str:
    """The nodes that it is tied to, and why it cannot go on there."""
    home = " and ".join([room.nodes[n].id for n, _ in shape.home])
    said = f"it is suspended on {home} and can go on only there"
    if shut := [room.nodes[n].id for n, _ in shape.home if not room.open[n]]:
        return f"{said}; {shut[0]} is closed for what is to start"
    free = sum([min(room.count[n], gpus) for n, gpus in shape.home])
    if free < shape.gpus:
        return f"{said}; of its {counted(shape.gpus, 'GPU')} {count_free(free)}"
    return f"{said}; it lacks CPUs or memory"


# ------------------------------------------------------------------------------------- too few nodes


def node_shortage(room: Room, shape: Shape) -> str:
    """The nodes that are missing now; "" if it is not nodes."""
    free = max([pool.free for pool in room.eligible(shape)], default=0)
    if not shape.gpus or not shape.nodes or (shape.nodes == 1 and free < shape.gpus):
        return ""
    able = _most_nodes(room, shape, room.count)
    if able >= shape.nodes:
        return ""
    nodes = counted(shape.nodes, "node")
    each = f"{counted(shape.each, 'free GPU')}{' each' if shape.nodes > 1 else ''}"
    has = "no node has" if not able else f"{counted(able, 'node')} {'has' if able == 1 else 'have'}"
    return f"it needs {nodes} with {each}; {has} as many, of {free} free in all"


def lacks_nodes(room: Room, shape: Shape) -> bool:
    """Would there be too few even if all jobs left? The others are closed, or others are on them."""
    usable = [gpus_to_give(room, n) if room.open[n] else -1 for n in range(len(room.nodes))]
    return _most_nodes(room, shape, usable) < shape.nodes


def _most_nodes(room: Room, shape: Shape, gpus: list[int]) -> int:
    """Of one pool, those with room for a part of the job, if so many GPUs are there by node."""
    return max(
        [
            len([n for n in pool.members if room.open[n] and gpus[n] >= shape.each])
            for pool in room.eligible(shape)
        ],
        default=0,
    )


# ------------------------------------------------------------------------------- the turn of a trial


def turn_text(state: State, study: StudyTrack, track: Track) -> str:
    """It waits for its turn: who of its study is before it."""
    design = study.design
    said = f"it waits for its turn in study {design.name!r}, in which {design.rule} decides"
    rank, waiting = rank_of(state, study, track)
    if rank is None:
        return said
    if rank == 1:
        return f"{said}; it is the next of {counted(waiting, 'trial')} that wait"
    return f"{said}; it is number {rank} of {counted(waiting, 'trial')} that wait"


def rank_of(state: State, study: StudyTrack, track: Track) -> tuple[int | None, int]:
    """As if one slot after the other came free now; None if the rule would leave one empty before.
    Also how many wait."""
    own = Mirror(study).sync(state).study
    waiting = len(own.waiting())
    try:
        rule = make_rule(study.design.rule)
        for rank in range(1, waiting + 1):
            chosen = rule.pick(own, None)
            if chosen is None:
                return None, waiting
            if chosen.number == track.job.member:
                return rank, waiting
            chosen.standing = RUNNING
    except Exception:  # a rule of somebody else's; the loop says what is wrong with it
        return None, waiting
    return None, waiting


def free_text(room: Room, shape: Shape) -> str:
    """Free GPUs by kind, of those that the job may use."""
    by_kind: dict[str, tuple[int, int]] = {}
    strangers, closed, shut = 0, 0, list[int]()
    for pool in room.eligible(shape):
        free, total = by_kind.get(pool.kind, (0, 0))
        there = [n for n in pool.members if n not in room.gone]
        total += sum(room.nodes[n].gpus for n in there)
        by_kind[pool.kind] = (free + pool.free, total)
        strangers += sum(room.used_by_strangers(n).bit_count() for n in there)
        closed += sum(room.nodes[n].gpus for n in there if n in room.drained)
        shut += there
    parts = [
        f"{free} of {total} {'slots' if kind == 'cpu' else f'GPUs of kind {kind}'}"
        for kind, (free, total) in list(by_kind.items())[:4]
    ]
    left = max(room.shares.values(), default=0)
    if shape.share != WHOLE_GPU and left:
        parts.append(f"{left / WHOLE_GPU:g} of a shared one")
    if strangers:
        parts.append(f"{strangers} in use by processes that are not ours")
    if not shape.bare:
        parts += _host_of_strangers(room, shape)
    if closed:
        parts.append(f"{closed} on closed nodes")
    if told := count_closed(room, shut):
        parts.append(told)
    return "; ".join(parts) or "no GPU that it may use"


def _host_of_strangers(room: Room, shape: Shape) -> list[str]:
    """CPUs and memory that others have on nodes that the job may use, where it asks for some."""
    nodes = [n for pool in room.eligible(shape) for n in pool.members if n not in room.gone]
    taken = [room.strangers_host[n] for n in nodes if n in room.strangers_host]
    cpus, memory_gb = (sum(column) for column in zip(*taken, (0.0, 0.0), strict=True))
    told = [(shape.cpus and cpus, "CPUs"), (shape.memory_gb and memory_gb, "GB of memory")]
    parts = [f"{number:.3g} {what}" for number, what in told if number]
    return [f"{' and '.join(parts)} in use by others"] if parts else []


def usable(room: Room, pool: Pool) -> int:
    """GPUs that are ours to give, whichever job has them now."""
    return sum(gpus_to_give(room, n) for n in pool.members if room.open[n])


def gpus_to_give(room: Room, n: int) -> int:
    """GPUs of the node that are ours to give, now or when the jobs there end."""
    return room.nodes[n].gpus - (room.occupied.get(n, 0) | room.closed.get(n, 0)).bit_count()


def count_free(free: int) -> str:
    return {0: "none is free", 1: "1 is free"}.get(free, f"{free} are free")
