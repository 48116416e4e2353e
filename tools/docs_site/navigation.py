"""Where a page stands in the site: start, how-tos, reference, explanation, decisions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeAlias

Entry: TypeAlias = dict[str, Any]
_FILES = ("job-file", "study-file", "service-file", "settings")


def title_of(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text(), re.MULTILINE)
    return found.group(1).replace("`", "") if found else page.stem


def navigation(pages: Path) -> list[Entry]:
    howto = sorted((pages / "docs" / "howto").glob("*.md"), key=title_of)
    extending = [own for own in howto if own.name.startswith("add-")]
    using = [own for own in howto if own not in extending]
    return [
        {"Start": "README.md"},
        {"How to": [{"Use it": _listed(pages, using)}, {"Extend it": _listed(pages, extending)}]},
        {"Reference": _reference(pages)},
        {"Explanation": _listed(pages, sorted((pages / "docs").glob("*.md"), key=title_of))},
        {"Decisions": "docs/decisions/index.md"},
        {"Project": ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]},
    ]


def _reference(pages: Path) -> list[Entry]:
    room = pages / "reference"
    return [
        {"Commands": _with_index(pages, room / "commands")},
        {"Files": _listed(pages, [room / f"{name}.md" for name in _FILES])},
        {"What can be named": _with_index(pages, room / "catalogue")},
        {"Python API": _with_index(pages, room / "python")},
        {"HTTP API": _with_index(pages, room / "http")},
    ]


def _listed(pages: Path, found: list[Path]) -> list[Entry]:
    return [{title_of(own): str(own.relative_to(pages))} for own in found]


def _with_index(pages: Path, room: Path) -> list[Any]:
    index = room / "index.md"
    rest = sorted(own for own in room.glob("*.md") if own != index)
    return [str(index.relative_to(pages)), *_listed(pages, rest)]
