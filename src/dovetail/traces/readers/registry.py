"""Readers of traces by name."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.catalogue import Catalogue
from dovetail.traces.readers.rows import TraceReader

_HERE = "dovetail.traces.readers"
# The first whose columns are all there is taken, so the more particular come first.
BUILTIN: Mapping[str, tuple[str, str]] = {
    "muri": (f"{_HERE}.tiresias", "MuriTrace"),
    "tiresias": (f"{_HERE}.tiresias", "TiresiasTrace"),
    "philly": (f"{_HERE}.philly", "PhillyTrace"),
    "gavel": (f"{_HERE}.gavel", "GavelTrace"),
    "pollux": (f"{_HERE}.pollux", "PolluxTrace"),
    "alibaba-2023": (f"{_HERE}.alibaba", "AlibabaTrace"),
    "dovetail": (f"{_HERE}.native", "NativeTrace"),
}
READERS = Catalogue(
    "trace format", "dovetail catalogue readers", "dovetail.readers", BUILTIN, "read"
)


def make(text: str) -> TraceReader:
    """The reader that the text describes: its name, then `field=value` parts joined by colons."""
    reader: TraceReader = READERS.make(text)
    return reader
