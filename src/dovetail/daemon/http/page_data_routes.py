"""What the pages ask for beyond what everybody asks for: read once, told to all who look."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import Header, Query, Response

from dovetail.api.forecast_row import Expected, WhatIf
from dovetail.api.page_row import (
    HourAhead,
    HourCost,
    JobStory,
    LiveStudy,
    LogFound,
    Me,
    NowTold,
    PastHour,
    PolicyNames,
    PolicyPreview,
    QueueLine,
)
from dovetail.client.job_facts import facts
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.job_routes import Id, Text, readable_log, whatif_of
from dovetail.daemon.http.request_models import PolicyAsked, TextAsked
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.http.study_routes import Name
from dovetail.daemon.http.visibility import row_for, study_for
from dovetail.daemon.refusals import NotAllowed
from dovetail.jobfiles.any_text import spec_in

routes = router("page")
_MOST_AT_ONCE = 500
_HOUR_S = 3600


@routes.get("/v1/page/me", response_model=Me, responses=problems())
async def me(daemon: AskedDaemon, caller: Asking) -> Response:
    """Who asks."""
    return JsonAnswer(
        Me(
            user=caller.name,
            admin=caller.admin,
            version=daemon.version,
            system=daemon.home.system,
            network=bool(caller.token),
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


@routes.get("/v1/page/cost", response_model=HourCost, responses=problems(503))
def hour_cost(daemon: AskedDaemon) -> Response:
    """The cost of this hour, told to all pages from one account."""

    def made() -> HourCost:
        clock = daemon.service.clock
        begin = time.time() // _HOUR_S * _HOUR_S
        figures = daemon.account.since(max(begin - clock.epoch, 0.0), clock())
        return HourCost(
            since=begin,
            file=daemon.costs_file,
            currency=daemon.costs.currency,
            total_cost=figures["total_cost"],
            energy_kwh=figures["energy_kwh"],
        )

    return JsonAnswer(daemon.overview.cost.told(made, daemon.overview.seq))


@routes.get("/v1/page/jobs/{job_id}/story", response_model=JobStory, responses=problems(404, 503))
def job_story(job_id: Id, daemon: AskedDaemon, caller: Asking) -> Response:
    """What is told of a job beyond its row. What it reports is told to its owner alone."""
    row = row_for(caller, daemon.service.job(job_id))
    story, owned = daemon.overview.stories.of(row), caller.may_read(row.user)
    expected = None
    if row.ended_at is None:
        ahead = daemon.overview.ahead.expected(job_id, daemon.overview.seq)
        expected = Expected(*ahead)
    return JsonAnswer(
        JobStory(
            seq=story.seq,
            facts=[fact for fact in facts(row, expected, time.time()) if fact[1]],
            stints=story.stints(),
            metrics=story.metrics() if owned else [],
            owned=owned,
        )
    )


@routes.get(
    "/v1/page/jobs/{job_id}/log", response_model=LogFound, responses=problems(403, 404, 503)
)
def find_in_log(
    job_id: Id,
    daemon: AskedDaemon,
    caller: Asking,
    text: Annotated[str, Query(min_length=1, max_length=200)],
    start: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
    most: Annotated[int, Query(ge=1, le=_MOST_AT_ONCE)] = 100,
) -> Response:
    """The lines of a log that contain a text, small and capital letters alike: as many as are found
    within a moment, and how far that came."""
    from dovetail.daemon.log_search import find

    return JsonAnswer(find(readable_log(job_id, daemon, caller), text, start, most))


@routes.get("/v1/page/studies/{name}", response_model=LiveStudy, responses=problems(404, 503))
def live_study(name: Name, daemon: AskedDaemon, caller: Asking) -> Response:
    """A study as its page draws it: the curves thinned to what can be seen."""
    from dovetail.reports.study_data import data_of
    from dovetail.reports.study_page import facts_of, found_text

    page = study_for(caller, daemon.studies.one(name, caller))
    return JsonAnswer(
        LiveStudy(
            id=page.id,
            name=page.name,
            user=page.user,
            state=page.state,
            owned=caller.may_read(page.user),
            found=found_text(page),
            best=page.best,
            facts=list(facts_of(page)),
            data=data_of(page, {}),
        )
    )


@routes.post("/v1/page/whatif", response_model=WhatIf, responses=problems(400, 404, 409, 503))
def whatif_file(asked: TextAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """As /v1/whatif, of a job file as its user has it: YAML, a script with #SBATCH lines, any script."""
    return whatif_of(spec_in(asked.text), asked.by, daemon, caller)


@routes.get("/v1/page/policies", response_model=PolicyNames, responses=problems())
def policies() -> Response:
    """The policies and predictors that can be named."""
    from dovetail.policies import registry
    from dovetail.predict.registry import PREDICTORS

    names = [name for name in PREDICTORS.names() if name != "oracle"]
    return JsonAnswer(PolicyNames(policies=list(registry.names()), predictors=names))


@routes.post("/v1/page/policy", response_model=PolicyPreview, responses=problems(400, 503))
def preview_policy(asked: PolicyAsked, daemon: AskedDaemon, caller: Asking) -> Response:
    """What the forecast says that another policy would change. Nothing is set."""
    if not caller.admin:
        raise NotAllowed("only an administrator may try out another policy")
    from dovetail.daemon.foresight.policy_preview import preview

    return JsonAnswer(preview(daemon.service, asked.policy))
