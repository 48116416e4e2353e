"""Traces: reading, writing, making and describing them, and the clusters they run on."""

from dovetail.traces.formats import FORMATS, read, read_durations
from dovetail.traces.trace import Trace

__all__ = ["FORMATS", "Trace", "read", "read_durations"]
