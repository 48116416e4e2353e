"""The files of an analysis: report.html for people, analysis.json for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from dovetail.analysis.driver import Analysis
from dovetail.experiments.files import REPORT

ANALYSIS = "analysis.json"


def write(out: Path, analysis: Analysis) -> None:
    from dovetail.analysis.page import render

    out.mkdir(parents=True, exist_ok=True)
    _put(out / ANALYSIS, json.dumps(plain(asdict(analysis)), indent=1, allow_nan=False) + "\n")
    _put(out / REPORT, render(analysis))


def _put(path: Path, text: str) -> None:
    """Written completely or not at all. A lone surrogate in a name must not cost the file."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(text.encode("utf-8", "replace"))
    part.replace(path)


def plain(value: Any) -> Any:
    """As JSON allows it: numbers that are not finite become null, numpy numbers plain ones."""
    if isinstance(value, dict):
        return {str(key): plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [plain(own) for own in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
