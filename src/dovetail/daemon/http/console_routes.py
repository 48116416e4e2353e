"""Endpoints about consoles: what a job prints as it comes, typing, commands beside it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Query, Response
from starlette.responses import StreamingResponse

from dovetail.api.console_row import CommandStanding, CommandStarted, Resized, TypedTaken
from dovetail.api.job_row import ENDED
from dovetail.core.model import JobId
from dovetail.daemon import logs
from dovetail.daemon.consoles import ShownConsole
from dovetail.daemon.dependencies import over
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.job_routes import Id, Stream
from dovetail.daemon.http.request_models import CommandAsked, SignalAsked, SizeAsked
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.refusals import Conflict, NotFound
from dovetail.worlds.consoles import CommandBeside, ConsoleAway, Consoles, Size, Typed

routes = router("consoles")
Number = Annotated[int, Query(ge=0, le=1 << 31, description="0: the job's own.")]
_NONE = "jobs of this cluster have no consoles here; use kubectl exec -it with the job's pod"


@routes.get(
    "/v1/jobs/{job_id}/console",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": {}}},
        **problems(403, 404, 409, 503),
    },
)
def see(
    job_id: Id,
    daemon: AskedDaemon,
    caller: Asking,
    console: Number = 0,
    stream: Stream | None = None,
    start: Annotated[int, Query(ge=-(1 << 53), le=1 << 53, description="As of the log.")] = 0,
) -> Response:
    """What it prints from that byte on, as it comes. Ends after a while, when the job's phase changes
    (the header Dovetail-Phase says which it is) and where bytes are gone: ask again from where it
    ended. As long as somebody sees it, a job in a terminal has that terminal."""
    consoles = _consoles(job_id, daemon, caller, "attach to")
    own = JobId(job_id)
    try:
        log = consoles.log(own, console, stream or "")
    except ConsoleAway as error:
        raise Conflict(str(error)) from None
    shown = ShownConsole(daemon, consoles, own, console, stream or "")
    begins = logs.first_after(log, start)
    return StreamingResponse(
        shown.pieces(log, begins),
        media_type="application/octet-stream",
        headers={"Dovetail-Start": str(begins), "Dovetail-Phase": shown.phase()},
    )


@routes.post(
    "/v1/jobs/{job_id}/console/input",
    response_model=TypedTaken,
    responses=problems(400, 403, 404, 409, 503),
)
def type_keys(
    job_id: Id,
    daemon: AskedDaemon,
    caller: Asking,
    session: Annotated[str, Query(min_length=1, max_length=100)],
    data: Annotated[bytes, Body(media_type="application/octet-stream")] = b"",
    console: Number = 0,
    at: Annotated[int, Query(ge=0, le=1 << 53, description="Bytes typed before these.")] = 0,
    end: Annotated[bool, Query(description="There is no more.")] = False,
) -> Response:
    """Some of what was typed in a session, whose name the caller chooses; nothing is taken twice."""
    consoles = _consoles(job_id, daemon, caller, "type to")
    try:
        taken = consoles.type(JobId(job_id), console, Typed(session, at, data, end))
    except ConsoleAway as error:
        raise Conflict(str(error)) from None
    return JsonAnswer(TypedTaken(taken=taken.bytes, open=taken.open))


@routes.post(
    "/v1/jobs/{job_id}/console/size",
    response_model=Resized,
    responses=problems(400, 403, 404, 409, 503),
)
def resize(
    job_id: Id, asked: SizeAsked, daemon: AskedDaemon, caller: Asking, console: Number = 0
) -> Response:
    consoles = _consoles(job_id, daemon, caller, "resize the terminal of")
    consoles.resize(JobId(job_id), console, Size(asked.rows, asked.columns))
    return JsonAnswer(Resized(rows=asked.rows, columns=asked.columns))


@routes.post(
    "/v1/jobs/{job_id}/exec",
    status_code=201,
    response_model=CommandStarted,
    responses=problems(400, 403, 404, 409, 503),
)
def run_beside(job_id: Id, asked: CommandAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Run a command beside a job that runs: with its user, folder, variables, GPUs and limits. It is
    suspended and ends with the job."""
    consoles = _consoles(job_id, daemon, caller, "run a command beside")
    row = daemon.service.job(job_id)
    if row.phase not in ("running", "starting"):
        told = over(row.phase) if row.phase in ENDED else f"is {row.phase}"
        raise Conflict(f"job {job_id} {told}: a command runs beside jobs that run")
    size = None if asked.size is None else Size(asked.size.rows, asked.size.columns)
    command = CommandBeside(tuple(asked.argv), size, asked.cwd or "")
    return JsonAnswer(CommandStarted(console=consoles.start(JobId(job_id), command)), 201)


@routes.get(
    "/v1/jobs/{job_id}/exec/{console}",
    response_model=CommandStanding,
    responses=problems(403, 404, 409, 503),
)
def standing(job_id: Id, console: int, daemon: AskedDaemon, caller: Asking) -> Response:
    found = _consoles(job_id, daemon, caller, "ask for the commands of").end_of(
        JobId(job_id), console
    )
    if found is None:
        return JsonAnswer(CommandStanding(over=False, code=None, failure=""))
    return JsonAnswer(CommandStanding(over=True, code=found.code, failure=found.failure))


@routes.post(
    "/v1/jobs/{job_id}/exec/{console}/signal",
    response_model=CommandStanding,
    responses=problems(403, 404, 409, 503),
)
def send_signal(
    job_id: Id, console: int, asked: SignalAsked, daemon: AskedDaemon, caller: Asking
) -> Response:
    """To a command beside a job and all in its process group."""
    consoles = _consoles(job_id, daemon, caller, "signal the commands of")
    consoles.signal(JobId(job_id), console, asked.signal)
    return standing(job_id, console, daemon, caller)


def _consoles(job_id: str, daemon: AskedDaemon, caller: Asking, verb: str) -> Consoles:
    owner = daemon.service.owner_of(job_id)
    if owner is None:
        raise NotFound(f"there is no job {job_id}")
    caller.check_owns(owner, job_id, verb)
    if daemon.world.consoles is None:
        raise Conflict(f"job {job_id} has no console here: {_NONE}")
    return daemon.world.consoles
