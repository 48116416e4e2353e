"""Small enough to be read: no file over 450 lines, no function over 50."""

import ast
from collections.abc import Iterator
from pathlib import Path

import dovetail

SOURCES = Path(dovetail.__file__).parent
LINES_OF_A_FILE = 450
LINES_OF_A_FUNCTION = 50


def _texts() -> Iterator[tuple[str, str]]:
    for file in sorted(SOURCES.rglob("*.py")):
        yield str(file.relative_to(SOURCES)), file.read_text("utf-8")


def test_no_file_is_too_long() -> None:
    long = {name: text.count("\n") for name, text in _texts()}
    assert {name: lines for name, lines in long.items() if lines > LINES_OF_A_FILE} == {}


def test_no_function_is_too_long() -> None:
    """Counted from `def` on: the options of a command stand above it."""
    long = {}
    for name, text in _texts():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LINES_OF_A_FUNCTION:
                    long[f"{name}:{node.name}"] = lines
    assert long == {}
