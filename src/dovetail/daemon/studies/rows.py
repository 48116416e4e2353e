"""From the track of a study to its row, and to its page with the curve of every trial.

Times of points and stints are seconds since the study was opened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from statistics import median
from typing import Final, cast

from dovetail.api.study_row import (
    BestTrial,
    BudgetTold,
    Direction,
    QuietTrials,
    StudyHead,
    StudyPage,
    StudyRow,
    SwitchCost,
    TrialRow,
    TrialState,
)
from dovetail.core.model import Node, Placement, Seconds
from dovetail.core.view import View
from dovetail.daemon.clock import Clock
from dovetail.daemon.gpus_told import numbers_in
from dovetail.tune.board import Board, steps_of
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.keeping import copy_of
from dovetail.workloads.study.track import StudyTrack, TrialTrack

OPEN: Final = "open"
STOPPED: Final = "stopped"
CLOSED: Final = "closed"


@dataclass(frozen=True)
class StudyLook:
    """A copy of the facts in the state; the row is made from it outside the loop."""

    study: StudyTrack
    now: Seconds
    nodes: tuple[Node, ...]
    slots: bool  # of processors, not GPUs
    switch_s: Seconds
    suspended_bytes: int
    trouble: str = ""
    told: Mapping[int, Sequence[str]] = field(default_factory=dict)  # metrics, by trial that runs


def look_at(
    study: StudyTrack, view: View, now: Seconds, board: Board, trouble: str = ""
) -> StudyLook:
    view.index(board)
    tracks = [view.tracks[t.job] for t in study.trials.values() if t.job in view.tracks]
    nodes = view.room.nodes
    return StudyLook(
        study=copy_of(study),
        now=now,
        nodes=tuple(nodes),
        slots=all(node.kind == "cpu" for node in nodes),
        switch_s=board.of(study).switch_s(view),
        suspended_bytes=sum(track.parked_bytes for track in tracks),
        trouble=trouble,
        told=_other_metrics(study, view),
    )


def _other_metrics(study: StudyTrack, view: View) -> dict[int, Sequence[str]]:
    """Other metrics that running trials report, by trial."""
    return {
        trial.number: sorted(view.tracks[trial.job].metrics.keys() - {study.design.metric})
        for trial in study.trials.values()
        if trial.since >= 0 and trial.job in view.tracks
    }


def row_of_study(look: StudyLook, ended: str | None = None) -> StudyRow:
    """`ended`: why it is closed, if it is."""
    study, design = look.study, look.study.design
    count = Counter(trial.standing for trial in study.trials.values())
    return StudyRow(
        id=study.id,
        name=design.name,
        user=design.user,
        policy=design.rule,
        state=CLOSED if ended is not None else STOPPED if study.is_stopped else OPEN,
        reason=look.trouble if ended is None else ended,
        trials=design.planned,
        done=count["done"],
        running=count["running"],
        paused=count["paused"],
        failed=count["failed"],
        stopped=count["stopped"],
        best=_best_of(study),
        target=design.target,
        reached_s=study.reached_at - study.opened_at if study.reached_at >= 0 else None,
        age_s=study.age_s(look.now),
        gpu_hours=study.gpu_s_by(look.now) / 3600,
        switches=study.switches,
        quiet=quiet_in(study, look.now, look.told) if ended is None else None,
    )


def _best_of(study: StudyTrack) -> BestTrial | None:
    if study.best is None:
        return None
    trial, point = study.best
    return BestTrial(
        trial=trial.number, value=point.value, step=point.step, settings=dict(trial.settings)
    )


def page_of_study(look: StudyLook, clock: Clock, ended: str | None = None) -> StudyPage:
    study, design = look.study, look.study.design
    row = vars(row_of_study(look, ended))
    del row["trials"]
    return StudyPage(
        **row,
        trials=[_trial(look, trial) for trial in study.trials.values()],
        planned=design.planned,
        metric=design.metric,
        direction=cast(Direction, design.direction),
        steps=design.steps,
        report_every=design.report_every,
        sampler=_sampler(design.spec),
        seed=design.seed,
        at_once=design.at_once,
        deadline=None if design.deadline is None else clock.unix(design.deadline),
        budget=_budget(design),
        opened_at=clock.unix(study.opened_at),
        switch=SwitchCost(seconds=look.switch_s, rung=study.rung),
        suspended_bytes=look.suspended_bytes,
    )


def row_in(page: StudyPage) -> StudyRow:
    """The row that a page begins with."""
    head = {own.name: getattr(page, own.name) for own in fields(StudyHead)}
    return StudyRow(**head, trials=page.trial_count)


def _budget(design: Design) -> BudgetTold | None:
    gpu_s = design.budget_gpu_s
    if not design.budget_s and not gpu_s:
        return None
    return BudgetTold(time=design.budget_s, gpu_hours=None if gpu_s is None else gpu_s / 3600)


def _trial(look: StudyLook, trial: TrialTrack) -> TrialRow:
    design, opened = look.study.design, look.study.opened_at
    values = [point.value for point in trial.points if isfinite(point.value)]
    return TrialRow(
        number=trial.number,
        job=trial.job,
        state=cast(TrialState, trial.standing),
        settings=dict(trial.settings),
        steps=steps_of(design, trial),
        value=_finite(trial.points[-1].value) if trial.points else None,
        best=(min if design.direction == "min" else max)(values, default=None),
        points=[(p.step, _finite(p.value), p.at - opened) for p in trial.points],
        stints=[
            (s.since - opened, None if s.until < 0 else s.until - opened, _place(look, s.placement))
            for s in trial.stints
        ],
        reason=trial.reason,
    )


def _place(look: StudyLook, placement: Placement) -> str:
    word = "slot" if look.slots else "gpu"
    parts = []
    for n, mask in placement.slices:
        node = look.nodes[n]
        gpus = ",".join(map(str, numbers_in(node, mask)))
        parts.append(f"{node.id if len(look.nodes) > 1 else ''} {word} {gpus}".strip())
    return " + ".join(parts)


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _sampler(spec: str) -> str:
    return str(json.loads(spec).get("sampler", "random")) if spec else "random"


# ------------------------------------------------------------------------------------- silent trials

UNHEARD_S: Final = 60.0  # in a slot, while no trial of the study has reported anything
LEAST_S: Final = 30.0
TIMES_USUAL: Final = 20.0  # the time of a step
TIMES_LONGEST: Final = 2.0  # the longest there was: a start, or a long evaluation


def quiet_in(
    study: StudyTrack, now: Seconds, told: Mapping[int, Sequence[str]]
) -> QuietTrials | None:
    """Running trials without a report for too long; None if there are none. `told`: by trial, the
    other metrics that it has reported."""
    running = [trial for trial in study.trials.values() if trial.since >= 0]
    silent = {trial.number: now - _last_sign(trial) for trial in running}
    if max(silent.values(), default=0.0) < LEAST_S:
        return None
    gaps = list(_gaps(study))
    usual = median(gaps) if gaps else None
    if usual is None:
        enough = UNHEARD_S
        silent = {trial.number: trial.held_by(now) for trial in running}
    else:
        enough = max(LEAST_S, TIMES_USUAL * usual, TIMES_LONGEST * max(gaps))
    late = [number for number, seconds in silent.items() if seconds >= enough]
    if not late:
        return None
    late.sort(key=silent.__getitem__, reverse=True)
    return QuietTrials(
        trials=late,
        job=study.trials[late[0]].job,
        seconds=silent[late[0]],
        usual_s=usual,
        told=list(told.get(late[0], ())),
    )


def _last_sign(trial: TrialTrack) -> Seconds:
    return max(trial.since, trial.points[-1].at) if trial.points else trial.since


def _gaps(study: StudyTrack) -> Iterator[Seconds]:
    """How long each report took: since the one before, or since the trial had its slot again."""
    for trial in study.trials.values():
        begins = iter(trial.stints)
        stint = next(begins, None)
        since = before = -1.0
        for point in trial.points:
            while stint is not None and stint.since < point.at:
                since, stint = stint.since, next(begins, None)
            if since >= 0:  # else it is of a stage that another trial made
                yield point.at - max(since, before)
            before = point.at
