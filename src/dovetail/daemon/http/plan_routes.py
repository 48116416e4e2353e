"""`POST /plan`: one decision on a request that has nothing to do with this machine's own queue.

Who asks names the policy: it thinks in a process of its own, one of each user at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from threading import Lock
from typing import Annotated, Any, Final

from fastapi import Body, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from dovetail.core.errors import BadInput
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.requests import Asking, router

LONGEST_S = 5.0  # for a search; then the best so far is told
_GIVEN_UP_S = 20.0
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

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
    caller: Asking,
    policy: Annotated[str | None, Query(description="Instead of the request's method.")] = None,
) -> Response:
    """Says what to run where; nothing is done. How many passes a search made is in the header
    Dovetail-Note: the answer has the form of that service."""
    asked = {"request": request, "policy": policy, "limit_s": LONGEST_S}
    with _turns[caller.uid]:
        told = _thought(json.dumps(asked))
    if "error" in told:
        if told["code"] is None:
            raise BadInput(told["error"])
        return JsonAnswer({"ERROR CODE": told["code"], "error": told["error"]}, 400)
    note = "; ".join(told["notes"]).encode("ascii", "backslashreplace").decode()
    return JsonAnswer(told["answer"], headers={"Dovetail-Note": note})


_turns: Final[defaultdict[int, Lock]] = defaultdict(Lock)  # by user


def _thought(asked: str) -> dict[str, Any]:
    words = [sys.executable, "-P", "-m", "dovetail.planning"]
    try:
        done = subprocess.run(
            words,
            input=asked.encode(),
            capture_output=True,
            timeout=_GIVEN_UP_S,
            env={**os.environ, **_ONE_THREAD},
            check=False,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        raise BadInput(
            f"there was no plan after {_GIVEN_UP_S:g} s; name a policy that searches less"
        ) from None
    if done.returncode:
        raise BadInput(
            "the policy ended without a plan: it wanted more time or memory than it may have; "
            "name one that searches less"
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
