"""Endpoints for open pages."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query, Request, Response
from starlette.responses import StreamingResponse

from dovetail.daemon.http.error_answers import problems
from dovetail.daemon.http.history_routes import LARGEST_SEQ, seq_in
from dovetail.daemon.http.page_stream import PageStreams
from dovetail.daemon.http.requests import Asking, router

routes = router("pages")


@routes.get(
    "/v1/page/stream",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}}, **problems()},
)
async def page_stream(
    request: Request,
    caller: Asking,
    after: Annotated[int | None, Query(ge=0, le=LARGEST_SEQ)] = None,
    last_event_id: Annotated[str | None, Header(max_length=30)] = None,
) -> Response:
    """What changes, as server-sent events, each a `PageUpdate`: at most four a second. From the entry
    `after` on, or after the Last-Event-ID, or from now on; it does not end. Others' jobs come without
    what they run and report."""
    streams: PageStreams = request.app.state.page_streams
    seq = seq_in(last_event_id)
    return StreamingResponse(
        streams.stream(caller, after if seq is None else seq),
        media_type="text/event-stream",
        headers={"cache-control": "no-store"},
    )
