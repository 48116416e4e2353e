"""Taking up what an earlier daemon has left: adopt what runs, find out what has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dovetail.core.entries import Displaced, Event, NodeJoined, NodeLeft
from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Placement, Seconds, Slice
from dovetail.core.track import Phase, Track
from dovetail.core.view import View
from dovetail.worlds.agent import Run, WorkOutcome
from dovetail.worlds.lives import Life, Place, Want
from dovetail.worlds.stage import ProcessStage, run_of


def take_up_jobs(stage: ProcessStage) -> list[Event]:
    """Takes up every job that has processes or GPUs; the events say which jobs line up again."""
    events: list[Event] = []
    for track in list(stage.view.tracks.values()):
        if track.placement is not None or track.process:
            events += _take_up(stage, track)
    _end_stray_runs(stage)
    return events


def tell_nodes(view: View, nodes: Sequence[Node], now: Seconds) -> list[Event]:
    room = view.room
    known = {node.id: node for n, node in enumerate(room.nodes) if n not in room.gone}
    events: list[Event] = []
    for node_id, node in known.items():
        if node not in nodes:
            _refuse_if_used(view, node_id)
            events.append(NodeLeft(now, node_id))
    return events + [NodeJoined(now, node) for node in nodes if node not in known.values()]


def _refuse_if_used(view: View, node_id: str) -> None:
    n = view.room.index[node_id]
    on_it = [
        track.job.id
        for track in view.running.values()
        if track.placement is not None and any(s.node == n for s in track.placement.slices)
    ]
    if on_it:
        raise BadInput(
            f"{len(on_it)} jobs still run on {node_id!r} as it was before: start with the same "
            f"--gpus or --slots, or cancel them first ({', '.join(on_it[:5])})"
        )


def _take_up(stage: ProcessStage, track: Track) -> list[Event]:
    """Adopt what runs, find out what has ended, start what was about to be started. Who was to go on
    and never did has not used its GPUs: it waits as before, and is not charged."""
    wanted = Want.RUN if track.placement is not None else Want.AWAY
    life = stage.add(Life(track.job.id, wanted, track.placement))
    life.pin = track.stays
    life.began_at = track.started_at
    run = stage.agent.run(run_of(track))
    if not run.begun() and track.working_since < 0:  # its keeper may be coming: see `_bring_up`
        if track.requeued:
            stage.want_anew(life.job_id, track.requeued)
        return []
    if run.is_alive():
        return _adopt(stage, track, life, run)
    # It ran: where its folder is gone, to launch it would be twice.
    life.take_up(run, Place.ABSENT, track.placement)
    if track.requeued:
        life.wish_anew(track.requeued)
    life.end_unseen()  # told once its last reports are read
    stage.watch(life)
    return []


def _adopt(stage: ProcessStage, track: Track, life: Life, run: Run) -> list[Event]:
    wanted = life.want
    at_work = not track.rung if wanted is Want.AWAY else track.phase is Phase.RUNNING
    at_work = at_work or track.moves_from is not None
    stands = track.moves_from or track.placement
    if stands is None and at_work:
        stands = track.left or _everywhere(stage.view)
    life.take_up(run, Place.AT_WORK if at_work else Place.PARKED, stands)
    stage.watch(life)
    if track.moves_from is not None and track.placement is not None:
        life.wish_elsewhere(track.placement)
    if track.requeued:
        life.wish_anew(track.requeued)  # carried on with by `begin`
    elif wanted is Want.RUN and not at_work and run.is_frozen():
        life.came(WorkOutcome.NO_ROOM)
        reason = "the daemon ended before the job could go on"
        return [Displaced(stage.view.now, life.job_id, reason)]
    return []


def _end_stray_runs(stage: ProcessStage) -> None:
    """A daemon may have died while it ended a job: the job's processes are ended now."""
    for job_id in stage.folders.live():
        if job_id in stage.lives:
            continue
        run = stage.agent.run(stage.folders.live_run(job_id))
        if not run.is_alive():
            stage.folders.forget_live(job_id)
            continue
        life = stage.add(Life(job_id, Want.END))
        life.take_up(run, Place.AT_WORK, _everywhere(stage.view))
        stage.watch(life)


def named(nodes: Sequence[Node], view: View) -> list[Node]:
    """The nodes under the names they are known by: what is the same has not left under another."""
    room = view.room
    known = [node for n, node in enumerate(room.nodes) if n not in room.gone]
    return [
        next((old for old in known if replace(old, id=node.id) == node), node) for node in nodes
    ]


def _everywhere(view: View) -> Placement:
    """The placement of a job of which only the processes are known: all GPUs."""
    return Placement(
        tuple(Slice(n, (1 << node.gpus) - 1) for n, node in enumerate(view.room.nodes))
    )
