"""One name for a meaning: no two public classes share a name."""

import ast
from collections import defaultdict
from pathlib import Path

import dovetail

SOURCES = Path(dovetail.__file__).parent
A_CALLBACK_FOR_EACH_FRAMEWORK = {"DovetailCallback"}
ONE_FOR_EACH_KIND = {"Workload"}  # see core/groups.py
OF_PEOPLE_WHO_EXTEND_US = {"World"}  # in `dovetail.testing` it is a trace and its cluster


def test_every_public_class_has_a_name_of_its_own() -> None:
    found = defaultdict(list)
    for file in sorted(SOURCES.rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(file.relative_to(SOURCES)))
    allowed = A_CALLBACK_FOR_EACH_FRAMEWORK | ONE_FOR_EACH_KIND | OF_PEOPLE_WHO_EXTEND_US
    twice = {name: files for name, files in found.items() if len(files) > 1}
    assert {name: files for name, files in twice.items() if name not in allowed} == {}
