"""Someone who has read only the folder names finds the file at the first try.

The table in docs/architecture.md has ten questions, drawn from the README; each file that it names
exists and says in its docstring what the question asks for."""

import ast
import re
from pathlib import Path

import dovetail

SOURCES = Path(dovetail.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
ROW = re.compile(r"^\| (.+\?) \| `([\w/]+\.py)` \| (.+) \|$", re.M)


def test_the_ten_questions_lead_to_files_that_exist_and_say_so() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert len(rows) == 10
    for question, file, words in rows:
        text = ast.get_docstring(ast.parse((SOURCES / file).read_text("utf-8"))) or ""
        assert any(word.strip() in text.lower() for word in words.split(",")), (question, text)
