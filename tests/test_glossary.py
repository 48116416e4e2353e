"""The glossary: every word once, in order, and every class it names is one of ours."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import dovetail

SOURCES = Path(dovetail.__file__).parent
GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"
_ROW = re.compile(r"^\| \*\*(?P<word>.+?)\*\*.* \| (?:`(?P<name>\w+)` )?\|$", re.MULTILINE)


def rows() -> list[tuple[str, str]]:
    return [(row["word"], row["name"] or "") for row in _ROW.finditer(GLOSSARY.read_text("utf-8"))]


def test_every_line_of_the_table_is_a_word_of_its_own_in_order() -> None:
    words = [word for word, _ in rows()]
    lines = [line for line in GLOSSARY.read_text("utf-8").splitlines() if line.startswith("| **")]
    assert len(words) == len(lines) > 80
    assert words == sorted(set(words), key=str.lower)


def test_the_classes_of_the_glossary_are_ours_and_each_has_one_word() -> None:
    ours = {
        node.name
        for file in SOURCES.rglob("*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    }
    named = [name for _, name in rows() if name]
    assert set(named) <= ours
    assert len(named) == len(set(named))
