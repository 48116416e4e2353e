"""The arguments of every endpoint: the daemon, the caller, and JSON that was read strictly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from dovetail.daemon.http.error_answers import JsonAnswer
from dovetail.daemon.users.callers import Caller

if TYPE_CHECKING:
    from dovetail.daemon.main import Daemon


_MOST_VALUES = 1_000_000
_SMALL_BYTES = 1 << 14  # of a body that is read and checked at once


async def _daemon(request: Request) -> Any:
    return request.app.state.daemon


async def _caller(request: Request) -> Any:
    return request.state.caller


if TYPE_CHECKING:
    AskedDaemon = Daemon
    Asking = Caller
else:
    AskedDaemon = Annotated[object, Depends(_daemon)]
    Asking = Annotated[object, Depends(_caller)]


class StrictRequest(Request):
    """JSON has no NaN and no Infinity, though Python reads them."""

    async def json(self) -> Any:
        body = await self.body()
        if body.count(b",") + body.count(b"[") + body.count(b"{") > _MOST_VALUES:
            raise HTTPException(
                413, f"the request has more than {_MOST_VALUES:,} values; send it in parts"
            )
        try:
            return json.loads(body, parse_constant=_refuse)
        except RecursionError:
            raise json.JSONDecodeError("nested too deeply", "", 0) from None
        except UnicodeDecodeError:
            raise json.JSONDecodeError("not UTF-8", "", 0) from None


def _refuse(constant: str) -> NoReturn:
    raise json.JSONDecodeError(f"{constant} is no number in JSON", "", 0)


class StrictRoute(APIRoute):
    """Reads JSON strictly. Endpoints make their answers themselves, so the models of these are for the
    schema alone: checkers of them, never used, would take most of the time in which a daemon starts."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        response_model: Any = None,
        responses: dict[int | str, dict[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path, endpoint, response_model=None, **options)
        self._told = {"response_model": response_model, "responses": responses}
        self._options = options

    def documented(self) -> APIRoute:
        """The same with the models of its answers."""
        return APIRoute(self.path, self.endpoint, **self._options, **self._told)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            asked = StrictRequest(request.scope, request.receive)
            is_json = "json" in request.headers.get("content-type", "")
            if not is_json or len(await asked.body()) <= _SMALL_BYTES:
                return await handle(asked)
            return await run_in_threadpool(lambda: asyncio.run(_answered(handle, asked)))

        return strictly


async def _answered(
    handle: Callable[[Request], Coroutine[Any, Any, Response]], asked: Request
) -> Response:
    """On a thread with a loop of its own: what a large body holds may take minutes to check, and on the
    server's own loop nobody else would be heard."""
    return await handle(asked)


def router(tag: str) -> APIRouter:
    return APIRouter(route_class=StrictRoute, default_response_class=JsonAnswer, tags=[tag])
