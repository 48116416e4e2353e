"""Endpoints about jobs: to submit, to look at, to change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import Body, Path, Query, Response
from starlette.responses import StreamingResponse

from dovetail.api.forecast_row import Forecast, WhatIf
from dovetail.api.job_row import (
    DeadlineTold,
    Ids,
    JobDetails,
    JobRow,
    Jobs,
    StdinTaken,
    SubmittedJobs,
    WouldBe,
)
from dovetail.api.why_row import WhyEnded, WhyRunning, WhyWaiting
from dovetail.core.errors import BadInput, DovetailError
from dovetail.core.model import JobId
from dovetail.daemon import logs
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.request_models import (
    AgainAsked,
    JobsAsked,
    NotifyAsked,
    PriorityAsked,
    SubmissionsAsked,
    WhatIfAsked,
)
from dovetail.daemon.http.request_models import JobId as JobIdText
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.http.visibility import row_for
from dovetail.daemon.promises import promises_of
from dovetail.daemon.refusals import Conflict, NotAllowed, NotFound
from dovetail.daemon.stdin import take
from dovetail.daemon.submissions import Submission, Terminal
from dovetail.daemon.users.callers import Caller
from dovetail.jobfiles.job_model import JobSpec
from dovetail.jobfiles.jobs import still_due
from dovetail.worlds.world import JobLog

MOST_ROWS = 10_000

routes = router("jobs")
Id = Annotated[JobIdText, Path(examples=["12"])]
Limit = Annotated[int, Query(ge=0, le=MOST_ROWS)]
Text = Annotated[str | None, Query(max_length=200)]
Stream = Literal["stdout", "stderr"]


@routes.post(
    "/v1/jobs",
    status_code=201,
    response_model=SubmittedJobs,
    responses=problems(400, 404, 409, 503, 507),
)
def submit(asked: SubmissionsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """All of them are taken on, or none. The ids are in the order given, an array's one by one. Of
    deadlines it is told whether they are promised, if the policy promises any."""
    return _submitted(daemon, _submissions(asked), caller)


def _submitted(daemon: AskedDaemon, submissions: Sequence[Submission], caller: Asking) -> Response:
    ids = daemon.service.submit(submissions, caller)
    due = any(one.spec.deadline is not None for one in submissions)
    return JsonAnswer(SubmittedJobs(ids=ids, deadlines=_deadlines(daemon, ids) if due else []), 201)


def _deadlines(daemon: AskedDaemon, ids: Sequence[str]) -> list[DeadlineTold]:
    """For the first that is not promised, what would be: others are mostly like it."""
    found = promises_of(daemon.service, ids)
    for i, told in enumerate(found):
        if not told.promised:
            from dovetail.daemon.foresight.promising import with_what_would_do

            found[i] = with_what_would_do(daemon.service, told)
            break
    return found


@routes.post("/v1/jobs/check", response_model=WouldBe, responses=problems(400, 404, 409, 503))
def check(asked: SubmissionsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Would they be taken on? Refused as they would be; nothing is submitted."""
    jobs = daemon.service.checked(_submissions(asked), caller)
    return JsonAnswer(WouldBe(jobs=len(jobs), gpus=max([job.gpus for job in jobs])))


@routes.post(
    "/v1/jobs/{job_id}/again",
    status_code=201,
    response_model=SubmittedJobs,
    responses=problems(400, 404, 409, 503, 507),
)
def run_again(job_id: Id, asked: AgainAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Submit a job that has ended, or an array, once more: its command, environment and folder as
    they were, with the changes."""
    return _submitted(daemon, [daemon.service.again(job_id, asked.changes, caller)], caller)


def _submissions(asked: SubmissionsAsked) -> list[Submission]:
    return [
        Submission(
            *(one.spec, one.environment, one.workdir, one.umask, one.apart, one.stdin, one.commit),
            terminal=None if one.terminal is None else Terminal(**dict(one.terminal)),
        )
        for one in asked.jobs
    ]


@routes.get("/v1/jobs", response_model=Jobs, responses=problems(503))
def list_jobs(
    daemon: AskedDaemon,
    caller: Asking,
    user: Text = None,
    name: Text = None,
    limit: Limit = 200,
) -> Response:
    """The jobs that have not ended: first those that run, then the queue. `name` may be a pattern."""
    found = daemon.service.jobs(user, limit, name)
    found.jobs = [row_for(caller, row) for row in found.jobs]
    return JsonAnswer(found)


@routes.get("/v1/jobs/{job_id}", response_model=JobDetails, responses=problems(404, 503))
def show_job(job_id: Id, daemon: AskedDaemon, caller: Asking) -> Response:
    """One job. Its command and settings are shown to its owner and administrators alone."""
    found = daemon.service.job(job_id)
    if not _is_removed(daemon, found):
        found.log = daemon.world.shelf.log(job_id).place
    return JsonAnswer(row_for(caller, found))


@routes.get(
    "/v1/jobs/{job_id}/why",
    response_model=WhyWaiting | WhyRunning | WhyEnded,
    responses=problems(404, 503),
)
def why_job(job_id: Id, daemon: AskedDaemon, caller: Asking) -> Response:
    """What it waits for, who is ahead, and what would let it start. For its owner: it tells what the
    job reports and of what it failed."""
    caller.check_owns(daemon.service.job(job_id).user, job_id, "ask what keeps")
    from dovetail.daemon.foresight.why import why  # when first asked: the daemon starts without it

    return JsonAnswer(why(daemon.service, job_id, daemon.service.allowed(caller)))


@routes.post("/v1/whatif", response_model=WhatIf, responses=problems(400, 404, 409, 503))
def whatif_job(asked: WhatIfAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """When the job would start and end, at what cost, and what would have it done by then. Nothing
    is submitted."""
    return whatif_of(asked.spec, asked.by, daemon, caller)


def whatif_of(spec: JobSpec, by_text: str | None, daemon: AskedDaemon, caller: Caller) -> Response:
    from dovetail.daemon.foresight.alternatives import whatif

    service = daemon.service
    epoch, now = service.clock.epoch, service.clock()
    by = still_due(by_text, epoch + now, "by")
    job = service.proposed(spec, caller)
    allowed = service.allowed(caller)
    return JsonAnswer(whatif(service, job, None if by is None else by - epoch, allowed))


@routes.get("/v1/forecast", response_model=Forecast, responses=problems(400, 503))
def forecast_jobs(
    daemon: AskedDaemon, ids: Annotated[str, Query(max_length=4000, examples=["12,13"])] = ""
) -> Response:
    """When jobs are expected to start and to end, with an interval. No ids: all of them."""
    from dovetail.daemon.foresight.forecast import forecast

    wanted = [own for own in ids.split(",") if own]
    return JsonAnswer(forecast(daemon.service, wanted).told(wanted))


def _is_removed(daemon: AskedDaemon, row: JobRow) -> bool:
    """Has it run, and is its folder gone since? See `retention`."""
    was_there = row.ended_at is not None and row.started_at is not None
    return was_there and not daemon.world.shelf.holds(row.id)


@routes.get(
    "/v1/jobs/{job_id}/log",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **problems(404, 503)},
)
def read_log(
    job_id: Id,
    daemon: AskedDaemon,
    caller: Asking,
    tail: Annotated[int | None, Query(ge=0, le=1 << 53, description="About so many bytes.")] = None,
    follow: bool = False,
    stream: Annotated[Stream | None, Query(description="One alone, of a job of run.")] = None,
    start: Annotated[
        int | None,
        Query(
            ge=-(1 << 53),
            le=1 << 53,
            description="From that byte on, counted from the first that it ever printed (below 0: "
            "from the end), and not beyond where some are gone; the header Dovetail-Start says where "
            "it begins, Dovetail-End where the log ends for now.",
        ),
    ] = None,
    most: Annotated[int | None, Query(ge=0, le=1 << 24, description="With start: bytes.")] = None,
) -> Response:
    """Its output and errors. When followed, the answer ends with the job. Of a long log the beginning
    and the end are kept; a line says how much is gone between them."""
    log, own = readable_log(job_id, daemon, caller, stream), JobId(job_id)

    def is_over() -> bool:
        if not follow:
            return True
        return own not in daemon.state.tracks and not daemon.world.has_processes(own)

    if start is not None:
        begins = logs.first_after(log, start)
        places = {"Dovetail-Start": str(begins), "Dovetail-End": str(log.end())}
        if most is not None:
            return Response(logs.part(log, begins, most), media_type="text/plain", headers=places)
        return StreamingResponse(
            logs.unbroken(log, begins, is_over), media_type="text/plain", headers=places
        )
    told = logs.follow(log, tail, is_over) if follow else logs.whole(log, tail)
    return StreamingResponse(told, media_type="text/plain")


def readable_log(
    job_id: str, daemon: AskedDaemon, caller: Caller, stream: str | None = None
) -> JobLog:
    """Checked: is it the caller's, and kept?"""
    row = daemon.service.job(job_id)
    caller.check_owns(row.user, job_id, "read the log of")
    if _is_removed(daemon, row):
        raise NotFound(f"the log of job {job_id} is not kept any more")
    if stream is not None:
        _check_apart(daemon, job_id)
    return daemon.world.shelf.log(job_id, stream or "")


@routes.post(
    "/v1/jobs/{job_id}/stdin",
    response_model=StdinTaken,
    responses=problems(400, 404, 409, 503, 507),
)
def send_stdin(
    job_id: Id,
    daemon: AskedDaemon,
    caller: Asking,
    data: Annotated[bytes, Body(media_type="application/octet-stream")] = b"",
    at: Annotated[int, Query(ge=0, le=1 << 53, description="Bytes sent before these.")] = 0,
    end: Annotated[bool, Query(description="There is no more.")] = False,
) -> Response:
    """Some of its standard input; as much is taken as there is room for."""
    row = daemon.service.job(job_id)
    caller.check_owns(row.user, job_id, "send to")
    if row.ended_at is not None:
        return JsonAnswer(StdinTaken(taken=at, open=False))
    record = daemon.service.record(job_id)
    if record is None or not record.stdin:
        raise Conflict(f"job {job_id} was submitted without a standard input")
    stdin, has_started = daemon.world.shelf.stdin(job_id), row.started_at is not None
    return JsonAnswer(take(stdin, at, data, end, has_started, row.user))


def _check_apart(daemon: AskedDaemon, job_id: str) -> None:
    record = daemon.service.record(job_id)
    if record is None or not record.apart:
        raise Conflict(
            f"job {job_id} prints output and errors into one log; dovetail run keeps them apart"
        )


# ---------------------------------------------------------------------------------------- changing

_CHANGED: dict[str, Any] = {"response_model": Ids, "responses": problems(400, 404, 409, 503, 507)}


@routes.post("/v1/jobs/cancel", **_CHANGED)
def cancel(asked: JobsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    return _changed(asked, daemon, caller, daemon.service.cancel)


@routes.post("/v1/jobs/pause", **_CHANGED)
def pause(asked: JobsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    return _changed(asked, daemon, caller, daemon.service.pause)


@routes.post("/v1/jobs/resume", **_CHANGED)
def resume(asked: JobsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    return _changed(asked, daemon, caller, daemon.service.resume)


@routes.post("/v1/jobs/requeue", **_CHANGED)
def requeue(asked: JobsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """A running job starts over from the queue."""
    return _changed(asked, daemon, caller, daemon.service.requeue)


@routes.post("/v1/jobs/priority", **_CHANGED)
def set_priority(asked: PriorityAsked, daemon: AskedDaemon, caller: Asking) -> Response:

    def change(ids: Sequence[str], caller: Caller) -> list[str]:
        return daemon.service.set_priority(ids, asked.priority, caller)

    return _changed(asked, daemon, caller, change)


@routes.post("/v1/jobs/notify", **_CHANGED)
def set_notify(asked: NotifyAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """How their users are told of them from now on, and of what, in place of what was said before."""
    wishes = {"notify": list(asked.notify), "notify_on": list(asked.notify_on)}

    def change(ids: Sequence[str], caller: Caller) -> list[str]:
        return daemon.service.set_notify(ids, wishes, caller)

    return _changed(asked, daemon, caller, change)


Changing = Callable[[Sequence[str], Caller], list[str]]


def _changed(asked: JobsAsked, daemon: AskedDaemon, caller: Caller, change: Changing) -> Response:
    wanted = _wanted(asked, daemon, caller)
    if not asked.partly:
        return JsonAnswer(Ids(ids=change(wanted, caller)))
    problems: list[DovetailError] = []
    done = list(dict.fromkeys(_what_can_be(wanted, caller, change, problems)))
    if not done and problems:
        raise type(problems[0])("; ".join(dict.fromkeys(map(str, problems))))
    return JsonAnswer(Ids(ids=done, problems=list(dict.fromkeys(map(str, problems)))))


def _what_can_be(
    wanted: Sequence[str], caller: Caller, change: Changing, problems: list[DovetailError]
) -> list[str]:
    """All at once; if that is refused one half after the other, until it is clear what is wrong."""
    try:
        return change(wanted, caller)
    except (NotFound, NotAllowed, Conflict) as problem:
        if len(wanted) <= 1:
            problems.append(problem)
            return []
    half = len(wanted) // 2
    first = _what_can_be(wanted[:half], caller, change, problems)
    return first + _what_can_be(wanted[half:], caller, change, problems)


def _wanted(asked: JobsAsked, daemon: AskedDaemon, caller: Caller) -> list[str]:
    if asked.mine == bool(asked.ids):
        raise BadInput("say which jobs: some ids, or mine (all of yours), not both")
    return daemon.service.mine(caller) if asked.mine else asked.ids
