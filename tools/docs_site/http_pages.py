"""The HTTP interface of the daemon, from docs/openapi.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.docs_site.file_pages import fields, kind
from tools.docs_site.markdown import code, plain, table

_SCHEMAS = "schemas.md#"


def http_pages(root: Path) -> dict[str, str]:
    """By path: a page of all calls, and one of what they take and give."""
    api = json.loads((root / "docs" / "openapi.json").read_text())
    return {
        "reference/http/index.md": "\n".join(_calls(api)),
        "reference/http/schemas.md": "\n".join(_schemas(api)),
    }


def _calls(api: Mapping[str, Any]) -> Iterator[str]:
    yield "# HTTP API\n"
    yield plain(api["info"]["description"]) + "\n"
    yield "The same for programs: [openapi.json](../../docs/openapi.json).\n"
    by_tag: dict[str, list[str]] = {}
    for path, methods in api["paths"].items():
        for method, call in methods.items():
            tag = call.get("tags", ["other"])[0]
            by_tag.setdefault(tag, []).extend(_call(f"{method.upper()} {path}", call))
    for tag, lines in by_tag.items():
        yield f"## {tag.capitalize()}\n"
        yield from lines


def _call(title: str, call: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {code(title)}\n"
    yield plain(call.get("description") or call["summary"]) + "\n"
    rows = [
        (code(own["name"]), own["in"], kind(own["schema"], _SCHEMAS), plain(_about(own)))
        for own in call.get("parameters", ())
    ]
    yield table(("parameter", "in", "value", "meaning"), rows)
    if "requestBody" in call:
        yield f"Takes {_content(call['requestBody'])}.\n"
    for status, answer in call["responses"].items():
        if status.startswith("2"):
            yield f"Answers {status}: {_content(answer) or 'nothing'}.\n"


def _about(parameter: Mapping[str, Any]) -> str:
    told = str(parameter.get("description", ""))
    return f"Needed. {told}" if parameter.get("required") and parameter["in"] != "path" else told


def _content(own: Mapping[str, Any]) -> str:
    """Such as `Jobs` in application/json."""
    return ", or ".join(
        f"{kind(told['schema'], _SCHEMAS)} in {media}" if told.get("schema") else media
        for media, told in own.get("content", {}).items()
    )


def _schemas(api: Mapping[str, Any]) -> Iterator[str]:
    yield "# What the HTTP API takes and gives\n"
    for name, own in api["components"]["schemas"].items():
        yield f"## {name}\n"
        yield from fields(own)
