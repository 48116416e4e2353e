"""Endpoints about services: to declare, to look at, to scale, pause, resume and stop."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response

from dovetail.api.service_row import ServiceRow, ServicesTold
from dovetail.core.errors import BadInput
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.request_models import ScaleAsked, ServiceAsked
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.submissions import Opening
from dovetail.jobfiles.texts import LONGEST_NAME

routes = router("services")
Name = Annotated[str, Path(min_length=1, max_length=LONGEST_NAME, examples=["chat", "v1"])]


@routes.post(
    "/v1/services",
    status_code=201,
    response_model=ServiceRow,
    responses=problems(400, 404, 409, 503, 507),
)
def declare_service(asked: ServiceAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Its replicas are taken on as jobs of the group with its id, one by one."""
    declaring = Opening(asked.spec, asked.environment, asked.workdir, asked.umask)
    return JsonAnswer(daemon.services.declare(declaring, caller), 201)


@routes.get("/v1/services", response_model=ServicesTold, responses=problems(503))
def list_services(daemon: AskedDaemon, caller: Asking) -> Response:
    return JsonAnswer(daemon.services.all(caller))


@routes.get("/v1/services/{name}", response_model=ServiceRow, responses=problems(404, 503))
def show_service(name: Name, daemon: AskedDaemon, caller: Asking) -> Response:
    """By its id or name, with its replicas."""
    return JsonAnswer(daemon.services.one(name, caller))


_CHANGED: dict[str, Any] = {
    "response_model": ServiceRow,
    "responses": problems(400, 404, 409, 503, 507),
}


@routes.post("/v1/services/{name}/scale", **_CHANGED)
def scale_service(name: Name, asked: ScaleAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    if asked.least > asked.most:
        raise BadInput(f"the least number, {asked.least}, is above the greatest, {asked.most}")
    return JsonAnswer(daemon.services.scale(name, asked.least, asked.most, caller))


@routes.post("/v1/services/{name}/pause", **_CHANGED)
def pause_service(name: Name, daemon: AskedDaemon, caller: Asking) -> Response:
    """Its replicas are put to sleep; requests are refused until it is resumed."""
    return JsonAnswer(daemon.services.pause(name, caller))


@routes.post("/v1/services/{name}/resume", **_CHANGED)
def resume_service(name: Name, daemon: AskedDaemon, caller: Asking) -> Response:
    return JsonAnswer(daemon.services.resume(name, caller))


@routes.post("/v1/services/{name}/stop", **_CHANGED)
def stop_service(name: Name, daemon: AskedDaemon, caller: Asking) -> Response:
    """For good: its replicas end, its address is given up."""
    return JsonAnswer(daemon.services.stop(name, caller))
