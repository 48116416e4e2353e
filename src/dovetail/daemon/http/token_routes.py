"""Endpoints about tokens for the network: to make, to list, to revoke."""

from __future__ import annotations

from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from dovetail.api.token_row import TokenMade, TokensTold
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.users.tokens import MOST_TOKENS
from dovetail.jobfiles.texts import LONGEST_NAME

routes = router("tokens")
_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f]+$"
_Id = Annotated[str, Field(max_length=40)]


class TokenAsked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(max_length=LONGEST_NAME, pattern=_ONE_LINE)] = Field(
        description="For whom it is to know it by: laptop."
    )
    days: Annotated[float, Field(gt=0, le=36_500, strict=True)] | None = Field(
        default=None, description="How long it is good; null: until it is revoked."
    )


class RevocationAsked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    ids: Annotated[list[_Id], Field(min_length=1, max_length=MOST_TOKENS)]


@routes.get("/v1/tokens", response_model=TokensTold, responses=problems())
def list_tokens(daemon: AskedDaemon, caller: Asking) -> Response:
    """The caller's; for administrators all users'. Never a secret."""
    return JsonAnswer(TokensTold(tokens=daemon.tokens.rows(caller)))


@routes.post(
    "/v1/tokens", status_code=201, response_model=TokenMade, responses=problems(400, 503, 507)
)
def make_token(asked: TokenAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Of the caller, who may do by it what they may do here. Not over the network."""
    token, secret = daemon.tokens.make(asked.name, asked.days, caller)
    listens = daemon.settings.given.listen is not None
    row = daemon.tokens.row(token)
    return JsonAnswer(TokenMade(**vars(row), secret=secret, listens=listens), 201)


@routes.post("/v1/tokens/revoke", response_model=TokensTold, responses=problems(400, 404, 503, 507))
def revoke_tokens(asked: RevocationAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """At once, with all that was begun by them."""
    return JsonAnswer(TokensTold(tokens=daemon.tokens.revoke(asked.ids, caller)))
