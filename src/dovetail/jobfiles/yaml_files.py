"""Job descriptions in YAML.

Every scalar is read as the text that was written, and the fields know what to make of it. So `no` is
not taken for false, `1:30` not for a number to the base of sixty, and job 7.10 stays apart from 7.1.
JSON is YAML too. Needs PyYAML, and pydantic only where a description is checked.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from dovetail.core.errors import BadInput
from dovetail.jobfiles.complaint import clipped, shown
from dovetail.jobfiles.explain import Path

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node, ScalarNode

    from dovetail.jobfiles.job_model import JobSpec

MOST_CHARACTERS = 2_000_000  # of a file; the description itself may have half of that
DEEPEST = 20
MOST_VALUES = 20_000
MOST_WEIGHT = 2_000_000  # of all values once aliases are followed
VALUE_WEIGHT = MOST_WEIGHT // MOST_VALUES  # of one beside its characters, or empty ones were free
NULLS = ("", "~", "null", "Null", "NULL")
STANDARD = "tag:yaml.org,2002:"


def parse_yaml(text: str, source: str = "") -> JobSpec:
    """The description in a text; mistakes are told with their line in `source`."""
    from dovetail.jobfiles.job_model import read

    given, lines = located(text, source or "YAML")
    return read(given, source, lines)


def unchecked(text: str, source: str = "") -> object:
    """The description as written; the daemon checks it, which saves loading pydantic here.

    If it is refused there, `parse_yaml` refuses it too, and knows the line.
    """
    return located(text, source or "YAML")[0]


def text_of(path: str) -> str:
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as file:
            raw = file.read(MOST_CHARACTERS + 1)
        if len(raw) > MOST_CHARACTERS:
            raise BadInput(f"cannot read {path!r}: it has more than {MOST_CHARACTERS:,} bytes")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"cannot read {path!r}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadInput(f"cannot read {path!r}: it is not UTF-8 text") from None
    except ValueError as error:  # a path with a NUL inside
        raise BadInput(f"cannot read {path!r}: {error}") from None


def located(
    text: str, source: str, least: str = "run: python program.py"
) -> tuple[object, dict[Path, int]]:
    """Tables, lists and texts, and the line on which each stands."""
    import yaml

    if len(text) > MOST_CHARACTERS:
        raise BadInput(f"{source}: it has more than {MOST_CHARACTERS:,} characters")
    try:
        root = _loader()(text).get_single_node()
        if root is None:
            raise BadInput(f"{source}: it is empty; write at least {least!r}")
        reading = _Reading()
        return reading.value(root, ()), reading.lines
    except _Mistake as error:
        raise BadInput(f"{source}, line {error.line}: {error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}, line {mark.line + 1}" if mark else source
        raise BadInput(f"{where}: this is not YAML: {_one_line(error)}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadInput(
            f"{source}, line {line}: the character U+{_code(error.character):04X} cannot stand in "
            "YAML; write it as an escape in double quotes"
        ) from None


def _code(character: int | str | bytes) -> int:
    return character if isinstance(character, int) else ord(character)


def _one_line(error: Any) -> str:
    told = [part for part in (error.context, error.problem) if part]
    return clipped(" ".join(", ".join(told).split()), 200)


class _Mistake(Exception):
    """Good YAML, but nothing that a job is described by."""

    def __init__(self, mark: Any, problem: str) -> None:
        super().__init__(problem)
        self.line = mark.line + 1


@cache
def _loader() -> Any:
    """PyYAML as far as nodes, with no guessing of types, no objects and no endless depth."""
    from yaml.composer import Composer
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.resolver import BaseResolver
    from yaml.scanner import Scanner

    class Loader(Reader, Scanner, Parser, Composer, BaseResolver):
        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)
            Composer.__init__(self)
            BaseResolver.__init__(self)
            self.depth = self.values = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.depth > DEEPEST:
                raise _Mistake(self.get_mark(), "it is nested too deep for a job")
            if self.values > MOST_VALUES:
                raise _Mistake(self.get_mark(), f"it has more than {MOST_VALUES:,} values")
            self.depth += 1
            self.values += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Loader


class _Reading:
    """Walks the nodes of one text, following aliases, and notes on which line each value stands."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.weight = 0

    def value(self, node: Node, path: Path) -> object:
        from yaml.nodes import MappingNode, ScalarNode

        self.lines.setdefault(path, node.start_mark.line + 1)
        self._weigh(node, path)
        self._refuse_tags(node)
        if isinstance(node, ScalarNode):
            return _scalar(node)
        if isinstance(node, MappingNode):
            return self._table(node, path)
        return [self.value(own, (*path, index)) for index, own in enumerate(node.value)]

    def _table(self, node: MappingNode, path: Path) -> dict[str, object]:
        table: dict[str, object] = {}
        for key, own in node.value:
            name = self._name(key)
            if name in table:
                raise _Mistake(key.start_mark, f"{shown(name)} is there twice; remove one")
            self.lines[(*path, name)] = key.start_mark.line + 1
            table[name] = self.value(own, (*path, name))
        return table

    def _name(self, key: Node) -> str:
        from yaml.nodes import ScalarNode

        self._refuse_tags(key)
        if not isinstance(key, ScalarNode):
            raise _Mistake(key.start_mark, "the name of a field must be a plain text")
        name: str = key.value
        return name

    def _weigh(self, node: Node, path: Path) -> None:
        self.weight += VALUE_WEIGHT + len(node.value)
        if self.weight > MOST_WEIGHT or len(path) > DEEPEST:
            raise _Mistake(
                node.start_mark, "its aliases (*name) unfold to more than a job can hold"
            )

    def _refuse_tags(self, node: Node) -> None:
        if node.tag.removeprefix(STANDARD) not in ("str", "seq", "map"):
            told = shown(node.tag.replace(STANDARD, "!!"))
            raise _Mistake(node.start_mark, f"the tag {told} is not understood; leave it out")


def _scalar(node: ScalarNode) -> str | None:
    if node.style is None and node.value in NULLS:
        return None
    text: str = node.value
    # JSON escapes a character outside the basic plane as two halves, which PyYAML leaves apart.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
