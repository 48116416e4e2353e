"""Endpoints about what users of a shared box may have."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Annotated, Literal

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from dovetail.api.tenant_row import LimitsTold
from dovetail.core.model import EVERYBODY
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.request_models import LARGEST_NUMBER, UserName
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.users import system_accounts as accounts
from dovetail.daemon.users.limits import NAMES
from dovetail.jobfiles.fields import LARGEST_PRIORITY

routes = router("limits")
_Number = Annotated[float, Field(ge=0, le=LARGEST_NUMBER, strict=True)]
_Bound = _Number | Literal["none"] | None
_Priority = Annotated[float, Field(ge=-LARGEST_PRIORITY, le=LARGEST_PRIORITY, strict=True)]


class LimitAsked(BaseModel):
    """The limits of one user. null: as everybody; none: no limit; fields left out stay as they are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: UserName = Field(description="* for everybody who has no limit of their own.")
    queued: _Bound = Field(default=None, description="Jobs that have not ended.")
    running: _Bound = Field(default=None, description="Jobs in line or at work at once.")
    gpus: _Bound = Field(default=None, description="GPUs of these.")
    gpu_hours: _Bound = Field(default=None, description="In thirty days.")
    priority: _Priority | Literal["none"] | None = Field(
        default=None, description="Of any job, at most."
    )
    megabytes: _Bound = Field(default=None, description="Handed in within a day.")


@routes.get("/v1/limits", response_model=LimitsTold, responses=problems(503))
def limits(daemon: AskedDaemon, caller: Asking) -> Response:
    """Everybody's and the caller's own; administrators are told all."""
    return _told(daemon, caller, [])


def _told(daemon: AskedDaemon, caller: Asking, unknown: Sequence[str]) -> Response:
    told, rows = daemon.limits_of_users, daemon.service.limits(caller)
    return JsonAnswer(
        LimitsTold(limits=rows, shared=told.shared, ask=told.ask, unknown=list(unknown))
    )


@routes.put("/v1/limits", response_model=LimitsTold, responses=problems(400, 503, 507))
def set_limit(asked: LimitAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Fields left out stay as they are. The user may be one that comes later."""
    given = asked.model_dump(include=asked.model_fields_set & {*NAMES})
    values = {name: inf if value == "none" else value for name, value in given.items()}
    daemon.service.set_limit(asked.user, values, caller)
    named = () if asked.user == EVERYBODY else (asked.user,)
    return _told(daemon, caller, accounts.unknown(named))
