"""Endpoints about studies: to open, to look at, to stop, resume and cancel."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response

from dovetail.api.study_row import StudiesTold, StudyOpen, StudyPage, StudyRow
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.job_routes import MOST_ROWS
from dovetail.daemon.http.request_models import MoreTrials, StudyAsked
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.submissions import Opening
from dovetail.jobfiles.texts import LONGEST_NAME
from dovetail.workloads.study.kind import MOST_CLOSED

routes = router("studies")
Name = Annotated[str, Path(min_length=1, max_length=LONGEST_NAME, examples=["digits", "s1"])]


@routes.post(
    "/v1/studies",
    status_code=201,
    response_model=StudyOpen,
    responses=problems(400, 404, 409, 503, 507),
)
def open_study(asked: StudyAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Its trials are taken on as jobs of the group with its id, all of them or none."""
    opening = Opening(asked.spec, asked.environment, asked.workdir, asked.umask)
    return JsonAnswer(daemon.studies.open(opening, caller), 201)


@routes.get("/v1/studies", response_model=StudiesTold, responses=problems(503))
def list_studies(
    daemon: AskedDaemon,
    caller: Asking,
    limit: Annotated[
        int, Query(ge=0, le=MOST_ROWS, description="Closed ones at most.")
    ] = MOST_CLOSED,
) -> Response:
    """The open ones, then those that are closed, the last first."""
    return JsonAnswer(daemon.studies.all(caller, limit))


@routes.get("/v1/studies/{name}", response_model=StudyPage, responses=problems(404, 503))
def show_study(name: Name, daemon: AskedDaemon, caller: Asking) -> Response:
    """By its id or name, with the curve of every trial and who ran when on which GPU."""
    return JsonAnswer(daemon.studies.one(name, caller))


_CHANGED: dict[str, Any] = {
    "response_model": StudyRow,
    "responses": problems(404, 409, 503, 507),
}


@routes.post("/v1/studies/{name}/stop", **_CHANGED)
def stop_study(name: Name, daemon: AskedDaemon, caller: Asking) -> Response:
    """Its trials give way, their progress kept, until it is resumed."""
    return JsonAnswer(daemon.studies.stop(name, caller))


@routes.post("/v1/studies/{name}/resume", **_CHANGED)
def resume_study(name: Name, daemon: AskedDaemon, caller: Asking) -> Response:
    return JsonAnswer(daemon.studies.resume(name, caller))


@routes.post(
    "/v1/studies/{name}/extend", **_CHANGED | {"responses": problems(400, 404, 409, 503, 507)}
)
def extend_study(name: Name, asked: MoreTrials, daemon: AskedDaemon, caller: Asking) -> Response:
    """So many more trials, of the same space."""
    return JsonAnswer(daemon.studies.extend(name, asked.trials, caller))


@routes.post("/v1/studies/{name}/cancel", **_CHANGED)
def cancel_study(name: Name, daemon: AskedDaemon, caller: Asking) -> Response:
    """It is closed for good: its trials end, what they have told is kept."""
    return JsonAnswer(daemon.studies.cancel(name, caller))
