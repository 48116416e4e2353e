"""The architecture page and the import contracts say the same, and leave nothing out."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import dovetail

SOURCES = Path(dovetail.__file__).parent
ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
FRAMEWORKS = {"keras", "lightning", "torch", "transformers"}  # each in its own module of `sdk`


def contract(words: str) -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found: list[dict[str, Any]] = project["tool"]["importlinter"]["contracts"]
    (only,) = (one for one in found if words in one["name"])
    return only


def layers(words: str) -> list[set[str]]:
    return [set(re.findall(r"\w+", layer)) for layer in contract(words)["layers"]]


def table(head: str) -> list[set[str]]:
    """The names in the first column, row by row."""
    _, _, below = PAGE.partition(f"| {head} |")
    rows = below.split("\n\n", 1)[0].splitlines()[2:]
    return [set(re.findall(r"`(\w+)/?`", row.split("|")[1])) for row in rows]


def names_in(folder: Path) -> set[str]:
    """Its modules and packages."""
    found = {path.stem for path in folder.glob("*.py")}
    found |= {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    return {name for name in found if not name.startswith("_")}


def others_imported() -> dict[str, set[str]]:
    """Packages from elsewhere, by the room that imports them."""
    found: dict[str, set[str]] = {}
    for path in SOURCES.rglob("*.py"):
        room = path.relative_to(SOURCES).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            roots = {name.partition(".")[0] for name in names}
            found.setdefault(room, set()).update(roots - sys.stdlib_module_names - {"dovetail"})
    return found


def test_the_rooms_of_the_page_stand_as_the_contract_has_them() -> None:
    rows, order = table("room"), layers("Imports go one way")
    assert rows[-2:] == [{"sdk"}, {"testing"}]  # beside the others
    level = {room: number for number, rooms in enumerate(order) for room in rooms}
    levels = [{level[room] for room in row} for row in rows[:-2]]
    assert all(len(own) == 1 for own in levels)  # what stands in one row is on one level
    assert [own.pop() for own in levels] == sorted(level[next(iter(row))] for row in rows[:-2])
    assert set().union(*rows) == names_in(SOURCES)


def test_the_page_names_every_file_of_the_worlds() -> None:
    assert set().union(*table("file in `worlds`")) == names_in(SOURCES / "worlds")
    assert set().union(*layers("What all worlds share")) == names_in(SOURCES / "worlds")
    assert set().union(*table("file in `worlds/local`")) == names_in(SOURCES / "worlds" / "local")


def test_the_daemon_is_kept_from_every_world() -> None:
    forbidden = set(contract("The daemon knows its world")["forbidden_modules"])
    worlds = [one for one in (SOURCES / "worlds").iterdir() if (one / "__init__.py").exists()]
    assert forbidden == {f"dovetail.worlds.{one.name}" for one in worlds}


def test_nothing_but_the_standard_library_means_every_package_that_we_import() -> None:
    own = contract("nothing but the standard library")
    missing = set().union(*others_imported().values()) - FRAMEWORKS
    assert missing <= set(own["forbidden_modules"])
    order = layers("Imports go one way")
    below = next(number for number, rooms in enumerate(order) if "results" in rooms)
    assert set(own["source_modules"]) == {f"dovetail.{o}" for o in set().union(*order[below:])}
    for allowed in own["ignore_imports"]:
        assert (
            f"`{allowed.partition(' -> ')[0].removeprefix('dovetail.').removesuffix('.*')}`" in PAGE
        )


def test_what_a_training_script_imports_is_kept_from_every_room() -> None:
    forbidden = set(contract("What a training script imports")["forbidden_modules"])
    rooms = {f"dovetail.{name}" for name in names_in(SOURCES) - {"sdk"}}
    assert {name for name in forbidden if name.startswith("dovetail.")} == rooms
    assert others_imported()["sdk"] == {*FRAMEWORKS, "numpy"}
