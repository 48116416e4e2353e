"""What becomes of every field of a study when the state is kept: see `core.kept`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dovetail.core.journal import pairs_from, placement_from, with_infinity
from dovetail.core.model import JobId, own_fields
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.track import Branching, Point, StudyTrack, TrialStint, TrialTrack

TRIAL_MADE_OF: Final = ("number", "settings", "after")
TRIAL_KEPT: Final = (
    *("standing", "reason", "jobs", "points", "stints", "held_s", "held_gpu_s", "saved_in_s"),
    *("restored_in_s", "ended_at", "branching"),
)
STUDY_MADE_OF: Final = ("design", "opened_at")
STUDY_KEPT: Final = ("stopped_at", "away_s", "reached_at", "rung")
STUDY_PARTS: Final = ("trials", "best")
STUDY_DERIVED: Final = ("group",)  # from the jobs around it


def copy_of(study: StudyTrack) -> StudyTrack:
    """One of its own, but for its places in the queue: those depend on the jobs around it."""
    other = StudyTrack(study.design, study.opened_at)
    for name in STUDY_KEPT:
        setattr(other, name, getattr(study, name))
    other.trials.update({number: _copy_of_trial(t) for number, t in study.trials.items()})
    if study.best is not None:
        other.best = (other.trials[study.best[0].number], study.best[1])
    return other


def _copy_of_trial(trial: TrialTrack) -> TrialTrack:
    other = TrialTrack(trial.number, trial.settings, trial.after)
    for name in TRIAL_KEPT:
        value = getattr(trial, name)
        setattr(other, name, value.copy() if isinstance(value, list) else value)
    return other


def row_of(study: StudyTrack) -> dict[str, Any]:
    best = study.best
    return {
        "design": own_fields(study.design),
        "opened_at": study.opened_at,
        **{name: getattr(study, name) for name in STUDY_KEPT},
        "best": None if best is None else [best[0].number, best[1]],
        "trials": [_trial(trial) for trial in study.trials.values()],
    }


def _trial(trial: TrialTrack) -> dict[str, Any]:
    return {
        **{name: getattr(trial, name) for name in (*TRIAL_MADE_OF, *TRIAL_KEPT)},
        "stints": [
            [stint.since, stint.until, stint.placement.row(), stint.holds] for stint in trial.stints
        ],
    }


def restored(row: Mapping[str, Any]) -> StudyTrack:
    study = StudyTrack(Design(**with_infinity(row["design"])), row["opened_at"])
    for name in STUDY_KEPT:
        setattr(study, name, row[name])
    for told in row["trials"]:
        trial = _restored_trial(told)
        study.trials[trial.number] = trial
    if row["best"] is not None:
        number, point = row["best"]
        study.best = (study.trials[number], Point(*point))
    return study


def _restored_trial(row: Mapping[str, Any]) -> TrialTrack:
    after = tuple([JobId(other) for other in row["after"]])
    trial = TrialTrack(row["number"], pairs_from(row["settings"]), after)
    for name in TRIAL_KEPT:
        setattr(trial, name, row[name])
    trial.points = [Point(*point) for point in row["points"]]
    trial.stints = [
        TrialStint(since, until, placement_from(on), holds)
        for since, until, on, holds in row["stints"]
    ]
    if row["branching"] is not None:
        source, settings = row["branching"]
        trial.branching = Branching(JobId(source), pairs_from(settings))
    return trial


def values_of(study: StudyTrack) -> tuple[Any, ...]:
    return (
        *[getattr(study, name) for name in (*STUDY_MADE_OF, *STUDY_KEPT)],
        None if study.best is None else (study.best[0].number, study.best[1]),
        sorted(study.group.line),
        sorted(study.group.bench),
        # As text: what is not a number would differ from itself.
        [
            [repr(getattr(trial, name)) for name in (*TRIAL_MADE_OF, *TRIAL_KEPT)]
            for trial in study.trials.values()
        ],
    )
