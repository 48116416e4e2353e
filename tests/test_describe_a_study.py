"""docs/howto/describe-a-study.md says what is true."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from dovetail.tune import space
from dovetail.tune.described import read_space

PAGE = (Path(__file__).parents[1] / "docs" / "howto" / "describe-a-study.md").read_text("utf-8")
PAIRS = re.findall(r"^\| `((?:Float|Log|Integer|Choice)\(.*?\))`.*? \| `(\{.*?\})`", PAGE, re.M)


def test_all_four_parameters_are_told_in_python_as_in_the_file() -> None:
    assert [python.partition("(")[0] for python, _ in PAIRS] == [
        "Float",
        "Log",
        "Integer",
        "Choice",
    ]
    for python, written in PAIRS:
        in_python = eval(python, vars(space))  # our own page
        assert read_space({"x": yaml.safe_load(written)}) == space.Space({"x": in_python})
