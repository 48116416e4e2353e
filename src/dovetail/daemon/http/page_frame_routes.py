"""The pages for browsers, under `/page/`. What they show they ask of `/v1`, as everybody does."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query, Response

from dovetail.dashboard import files, shell

routes = APIRouter(include_in_schema=False)
_FOR_GOOD = "private, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


@routes.get("/page")
@routes.get("/page/")
async def now() -> Response:
    return _page("now")


@routes.get("/page/job/{job_id}")
async def job(job_id: str) -> Response:
    return _page("job")


@routes.get("/page/study/{name}")
async def study(name: str) -> Response:
    return _page("live_study")


@routes.get("/page/{name}")
async def named(name: str) -> Response:
    """A page of its own in the navigation."""
    return _page(name) if name in shell.NAMED else _page("missing", 404)


@routes.get("/page/static/{name}")
async def static(
    name: Annotated[str, Path(max_length=80)], v: Annotated[str, Query(max_length=80)] = ""
) -> Response:
    kind = files.served().get(name)
    if kind is None:
        raise HTTPException(404)
    keep = _FOR_GOOD if v else _ASK_AGAIN
    return Response(files.text_of(name), media_type=kind, headers={"cache-control": keep})


@routes.get("/page/{rest:path}")
async def missing(rest: str) -> Response:
    return _page("missing", 404)


def _page(name: str, status: int = 200) -> Response:
    return Response(
        shell.html(name),
        status,
        media_type="text/html; charset=utf-8",
        headers={"cache-control": _ASK_AGAIN},
    )
