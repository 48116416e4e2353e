"""Endpoints about jobs: to submit, to look at, to change."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, cast

from fastapi import Path, Query, Response
from starlette.responses import StreamingResponse

from dovetail.app.daemon import logs
from dovetail.app.daemon.answers import (
    Forecast,
    Ids,
    JobDetails,
    Jobs,
    JobsAsked,
    PriorityAsked,
    SubmissionsAsked,
    WhatIf,
    WhatIfAsked,
    Why,
)
from dovetail.app.daemon.answers import JobId as JobIdText
from dovetail.app.daemon.asking import AskedDaemon, Asking, router
from dovetail.app.daemon.callers import Caller
from dovetail.app.daemon.problems import Answer, problems
from dovetail.app.daemon.submissions import LOG, Submission
from dovetail.app.spec.jobs import still_due
from dovetail.core.errors import BadInput
from dovetail.core.model import JobId

MOST_ROWS = 10_000

routes = router("jobs")
Id = Annotated[JobIdText, Path(examples=["12"])]
Limit = Annotated[int, Query(ge=0, le=MOST_ROWS)]
Text = Annotated[str | None, Query(max_length=200)]


@routes.post(
    "/v1/jobs", status_code=201, response_model=Ids, responses=problems(400, 404, 409, 503, 507)
)
def submit(asked: SubmissionsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """All of them are taken on, or none. The ids are in the order given, an array's one by one."""
    submissions = [
        Submission(one.spec, one.environment, one.workdir, one.umask) for one in asked.jobs
    ]
    return Answer({"ids": daemon.service.submit(submissions, caller)}, 201)


@routes.get("/v1/jobs", response_model=Jobs, responses=problems(503))
def list_jobs(
    daemon: AskedDaemon, user: Text = None, name: Text = None, limit: Limit = 200
) -> Response:
    """Those that have not ended: first what runs, then the queue. `name` may be a pattern."""
    return Answer(daemon.service.jobs(user, limit, name))


@routes.get("/v1/jobs/{job_id}", response_model=JobDetails, responses=problems(404, 503))
def show_job(job_id: Id, daemon: AskedDaemon, caller: Asking) -> Response:
    """What it was told to do is for its owner's eyes, and administrators'."""
    found = daemon.service.job(job_id)
    if _may_read(found, caller):
        found["log"] = str(daemon.home.folder(job_id) / LOG)
    else:
        found.update(spec=None, workdir=None, log=None)
    return Answer(found)


def _may_read(row: dict[str, Any], caller: Caller) -> bool:
    return caller.admin or row["user"] == caller.name


@routes.get("/v1/jobs/{job_id}/why", response_model=Why, responses=problems(404, 501, 503))
def why(job_id: Id, daemon: AskedDaemon) -> Response:
    """What it waits for, who is ahead, and what would let it start."""
    found = _part("why", "why")
    if found is None:
        return _not_yet("why a job waits")
    return Answer(found(daemon.service, job_id))


@routes.post("/v1/whatif", response_model=WhatIf, responses=problems(400, 404, 409, 501, 503))
def whatif(asked: WhatIfAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """When the job would start and end, at what cost, and what would have it done by then. Nothing
    is submitted."""
    found = _part("alternatives", "whatif")
    if found is None:
        return _not_yet("what would become of a job")
    service = daemon.service
    epoch, now = service.clock.epoch, service.clock()
    by = still_due(asked.by, epoch + now, "by")
    job = service.proposed(asked.spec, caller)
    return Answer(found(service, job, None if by is None else by - epoch))


@routes.get("/v1/forecast", response_model=Forecast, responses=problems(400, 501, 503))
def forecast(
    daemon: AskedDaemon, ids: Annotated[str, Query(max_length=4000, examples=["12,13"])] = ""
) -> Response:
    """When jobs are expected to start and to end, with an interval. No ids: all of them."""
    found = _part("forecast", "forecast")
    if found is None:
        return _not_yet("when a job will start")
    wanted = [own for own in ids.split(",") if own]
    return Answer(found(daemon.service, wanted).rows(wanted))


def _part(module: str, function: str) -> Callable[..., Any] | None:
    """Imported when first asked for: the daemon starts without it."""
    try:
        found = import_module(f"dovetail.app.daemon.{module}")
    except ModuleNotFoundError:
        return None
    return cast("Callable[..., Any]", getattr(found, function))


def _not_yet(what: str) -> Answer:
    return Answer({"error": f"this version of Dovetail cannot say {what}"}, 501)


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
) -> Response:
    """Its output and errors. When followed, the answer ends with the job."""
    row = daemon.service.job(job_id)
    caller.check_owns(row["user"], job_id, "read the log of")
    log = daemon.home.folder(job_id) / LOG
    if not follow:
        return StreamingResponse(logs.whole(log, tail), media_type="text/plain")
    live = daemon.home.runs / "live" / job_id  # there while it has processes

    def is_over() -> bool:
        return JobId(job_id) not in daemon.state.tracks and not live.exists()

    return StreamingResponse(logs.follow(log, tail, is_over), media_type="text/plain")


# ---------------------------------------------------------------------------------------- changing

_CHANGED: dict[str, Any] = {"response_model": Ids, "responses": problems(400, 404, 409, 503, 507)}


@routes.post("/v1/jobs/cancel", **_CHANGED)
def cancel(asked: JobsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    return Answer({"ids": daemon.service.cancel(_wanted(asked, daemon, caller), caller)})


@routes.post("/v1/jobs/pause", **_CHANGED)
def pause(asked: JobsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    return Answer({"ids": daemon.service.pause(_wanted(asked, daemon, caller), caller)})


@routes.post("/v1/jobs/resume", **_CHANGED)
def resume(asked: JobsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    return Answer({"ids": daemon.service.resume(_wanted(asked, daemon, caller), caller)})


@routes.post("/v1/jobs/requeue", **_CHANGED)
def requeue(asked: JobsAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """A running job starts over from the queue."""
    return Answer({"ids": daemon.service.requeue(_wanted(asked, daemon, caller), caller)})


@routes.post("/v1/jobs/priority", **_CHANGED)
def set_priority(asked: PriorityAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    wanted = _wanted(asked, daemon, caller)
    return Answer({"ids": daemon.service.set_priority(wanted, asked.priority, caller)})


def _wanted(asked: JobsAsked, daemon: AskedDaemon, caller: Caller) -> list[str]:
    if asked.mine == bool(asked.ids):
        raise BadInput("say which jobs: some ids, or mine (all of yours), not both")
    return daemon.service.mine(caller) if asked.mine else asked.ids
