"""Readers of traces by name."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.catalogue import Catalogue
from dovetail.traces.readers.rows import Reader

_HERE = "dovetail.traces.readers"
# The first whose columns are all there is taken, so the more particular come first.
BUILTIN: Mapping[str, tuple[str, str]] = {
    "muri": (f"{_HERE}.tiresias", "Muri"),
    "tiresias": (f"{_HERE}.tiresias", "Tiresias"),
    "philly": (f"{_HERE}.philly", "Philly"),
    "gavel": (f"{_HERE}.gavel", "Gavel"),
    "pollux": (f"{_HERE}.pollux", "Pollux"),
    "alibaba-2023": (f"{_HERE}.alibaba", "Alibaba"),
    "dovetail": (f"{_HERE}.native", "Native"),
}
READERS = Catalogue(
    "trace format", "dovetail catalogue readers", "dovetail.readers", BUILTIN, "read"
)


def make(text: str) -> Reader:
    """The reader that the text describes: its name, then `field=value` parts joined by colons."""
    reader: Reader = READERS.make(text)
    return reader
