"""Reading a trace for a report: errors of the file are reported, not refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dovetail import traces
from dovetail.core.errors import BadInput
from dovetail.core.model import Seconds
from dovetail.traces.readers.andreas_folder import is_instance
from dovetail.traces.readers.text_files import STDIN


def read_trace(
    path: str, format: str | None = None, durations: Mapping[str, Seconds] | None = None
) -> traces.Trace:
    """The usable part of the file: without bad rows, if need be without durations or times."""
    if path == STDIN or is_instance(path):
        raise BadInput(f"cannot analyze {path!r}: name a file of jobs, such as jobs.csv")
    try:
        return traces.read(path, format, skip_bad_rows=True, durations=durations)
    except BadInput as error:
        found = _without(path, "duration_s") or _without(path, "submit_s")
        if found is None or not Path(path).exists():
            raise
        return replace(found, notes=(*found.notes, str(error)))


def _without(path: str, needed: str) -> traces.Trace | None:
    try:
        return traces.read(path, skip_bad_rows=True, lacking=(needed,))
    except BadInput:
        return None
