"""The HTTP API: everything the command line does goes through it.

Endpoints are short: they read what is asked, ask the service, and tell what it says. Those that wait
for the service are plain functions, which the framework runs in threads of its own. The schema is
published as docs/openapi.json; `python -m dovetail.daemon.http.app > docs/openapi.json` writes it anew.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from dovetail.daemon.http import console_routes as api_consoles
from dovetail.daemon.http import history_routes as api_past
from dovetail.daemon.http import job_routes as api_jobs
from dovetail.daemon.http import limit_routes as api_limits
from dovetail.daemon.http import machine_routes as api_machine
from dovetail.daemon.http import page_data_routes as api_page_data
from dovetail.daemon.http import page_frame_routes as page_frames
from dovetail.daemon.http import page_routes as api_pages
from dovetail.daemon.http import plan_routes as api_plan
from dovetail.daemon.http import service_routes as api_services
from dovetail.daemon.http import study_routes as api_studies
from dovetail.daemon.http import token_routes as api_tokens
from dovetail.daemon.http import usage_routes as api_usage
from dovetail.daemon.http.connections import ConnectionLimits
from dovetail.daemon.http.error_answers import explain_errors
from dovetail.daemon.http.gate import Gate
from dovetail.daemon.http.network_access import NetworkAccess
from dovetail.daemon.http.page_headers import PageHeaders
from dovetail.daemon.http.page_stream import PageStreams
from dovetail.daemon.http.requests import StrictRoute
from dovetail.version import version

if TYPE_CHECKING:
    from dovetail.daemon.main import Daemon

_ABOUT = (
    "On a Unix socket, where the caller is known by the credentials of their process, or over TCP with "
    '`Authorization: Bearer TOKEN`. An error is one line of JSON: `{"error": …}`.'
)


def make_app(daemon: Daemon, network: NetworkAccess, limits: ConnectionLimits) -> FastAPI:
    app = bare_app()
    app.state.daemon = daemon
    app.state.page_streams = PageStreams(daemon.changes, daemon.desk)
    app.add_middleware(Gate, network=network, limits=limits)
    app.add_middleware(PageHeaders)
    return app


def bare_app() -> FastAPI:
    """The endpoints without a daemon behind them."""
    app = FastAPI(
        title="Dovetail",
        version=version(),
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    parts = (api_jobs, api_consoles, api_studies, api_services, api_past, api_machine, api_limits)
    for part in (*parts, api_plan, api_tokens, api_pages, api_page_data, api_usage, page_frames):
        app.router.routes.extend(part.routes.routes)  # `include_router` would make each route anew
    explain_errors(app)
    app.openapi = lambda: _schema(app)  # type: ignore[method-assign]
    return app


def _schema(app: FastAPI) -> dict[str, Any]:
    """Made when first asked for. FastAPI's own form of validation errors is not ours."""
    if app.openapi_schema is None:
        routes = [
            route.documented() if isinstance(route, StrictRoute) else route for route in app.routes
        ]
        found = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=routes
        )
        for name in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(name, None)
        app.openapi_schema = found
    return app.openapi_schema


def text() -> str:
    return json.dumps(bare_app().openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
