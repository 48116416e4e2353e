"""`POST /plan`: one decision on a request that has nothing to do with this machine's own queue."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.requests import router

LONGEST_S = 5.0  # for a search; then the best so far is told

_TAKEN = "As the ANDREAS optimiser takes it: jobs, nodes, GPUcosts, currentTime, …"

routes = router("plan")


class JobPlanned(BaseModel):
    expected_tardiness: float = Field(description="In hours.")
    nGPUs: int  # noqa: N815 (as that service spells it)
    node: str


class PlanAnswer(BaseModel):
    """The answer of the ANDREAS optimiser."""

    estimated_cost: float = Field(description="Until the first job ends.")
    estimated_rescheduling_time: str
    jobs: dict[str, JobPlanned]


class PlanProblem(BaseModel):
    """The mistake, and the code that the ANDREAS optimiser has for it."""

    model_config = ConfigDict(populate_by_name=True)

    code: int | None = Field(None, alias="ERROR CODE")
    error: str


@routes.post(
    "/plan", response_model=PlanAnswer, responses={**problems(), 400: {"model": PlanProblem}}
)
def plan(
    request: Annotated[dict[str, Any], Body(description=_TAKEN)],
    policy: Annotated[str | None, Query(description="Instead of the request's method.")] = None,
) -> Response:
    """Says what to run where; nothing is done. How many passes a search made is in the header
    Dovetail-Note: the answer has the form of that service."""
    from dovetail.planning.answer import planned
    from dovetail.planning.request import BadRequest, read_request

    try:
        found = planned(read_request(request), policy, LONGEST_S)
    except BadRequest as error:
        return JsonAnswer({"ERROR CODE": error.code, "error": str(error)}, 400)
    note = "; ".join(found.notes).encode("ascii", "backslashreplace").decode()
    return JsonAnswer(found.answer, headers={"Dovetail-Note": note})
