"""Text that leaves the program, as somebody looked at it and found it good."""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "golden"


def is_golden(name: str, text: str) -> None:
    """To accept a change after looking at it: DOVETAIL_GOLDEN=accept, and look at the diff."""
    path = _FOLDER / name
    if os.environ.get("DOVETAIL_GOLDEN") == "accept":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n", "utf-8")
    assert text + "\n" == path.read_text("utf-8")
