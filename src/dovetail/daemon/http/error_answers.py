"""From errors to answers: always one clear line of JSON, with the status that says whose turn it is."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from dovetail.api.machine_row import ProblemTold
from dovetail.api.wire import text_of
from dovetail.core.errors import BadInput, DovetailError
from dovetail.daemon.refusals import Conflict, DiskFull, NotAllowed, NotFound, Unavailable
from dovetail.jobfiles.complaint import shown
from dovetail.jobfiles.explain import told
from dovetail.store import JournalDamaged, JournalFull, JournalUnusable
from dovetail.worlds.consoles import ConsoleAway, ConsoleRefused
from dovetail.worlds.shortage import Short

STATUS: dict[type[DovetailError], int] = {
    BadInput: 400,
    NotAllowed: 403,
    NotFound: 404,
    Conflict: 409,
    Unavailable: 503,
    DiskFull: 507,
    JournalFull: 507,
    JournalDamaged: 503,
    JournalUnusable: 503,
    Short: 503,
    ConsoleAway: 409,
    ConsoleRefused: 409,
}
_SENTENCES = {
    404: "there is no such page; /openapi.json lists them",
    405: "this page does not know that method; /openapi.json lists them",
}


class JsonAnswer(JSONResponse):
    """A row of `dovetail.api`, or the JSON of another service's form."""

    def render(self, content: object) -> bytes:
        return text_of(content).encode()


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the schema: what an endpoint may answer instead."""
    return {status: {"model": ProblemTold} for status in (401, 403, 413, 422, *statuses)}


def explain_errors(app: FastAPI) -> None:
    app.add_exception_handler(DovetailError, _could_not)
    app.add_exception_handler(RequestValidationError, _not_understood)
    app.add_exception_handler(HTTPException, _no_such_page)
    app.add_exception_handler(Exception, _bug)


async def _could_not(request: Request, error: Exception) -> JsonAnswer:
    for kind in type(error).__mro__:
        if kind in STATUS:
            return JsonAnswer({"error": _one_line(str(error))}, STATUS[kind])
    raise error


async def _not_understood(request: Request, error: Exception) -> JsonAnswer:
    assert isinstance(error, RequestValidationError)
    try:
        sentence = _sentence(error)
    except Exception:  # raised further, it would take what was sent, secrets and all, into the log
        sentence = "the request is not one that /openapi.json describes"
    return JsonAnswer({"error": _one_line(sentence)}, 422)


def _sentence(error: RequestValidationError) -> str:
    first = error.errors()[0]
    kind, (where, *path) = first["type"], first["loc"]
    if kind == "json_invalid":
        return f"the request is not JSON: {first['ctx']['error']} at byte {path[-1]}"
    if where == "body" and not path:
        return "the request needs a JSON object as its body, with Content-Type: application/json"
    if kind == "extra_forbidden" and "spec" not in path:
        return f"there is no field {shown(str(path[-1]))} in such a request"
    start = path.index("spec") + 1 if "spec" in path[:-1] else 0
    source = f"jobs[{path[1]}].spec" if start > 1 else ""
    return told([{**first, "loc": tuple(path[start:])}], source)


async def _no_such_page(request: Request, error: Exception) -> JsonAnswer:
    assert isinstance(error, HTTPException)
    sentence = _SENTENCES.get(error.status_code, str(error.detail))
    headers = dict(error.headers) if error.headers else None
    return JsonAnswer({"error": _one_line(sentence)}, error.status_code, headers)


async def _bug(request: Request, error: Exception) -> JsonAnswer:
    """The server logs it with its traceback."""
    return JsonAnswer({"error": "a mistake in Dovetail: its log, daemon.log, says more"}, 500)


def _one_line(text: str) -> str:
    return " ".join(text.split())
