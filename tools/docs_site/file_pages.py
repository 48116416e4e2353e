"""The files that people write, field by field, from their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from dovetail.jobfiles.schema import schema, study_schema
from dovetail.jobfiles.service_model import ServiceSpec
from tools.docs_site.markdown import block, code, plain, table

Schema: TypeAlias = Mapping[str, Any]
_LIMITS = {"minimum": "≥ ", "exclusiveMinimum": "> ", "maximum": "≤ ", "exclusiveMaximum": "< "}


def file_pages(root: Path) -> dict[str, str]:
    """By path."""
    settings = json.loads((root / "docs" / "config.schema.json").read_text())
    return {
        "reference/job-file.md": _page("Job file", "../docs/howto/describe-a-job.md", schema()),
        "reference/study-file.md": _page(
            "Study file", "../docs/howto/describe-a-study.md", study_schema()
        ),
        "reference/service-file.md": _page(
            "Service file", "../docs/services.md", ServiceSpec.model_json_schema()
        ),
        "reference/settings.md": _page("Settings", "../docs/howto/configure.md", settings),
    }


def _page(title: str, howto: str, found: Schema) -> str:
    lines = [
        f"# {title}\n",
        f"Every field. How to use them: [{title.lower()}, by example]({howto}).\n",
    ]
    lines += fields(found)
    for name, own in found.get("$defs", {}).items():
        lines += [f"## {name}\n", *fields(own)]
    for name, own in found.get("properties", {}).items():
        if own.get("properties"):
            lines += [f"## {name}\n", *fields(own)]
    examples = [block(json.dumps(own, indent=2), "json") for own in found.get("examples", ())]
    return "\n".join([*lines, *(["## Examples\n"] if examples else []), *examples])


def fields(found: Schema) -> Iterator[str]:
    """A description, and a table of what can be said."""
    if found.get("description"):
        yield plain(found["description"]) + "\n"
    needed = found.get("required", ())
    rows = [
        (code(name), _told(own), kind(own), "needed" if name in needed else _default(own))
        for name, own in found.get("properties", {}).items()
    ]
    yield table(("field", "meaning", "value", "default"), rows)


def kind(own: Schema, links: str = "#") -> str:
    """What a value may be; `links` leads to where the kinds with a name are."""
    if "$ref" in own:
        name = own["$ref"].rpartition("/")[2]
        return f"[{name}]({links}{name.lower()})"
    if "enum" in own:
        return ", ".join(code(json.dumps(each)) for each in own["enum"])
    ways = own.get("anyOf") or own.get("oneOf")
    if ways:
        return " or ".join(dict.fromkeys(kind(way, links) for way in ways))
    named = own.get("type", "anything")
    words = " or ".join(named) if isinstance(named, list) else str(named)
    if named == "array" and own.get("items"):
        words = f"list of {kind(own['items'], links)}"
    limits = " ".join(f"{sign}{own[key]:g}" for key, sign in _LIMITS.items() if key in own)
    return f"{words} {plain(limits)}".strip()


def _default(own: Schema) -> str:
    default = own.get("default")
    empty = default is None or default == "" or isinstance(default, dict | list)
    return "" if empty else code(json.dumps(default))


def _told(own: Schema) -> str:
    examples = ", ".join(code(json.dumps(each)) for each in own.get("examples", ()))
    return plain(own.get("description", "")) + (f" For example {examples}." if examples else "")
