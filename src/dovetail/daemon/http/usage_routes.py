"""Endpoints about what was used, by whom, and how it would have been under other policies."""

from __future__ import annotations

import re
import time
from itertools import islice
from typing import Annotated, Any

from fastapi import Depends, Query, Response
from starlette.responses import StreamingResponse

from dovetail.api.page_row import ReplayTold, UsageRow, UsageTold
from dovetail.daemon.history.costs import NO_FILE
from dovetail.daemon.history.usage import MOST_JOBS, Grouping, WantedJobs, as_csv, grouped, rows_of
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.history_routes import EndedPhase, Time
from dovetail.daemon.http.job_routes import Text
from dovetail.daemon.http.request_models import ReplayAsked
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.http.visibility import row_for
from dovetail.store import Filter

routes = router("usage")
_CSP = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')


def _wanted(
    user: Text = None,
    name: Text = None,
    tenant: Text = None,
    model: Text = None,
    since: Time = None,
    until: Time = None,
    phase: EndedPhase = None,
) -> WantedJobs:
    only = Filter(user or None, name or None, since, until)
    return WantedJobs(only, tenant or None, model or None, phase)


Which = Annotated[Any, Depends(_wanted)]


@routes.get("/v1/page/usage", response_model=UsageTold, responses=problems(503))
def usage(
    daemon: AskedDaemon,
    caller: Asking,
    wanted: Which,
    by: Grouping = "user",
    most: Annotated[int, Query(ge=0, le=1000)] = 200,
) -> Response:
    """Ended jobs, grouped. Energy and money are those of the whole daemon over that time, shared out
    by GPU-hours."""
    rows = list(rows_of(daemon.service, wanted))
    groups = grouped(rows, by)
    uncosted = _share_out(daemon, wanted, groups)
    told = UsageTold(
        groups=groups,
        jobs=[row_for(caller, row) for row in rows[:most]],
        total=len(rows),
        all=len(rows) < MOST_JOBS,
        uncosted=uncosted,
        currency=daemon.costs.currency,
    )
    return JsonAnswer(told)


def _share_out(daemon: AskedDaemon, wanted: WantedJobs, groups: list[UsageRow]) -> str:
    """Why it cannot be done; "" if it is."""
    only = wanted.only
    if daemon.costs_notice:
        return str(daemon.costs_notice)
    clock = daemon.service.clock
    now = clock()
    begin = max((only.since or 0.0) - clock.epoch, 0.0)
    figures = daemon.account.since(begin, now)
    spent = {name: figures[name] for name in ("energy_kwh", "total_cost")}
    if only.until is not None and only.until < time.time():
        later = daemon.account.since(max(only.until - clock.epoch, 0.0), now)
        spent = {name: max(own - later[name], 0.0) for name, own in spent.items()}
    everybody = WantedJobs(Filter(since=only.since, until=only.until))
    used = grouped(rows_of(daemon.service, everybody), "user")
    total = sum(own.gpu_hours for own in used)
    has_prices = daemon.costs_file != NO_FILE
    for own in groups:
        part = own.gpu_hours / total if total else 0.0
        if has_prices or spent["energy_kwh"]:
            own.energy_kwh = spent["energy_kwh"] * part
        if has_prices:
            own.money = spent["total_cost"] * part
    return "" if has_prices else "no prices are known (dovetail up --costs FILE)"


@routes.get(
    "/v1/page/usage.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}}, **problems(503)},
)
def usage_as_csv(
    daemon: AskedDaemon,
    wanted: Which,
    most: Annotated[int, Query(ge=1, le=MOST_JOBS)] = MOST_JOBS,
) -> Response:
    """The ended jobs as a table for a spreadsheet, the newest first."""
    return StreamingResponse(
        as_csv(islice(rows_of(daemon.service, wanted), most)),
        media_type="text/csv",
        headers={"content-disposition": 'attachment; filename="dovetail-jobs.csv"'},
    )


# --------------------------------------------------------------------------------------- replays


@routes.post(
    "/v1/page/replay",
    status_code=201,
    response_model=ReplayTold,
    responses=problems(400, 404, 409, 503),
)
def begin_replay(asked: ReplayAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """Simulate what was submitted in that time under other policies; takes the place of the caller's
    last replay."""
    only = Filter(since=asked.since, until=asked.until)
    nodes = daemon.service.look(lambda view, now: list(view.room.nodes))
    return JsonAnswer(daemon.replays.begin(only, asked.policies, nodes, caller), 201)


@routes.get("/v1/page/replay", response_model=ReplayTold, responses=problems(404))
def replay(daemon: AskedDaemon, caller: Asking) -> Response:
    """How far the caller's replay is."""
    return JsonAnswer(daemon.replays.told(caller))


@routes.get(
    "/v1/page/replay/report",
    response_class=Response,
    responses={200: {"content": {"text/html": {}}}, **problems(404)},
)
def replay_report(daemon: AskedDaemon, caller: Asking) -> Response:
    """The comparison as a page, which allows itself nothing but its own script and style."""
    text = daemon.replays.report(caller)
    found = _CSP.search(text)
    policy = found[1].replace("&#39;", "'") if found else "default-src 'none'"
    headers = {
        "content-security-policy": f"{policy}; frame-ancestors 'none'; sandbox allow-scripts"
    }
    return Response(text, media_type="text/html; charset=utf-8", headers=headers)
