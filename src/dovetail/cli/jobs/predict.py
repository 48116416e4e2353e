"""`dovetail predict`: how long a job would run, how sure that is, and why."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from operator import attrgetter
from typing import Any

import click

from dovetail.api.job_row import JobRow
from dovetail.cli.jobs.submit import SETTINGS, SubmitCommand, described, described_job
from dovetail.cli.named import Named
from dovetail.cli.reach import MOST_ROWS, as_json, client_of, ended, live, print_json
from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, Job, JobId, Seconds
from dovetail.jobfiles.job_model import read
from dovetail.jobfiles.jobs import to_job
from dovetail.jobfiles.merging import merged
from dovetail.models.workload import Arrival
from dovetail.predict.boosting import missing
from dovetail.predict.learner import BOOSTED, HISTORY_MEAN, MIXTURE, RECENT_MEAN
from dovetail.predict.memory import JobMemory, Story
from dovetail.predict.reasons import Explained, asked_of, explained
from dovetail.text.durations import duration_text

# These tell an interval and what they rest on.
_WAYS = (MIXTURE, BOOSTED, RECENT_MEAN, HISTORY_MEAN)


@click.command(cls=SubmitCommand, context_settings=SETTINGS)
@described_job
@click.option("--trace", metavar="FILE", help="Learn from this trace, not from the daemon.")
@click.option("--user", help="Whose job it is.  [you; with --trace nobody's]")
@click.option(
    "--predictor",
    type=Named("predictors"),
    help="Any of them.  [mixture, or recent-mean without it]",
)
@as_json
@click.pass_context
def predict(
    ctx: click.Context,
    /,
    trace: str | None,
    user: str | None,
    predictor: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Say how long a job would run, by what has finished before; nothing is submitted.

    The job is described as for dovetail submit; its command, name, user, tenant and GPUs, estimate and
    time limit are what counts.
    """
    way = predictor or (RECENT_MEAN if missing() else MIXTURE)
    if way in (BOOSTED, MIXTURE) and missing():
        raise BadInput(missing())
    whose = user if user is not None else "" if trace else _own_name()
    told = _of_trace(trace) if trace else None
    job = _job(asked, ctx.meta["is_command"], whose, user is not None)
    if trace:  # which tells no commands
        job = replace(job, alike=(), amount=None)
    stories, now = told or _of_daemon(ctx.obj)
    memory = JobMemory()
    memory.take_in(stories)
    if way in _WAYS:
        found = explained(way, memory, job, now, duration_text)
    else:
        found = asked_of(way, stories, job, now)
    if as_json:
        print_json({**asdict(found), "finished": memory.finished})
    else:
        _say(found)


def _say(found: Explained) -> None:
    if found.seconds is None:
        click.echo(f"Unknown: {'; '.join(found.because)}.")
        return
    if found.stopped:
        click.echo(
            f"{duration_text(found.seconds)}: its time limit ends it then, before it is done."
        )
    elif found.low is None or found.high is None:
        click.echo(f"About {duration_text(found.seconds)}.")
    else:
        low, high = duration_text(found.low), duration_text(found.high)
        sure = f"between {low} and {high} in four cases of five"
        click.echo(f"About {duration_text(found.seconds)}; {sure}.")
    click.echo(f"By {found.predictor}, because of")
    click.echo("\n".join(f"  {line}" for line in found.because))


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _job(asked: Mapping[str, Any], is_command: bool, user: str, user_said: bool) -> Job:
    """As it would be submitted; without words, a job of any command."""
    words, own = list(asked["words"]), described(asked)
    if not words:
        if not own and not user_said:
            raise click.UsageError("say which job: -- COMMAND, a file, or options such as --gpus 4")
        job = _as_submitted({**own, "command": ["true"]}, user)
        return replace(job, name=asked["name"] or "", alike=(), amount=None)
    if is_command:
        return _as_submitted({**own, "command": words}, user)
    from dovetail.jobfiles.any_file import read as read_file

    return _as_submitted(merged(read_file(words[0], words[1:]).fields, own), user)


def _as_submitted(fields: Mapping[str, Any], user: str) -> Job:
    return to_job(read(fields), "", user, time.time())


# ---------------------------------------------------------------------------------- what is known


def _of_daemon(home: str | None) -> tuple[list[Story], Seconds]:
    """The ended and running jobs, from the first submission on."""
    client = client_of(home)
    try:
        rows = ended(client, MOST_ROWS)
        known = {row.id for row in rows}
        rows += [row for row in live(client) if row.id not in known]
    finally:
        client.close()
    rows.sort(key=lambda row: row.submitted_at)
    first = rows[0].submitted_at if rows else 0.0
    return [_story(row, first) for row in rows], max(time.time() - first, 0.0)


def _story(row: JobRow, first: Seconds) -> Story:
    job = Job(
        JobId(row.id), gpus=row.gpus, share=round(row.share * WHOLE_GPU), user=row.user,
        cpus=0.0 if row.gpus else 1.0, tenant=row.tenant, name=row.name, group=row.group,
        member=row.trial, alike=tuple(row.alike), amount=row.amount,
    )  # fmt: skip
    held = job.gpus * row.share
    worked = row.run_s - (row.lost_gpu_s / held if held else 0.0)
    return Story(
        job,
        row.submitted_at - first,
        None if row.started_at is None else row.started_at - first,
        None if row.ended_at is None else row.ended_at - first,
        max(worked, 0.0) if row.phase == "finished" else None,
    )


def _of_trace(path: str) -> tuple[list[Story], Seconds]:
    """As of its last submission, every job taken to have started at once; of a trace in which none
    had ended by then, as of its end."""
    from dovetail import traces

    arrivals = sorted(traces.read(path).arrivals, key=attrgetter("at"))
    now = arrivals[-1].at
    if not any(arrival.at + arrival.work_s < now for arrival in arrivals):
        now = max(arrival.at + arrival.work_s for arrival in arrivals)
    return _stories(arrivals, now), now


def _stories(arrivals: Sequence[Arrival], now: Seconds) -> list[Story]:
    return [
        Story(
            a.job, a.at, a.at, *(end, a.work_s) if (end := a.at + a.work_s) <= now else (None,) * 2
        )
        for a in arrivals
    ]
