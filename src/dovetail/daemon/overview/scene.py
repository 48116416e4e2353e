"""One look at the state, taken on the thread of the loop: brief, since the loop waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dovetail.api.page_row import LaneNode, NowTold, Runner
from dovetail.core.loop import Policy
from dovetail.core.model import WHOLE_GPU, Node, Seconds
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.active_policy import said
from dovetail.daemon.gpus_told import gpu_number, held, numbers_in
from dovetail.daemon.history.job_rows import phase_of
from dovetail.policies.precedence import Lineup

Watts = Mapping[tuple[str, int], float]  # by node and GPU


@dataclass(frozen=True, slots=True)
class LiveScene:
    """What everybody may see of the running jobs; those that wait, to be put in order and told when
    somebody asks."""

    seq: int
    now: Seconds
    nodes: list[LaneNode]
    running: list[Runner]
    waiting: list[Track]
    lineup: Lineup | None  # None: the policy does not tell its order

    def told(
        self, unix: Callable[[Seconds], float], policy: str, trouble: str, notices: int
    ) -> NowTold:
        return NowTold(
            seq=self.seq,
            at=unix(self.now),
            policy=policy,
            trouble=trouble,
            notices=notices,
            waiting=len(self.waiting),
            nodes=self.nodes,
            running=self.running,
        )


def look_at(
    view: View,
    now: Seconds,
    policy: Policy,
    unix: Callable[[Seconds], float],
    seq: int,
    watts: Watts,
) -> LiveScene:
    return LiveScene(
        seq=seq,
        now=now,
        nodes=[
            _node(view, n, watts) for n in range(len(view.room.nodes)) if n not in view.room.gone
        ],
        running=[_runner(track, view.room.nodes, unix) for track in view.running.values()],
        waiting=[track for track in view.tracks.values() if track.placement is None],
        lineup=said(policy, "lineup", view),
    )


def _node(view: View, n: int, watts: Watts) -> LaneNode:
    room, node = view.room, view.room.nodes[n]
    closed = [room.why_closed.get((n, place), "") for place in range(node.gpus)]
    return LaneNode(
        id=node.id,
        number=n,
        kind=node.kind,
        gpus=[gpu_number(node, place) for place in range(node.gpus)],
        up=n not in room.down,
        open=room.open[n],
        strangers=numbers_in(node, room.used_by_strangers(n)),
        closed=closed if any(closed) else [],
        watts=[watts.get((node.id, i)) for i in range(node.gpus)] if watts else [],
    )


def _runner(track: Track, nodes: Sequence[Node], unix: Callable[[Seconds], float]) -> Runner:
    job, placement = track.job, track.placement
    assert placement is not None
    return Runner(
        id=job.id,
        name=job.name,
        user=job.user,
        phase=phase_of(track),
        gpus=placement.gpus,
        share=placement.share / WHOLE_GPU,
        group=job.group,
        trial=job.member,
        since=unix(track.started_at),
        on=held(placement, nodes),
        step=track.step,
    )
