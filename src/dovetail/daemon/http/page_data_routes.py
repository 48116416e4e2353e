"""What the pages ask for beyond what everybody asks for: read once, told to all who look."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import Header, Query, Response

from dovetail.api.page_row import HourAhead, Me, NowTold, PastHour, QueueLine
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.job_routes import Text
from dovetail.daemon.http.requests import AskedDaemon, Asking, router

routes = router("page")
_MOST_AT_ONCE = 500


@routes.get("/v1/page/me", response_model=Me, responses=problems())
async def me(daemon: AskedDaemon, caller: Asking) -> Response:
    """Who asks."""
    return JsonAnswer(
        Me(
            user=caller.name,
            admin=caller.admin,
            version=daemon.version,
            system=daemon.home.system,
            now=time.time(),
        )
    )


@routes.get("/v1/page/now", response_model=NowTold, responses=problems(503))
def now(
    daemon: AskedDaemon, if_none_match: Annotated[str | None, Header(max_length=60)] = None
) -> Response:
    """Who runs where. Told from the last look, which is at most a moment old."""
    seen = daemon.overview.now()
    tag = f'"{seen.scene.seq}-{seen.at:.3f}"'
    if if_none_match == tag:
        return Response(status_code=304)
    return Response(seen.text, media_type="application/json", headers={"etag": tag})


@routes.get("/v1/page/line", response_model=QueueLine, responses=problems(503))
def line(
    daemon: AskedDaemon,
    caller: Asking,
    first: Annotated[int, Query(ge=0, le=1 << 40)] = 0,
    most: Annotated[int, Query(ge=0, le=_MOST_AT_ONCE)] = 100,
    user: Text = None,
) -> Response:
    """Those that wait, in the order in which the policy would start them."""
    return JsonAnswer(daemon.overview.line(first, most, user, caller))


@routes.get("/v1/page/past", response_model=PastHour, responses=problems(503))
def past_hour(daemon: AskedDaemon) -> Response:
    """The stints that ended within the last hour."""
    return JsonAnswer(daemon.overview.past.told())


@routes.get("/v1/page/ahead", response_model=HourAhead, responses=problems(503))
def hour_ahead(
    daemon: AskedDaemon, ids: Annotated[str, Query(max_length=8000, examples=["12,13"])] = ""
) -> Response:
    """The hour to come, as it is foreseen, and when these jobs are expected to start."""
    wanted = [own for own in ids.split(",") if own]
    return JsonAnswer(daemon.overview.ahead.told(wanted, daemon.overview.seq))
