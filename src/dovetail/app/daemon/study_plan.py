"""From the description of a study to what the journal says of it, and to its trials one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dovetail.app.daemon.callers import Caller
from dovetail.app.daemon.clock import Clock
from dovetail.app.daemon.submissions import Member, Submission
from dovetail.app.spec import jobs as spec_jobs
from dovetail.app.spec.model import dump
from dovetail.app.spec.study import StudySpec, expand, read_study
from dovetail.core.errors import BadInput
from dovetail.core.model import Design, JobId, Seconds
from dovetail.core.studies import Settings
from dovetail.tune import sampling
from dovetail.tune.live import make_rule
from dovetail.tune.study import Trial


@dataclass(frozen=True, slots=True)
class Opening:
    """What a user hands in."""

    spec: object
    environment: dict[str, str]
    workdir: str
    umask: int = 0o022


@dataclass(frozen=True, slots=True)
class Turn:
    """One trial to be submitted: which one, its settings, and how far it is to go."""

    number: int
    settings: Settings
    steps: int
    after: tuple[JobId, ...] = ()


def read_plan(opening: Opening) -> StudySpec:
    """The description, if all of it makes sense."""
    spec = read_study(opening.spec)
    make_rule(spec.policy)
    sampling.make(spec.sampler, spec.seed, spec.trials)  # is it installed?
    return spec


def learns(spec: StudySpec) -> bool:
    """Does its sampler look at the trials so far?"""
    return spec.sampler in sampling.LEARNING


def settings_for(spec: StudySpec, number: int, past: Sequence[Trial] = ()) -> Settings:
    suggest = sampling.make(spec.sampler, spec.seed, spec.trials)
    return tuple(suggest(spec.space, number, past).items())


def design_of(spec: StudySpec, study_id: str, caller: Caller, now: Seconds, clock: Clock) -> Design:
    due = spec_jobs.due(spec.deadline, clock.unix(now))
    if due is not None and due <= clock.unix(now):
        raise BadInput(f"deadline: {spec.deadline} has passed; give a later one, or none")
    hours = spec.budget.gpu_hours
    return Design(
        id=study_id,
        name=spec.title,
        metric=spec.metric,
        steps=spec.steps,
        planned=spec.planned,
        user=caller.name,
        direction=spec.direction,
        report_every=spec.report_every,
        rule=spec.policy,
        at_once=spec.at_once,
        target=spec.target,
        stop_at_target=spec.stop_at_target,
        deadline=None if due is None else due - clock.epoch,
        budget_s=spec.budget.time,
        budget_gpu_s=None if hours is None else hours * 3600,
        seed=spec.seed,
        spec=json.dumps(dump(spec.model_copy(update={"envs": {}}))),
    )


def member_of(
    spec: StudySpec, design: Design, turn: Turn, job_id: str, now: Seconds, clock: Clock
) -> Member:
    """The job of one trial."""
    job = expand(spec, dict(turn.settings), turn.number)
    known = {"DOVETAIL_STUDY": design.name, "DOVETAIL_STEPS": str(turn.steps)}
    job = job.model_copy(update={"envs": {**job.envs, **known}, "group": design.id})
    asked = spec_jobs.to_job(job, job_id, design.user, clock.unix(now))
    asked = replace(asked, trial=turn.number, settings=turn.settings, after=turn.after)
    return Member(asked, job, None)


def submission_of(member: Member, opening: Opening) -> Submission:
    return Submission(member.spec, opening.environment, opening.workdir, opening.umask)
