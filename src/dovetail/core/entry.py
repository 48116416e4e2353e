"""An entry of the journal, and the line of text that it is written as.

Plain slotted classes rather than dataclasses: they are created several times per job, and a frozen
dataclass costs three times as much interpreted and ten times as much compiled. `Final` keeps them
read-only to the type checker. See docs/decisions/0002-plain-classes-for-entries.md.
"""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from json.encoder import encode_basestring_ascii
from typing import Any, ClassVar, Final

from dovetail.core.model import Placement, own_fields

quote: Final = encode_basestring_ascii  # final, so that compiled code need not look it up


class Entry:
    """Compares and prints by its fields, like a dataclass."""

    __slots__ = ()
    tag: ClassVar[str] = ""
    fields: ClassVar[tuple[str, ...]] = ()

    def values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.fields)

    def line(self, at: str) -> str:
        """This entry in the journal, at a time that is text already. See `journal.lines` for the
        frequent ones."""
        names = [name for name in self.fields if name != "at"]
        row: dict[str, Any] = {self.tag: _plain(getattr(self, names[0])) if names else True}
        for name in names[1:]:
            value = _plain(getattr(self, name))
            if value is not None:
                row["on" if name == "placement" else name] = value
        return f'{{"at":{at},{json.dumps(row, separators=(",", ":"))[1:]}\n'

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash((self.tag, self.values()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({inside})"


def _plain(value: object) -> object:
    if isinstance(value, Placement):
        return value.row()
    if is_dataclass(value):
        return own_fields(value)
    return value
