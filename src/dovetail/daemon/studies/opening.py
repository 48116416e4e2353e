"""From the description of a study to what the journal says of it, and to its trials one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from dovetail.core.errors import BadInput, DovetailError
from dovetail.core.model import JobId, Seconds
from dovetail.core.view import View
from dovetail.daemon.clock import Clock
from dovetail.daemon.submissions import Member, Opening, OpeningShell, shape_of, why_never
from dovetail.daemon.users.callers import Caller
from dovetail.daemon.users.limits import PER_JOB, Limits, most_gpus
from dovetail.jobfiles import jobs as spec_jobs
from dovetail.jobfiles.job_model import dump
from dovetail.jobfiles.study_fields import MOST_TRIALS
from dovetail.jobfiles.study_model import StudySpec, expand, read_study
from dovetail.tune import sampling
from dovetail.tune.board import most_at_once
from dovetail.tune.live import make_rule
from dovetail.tune.phases import stage_tree
from dovetail.tune.study import Trial
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.track import Settings

_NEEDS_CHECKPOINTS = (
    "lets one trial begin from what another has saved: say `checkpoint: {}`, save in "
    "DOVETAIL_CHECKPOINT_DIR and end after DOVETAIL_STEPS steps"
)


@dataclass(frozen=True, slots=True)
class TrialToSubmit:
    """One job of a trial to be submitted: which trial, its settings, how far it is to go, and which
    job of the same list it begins from."""

    number: int
    settings: Settings
    steps: int
    parent: int | None = None


def read_plan(opening: Opening) -> StudySpec:
    """The description, if all of it makes sense."""
    spec = read_study(opening.spec)
    _check_rule(spec.policy)
    sampling.make(spec.sampler, spec.seed, spec.trials)  # is it installed?
    why = _begins_from_others(spec)
    if why and not saves_itself(spec):
        raise BadInput(f"{why} {_NEEDS_CHECKPOINTS}")
    if why and spec.checkpoint.dir:
        raise BadInput(f"checkpoint.dir: leave it out; {why} needs a folder for every trial")
    return spec


def _check_rule(text: str) -> None:
    """It may be somebody else's, and need what is not there."""
    try:
        make_rule(text)
    except DovetailError as error:
        raise BadInput(f"policy: {error}") from None
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise BadInput(f"policy: {text} cannot be used ({told}); choose another") from None


def _begins_from_others(spec: StudySpec) -> str:
    """What in it makes trials begin with a copy of what others have saved; "" if nothing does."""
    if getattr(make_rule(spec.policy), "copies", False):
        return f"policy {spec.policy}"
    return "from_step in the space" if shares(spec) else ""


def saves_itself(spec: StudySpec) -> bool:
    return "checkpoint" in spec.model_fields_set


def shares(spec: StudySpec) -> bool:
    """Do trials have a common part that is trained once?"""
    return not learns(spec) and any(spec.space.from_steps().values())


def first_trials(spec: StudySpec, number: int) -> list[TrialToSubmit]:
    """The first so many trials, with the stages that they share."""
    found = [settings_for(spec, own) for own in range(number)]
    if not shares(spec):
        return [TrialToSubmit(own, settings, spec.steps) for own, settings in enumerate(found)]
    tree = stage_tree([dict(own) for own in found], spec.space.from_steps(), spec.steps)
    # Whatever makes no difference yet must still be something: that of the first trial.
    trials = [
        TrialToSubmit(own.trials[0], found[own.trials[0]], own.to_step, own.parent) for own in tree
    ]
    alike = [(own, other) for own in tree if own.to_step == spec.steps for other in own.trials[1:]]
    return trials + [
        TrialToSubmit(other, found[other], spec.steps, own.parent) for own, other in alike
    ]


def further_trials(spec: StudySpec, there: int, more: int) -> list[TrialToSubmit]:
    """The settings of so many more; none yet where they are learned from the trials before them."""
    if there + more > MOST_TRIALS:
        raise BadInput(f"a study has {MOST_TRIALS:,} trials at most; it has {there:,}")
    if shares(spec):
        raise BadInput(
            "its trials share their first steps (from_step); open another study for more"
        )
    if sampling.planned(spec.sampler, spec.space, there + more) < there + more:
        raise BadInput(
            f"sampler {spec.sampler}: it has {there} trials; open another study for more"
        )
    if learns(spec):
        return []
    return [
        TrialToSubmit(number, settings_for(spec, number), spec.steps)
        for number in range(there, there + more)
    ]


def learns(spec: StudySpec) -> bool:
    """Does its sampler look at the trials so far?"""
    return sampling.learns(spec.sampler)


def settings_for(spec: StudySpec, number: int, past: Sequence[Trial] = ()) -> Settings:
    sampler = sampling.make(spec.sampler, spec.seed, spec.trials)
    try:
        found = sampler.suggest(spec.space, number, past)
    except DovetailError:
        raise
    except Exception as error:  # somebody else's mistake
        told = f"{type(error).__name__}: {error}"
        raise BadInput(f"sampler: {spec.sampler} failed ({told}); choose another") from None
    return tuple(found.items())


def by_chance(spec: StudySpec, number: int) -> Settings:
    """Some settings of the space, whatever its sampler."""
    return settings_for(spec.model_copy(update={"sampler": "random"}), number)


def design_of(spec: StudySpec, study_id: str, caller: Caller, now: Seconds, clock: Clock) -> Design:
    due = spec_jobs.still_due(spec.deadline, clock.unix(now))
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


def within(
    limits: Limits, spec: StudySpec, trial: TrialToSubmit, caller: Caller, view: View
) -> StudySpec:
    """The study as its user may have it: for a tenant of theirs, and with no more trials at once
    than may be at work."""
    if not limits.shared:
        return spec
    limits.check_number(spec.planned, caller.name, view)
    job = spec_jobs.to_job(expand(spec, dict(trial.settings), trial.number), "0", caller.name, 0.0)
    (allowed,) = limits.checked([job], caller, view)
    bounds = limits.of(caller.name, view)
    most = min(bounds.running, bounds.gpus // most_gpus(allowed) if allowed.gpus else inf)
    at_once = spec.at_once if spec.at_once is not None else inf
    fewest = min(at_once, max(most, 1))
    update = {"tenant": allowed.tenant, "at_once": None if fewest == inf else int(fewest)}
    return spec.model_copy(update=update)


def size_of(opening: Opening, spec: StudySpec, trials: int) -> float:
    """Bytes that are written for so many: each has a description and an environment of its own."""
    environment = sum(len(name) + len(value) for name, value in opening.environment.items())
    return trials * (len(json.dumps(dump(spec))) + environment + PER_JOB)


def member_of(
    spec: StudySpec,
    design: Design,
    trial: TrialToSubmit,
    job_id: str,
    parent: JobId | None,
    now: Seconds,
    clock: Clock,
) -> Member:
    """The job of one trial."""
    job = expand(spec, dict(trial.settings), trial.number)
    known = {"DOVETAIL_STUDY": design.name, "DOVETAIL_STEPS": str(trial.steps)}
    job = job.model_copy(update={"envs": {**job.envs, **known}, "group": design.id})
    asked = spec_jobs.to_job(job, job_id, design.user, clock.unix(now))
    after = () if parent is None else (parent,)
    last = trial.steps if trial.steps < spec.steps else None
    asked = replace(
        asked,
        member=trial.number,
        settings=trial.settings,
        after=after,
        last_step=last,
        alike=(),  # trials go by their study
        amount=None,
    )
    return Member(asked, job, None, parent)


def check_room(
    spec: StudySpec,
    design: Design,
    trial: TrialToSubmit,
    view: View,
    now: Seconds,
    clock: Clock,
    why_not: Callable[[Member], str],
) -> None:
    """All trials ask for the same: what is too much for one on the empty machine, or for the world, is
    so for all."""
    member = member_of(spec, design, trial, "0", None, now, clock)
    if why := why_not(member) or why_never(member.job, view):
        raise BadInput(f"resources: no trial could ever start: {why}")


def slots_for(spec: StudySpec, caller: Caller, view: View, now: Seconds, clock: Clock) -> int:
    """How many of its trials could run at once on the empty machine."""
    trial = TrialToSubmit(0, by_chance(spec, 0), spec.steps)
    design = design_of(spec, "", caller, now, clock)
    shape = shape_of(member_of(spec, design, trial, "0", None, now, clock).job, view)
    most = most_at_once(view.room, shape)
    return min(most, spec.at_once or most)


def reopened(design: Design, shell: OpeningShell) -> tuple[StudySpec, Opening, Caller]:
    """As it was when the study was opened."""
    given = {**json.loads(design.spec), "envs": shell.envs}
    opening = Opening(given, shell.environment, shell.workdir, shell.umask)
    return read_study(given), opening, Caller(shell.uid, design.user, False, tuple(shell.groups))
