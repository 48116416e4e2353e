"""The published schema says what may be asked: generated requests, well-formed and not, get answers
that the schema promises, and never a 500."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import settings
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from dovetail.daemon.http import app as api

PUBLISHED = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())
ENDLESS = [
    path
    for path, methods in PUBLISHED["paths"].items()
    if '"text/event-stream"' in json.dumps(methods)
]
LAST = "/v1/stop"
ACCEPTS_MORE = "/v1/jobs"  # descriptions of jobs may be spelled in more ways than the schema tells
CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]
# From a fixture: requests are then made up where this test runs, not in every process that collects.
schema = schemathesis.pytest.from_fixture("published")


def test_streams_without_an_end_are_left_out() -> None:
    assert ENDLESS == ["/v1/events", "/v1/page/stream"]


@pytest.fixture
def published(request: pytest.FixtureRequest) -> Any:
    request.node._nodeid = request.node.nodeid  # its name before pytest 9.1, which is looked for
    return schemathesis.openapi.from_dict(api.bare_app().openapi())


@pytest.fixture(scope="module")
def place(start: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A daemon on the network that takes on every job and runs none: its address and its token."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder: Path = tmp_path_factory.mktemp("fuzzed")
    live = start(folder, listen=f"127.0.0.1:{port}", harmless=True)
    for script in ("true", "sleep 60"):
        live.submit(script)
    return f"http://127.0.0.1:{port}", (folder / "token").read_text().strip()


@schema.exclude(path=[*ENDLESS, LAST]).parametrize()
@settings(max_examples=8)
def test_every_answer_is_one_that_the_schema_promises(
    case: schemathesis.Case[Any], place: tuple[str, str]
) -> None:
    address, token = place
    if case.query.get("follow"):
        case.query["follow"] = False  # or the answer ends with the job
    response = case.call(
        base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=120
    )
    assert response.status_code != 500, response.text
    stricter = [] if case.path == ACCEPTS_MORE else [negative_data_rejection]
    case.validate_response(response, checks=[*CHECKS, *stricter])
