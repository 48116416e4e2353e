"""Endpoints about what has happened: jobs that ended, and the journal as it grows."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Annotated, Literal

from fastapi import Header, Query, Response
from starlette.responses import StreamingResponse

from dovetail.api.job_row import Past
from dovetail.api.machine_row import CostsTold
from dovetail.api.wire import read
from dovetail.daemon.history.usage import WantedJobs, rows_of
from dovetail.daemon.http import event_stream as events
from dovetail.daemon.http.error_answers import JsonAnswer, problems
from dovetail.daemon.http.job_routes import MOST_ROWS, Text
from dovetail.daemon.http.request_models import LARGEST_NUMBER
from dovetail.daemon.http.requests import AskedDaemon, Asking, router
from dovetail.daemon.http.visibility import Sight, row_for
from dovetail.store import Filter

routes = router("past")
Time = Annotated[float | None, Query(ge=0, le=LARGEST_NUMBER, description="Seconds since 1970.")]
EndedPhase = Annotated[Literal["finished", "failed", "cancelled"] | None, Query()]
LARGEST_SEQ = (1 << 63) - 1


@routes.get("/v1/history", response_model=Past, responses=problems(503))
def history(
    daemon: AskedDaemon,
    caller: Asking,
    user: Text = None,
    name: Text = None,
    since: Time = None,
    until: Time = None,
    phase: EndedPhase = None,
    limit: Annotated[int, Query(ge=0, le=MOST_ROWS)] = 100,
) -> Response:
    """Jobs that have ended, the newest first; those of one phase among the newest 200,000."""
    only = Filter(user, name, since, until)
    if phase is None:
        rows = daemon.service.history(only, limit)
    else:
        rows = list(islice(rows_of(daemon.service, WantedJobs(only, phase=phase)), limit))
    return JsonAnswer(Past(jobs=[row_for(caller, row) for row in rows]))


@routes.get(
    "/v1/history/trace",
    response_class=Response,
    responses={
        200: {"content": {"text/csv": {}, "application/jsonl": {}}},
        **problems(503),
    },
)
def history_trace(
    daemon: AskedDaemon,
    user: Text = None,
    name: Text = None,
    since: Time = None,
    until: Time = None,
    phase: EndedPhase = None,
    format: Literal["csv", "jsonl"] = "csv",
) -> Response:
    """The jobs that have run, as a trace for `dovetail simulate`: no commands, no environment. Jobs that
    never ran are left out."""
    from dovetail.daemon.history import as_trace as past

    wanted = WantedJobs(Filter(user, name, since, until), phase=phase)
    text = past.trace(daemon.service, wanted, format)
    return Response(text, media_type="text/csv" if format == "csv" else "application/jsonl")


@routes.get("/v1/costs", response_model=CostsTold, responses=problems(503))
def costs(daemon: AskedDaemon, caller: Asking, since: Time = None) -> Response:
    """The costs since then, or since the journal began: energy, carbon, lateness.
    By the prices and watts that the daemon knew at the time; of a short journal, that it knows now."""
    clock = daemon.service.clock
    found = daemon.account.since(max((since or 0.0) - clock.epoch, 0.0), clock())
    begin = max(since or 0.0, clock.epoch)
    services = [asdict(own.cost) for own in daemon.services.all(caller).services]
    told = {**found, "since": begin, "file": daemon.costs_file, "services": services}
    told["currency"] = daemon.costs.currency
    return JsonAnswer(read(CostsTold, told))


@routes.get(
    "/v1/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}}, **problems()},
)
async def journal(
    daemon: AskedDaemon,
    caller: Asking,
    after: Annotated[int | None, Query(ge=0, le=LARGEST_SEQ)] = None,
    last_event_id: Annotated[str | None, Header(max_length=30)] = None,
) -> Response:
    """The entries of the journal as server-sent events, from the one after `after`, or after the
    Last-Event-ID, or from now on; `after=0` gives all that is kept. It does not end. Entries about
    others' jobs and studies come without what those run, are set to and report."""
    last = daemon.store.last_seq
    seq = seq_in(last_event_id) if seq_in(last_event_id) is not None else after
    return StreamingResponse(
        events.stream(
            daemon.reader,
            Sight(caller, daemon.service.owner_of, daemon.studies.owner_of),
            lambda: daemon.store.last_seq,
            last if seq is None else min(seq, last),
        ),
        media_type="text/event-stream",
        headers={"cache-control": "no-store"},
    )


def seq_in(text: str | None) -> int | None:
    """The number of an entry, as a browser that comes back tells it."""
    return int(text) if text and text.isascii() and text.isdigit() else None
