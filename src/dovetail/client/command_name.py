"""How our command can be typed here, for messages that tell people what to do next."""

from __future__ import annotations

import os
import sys
from pathlib import Path

TYPED_VARIABLE = "DOVETAIL_TYPED"  # set by the other end of ssh


def typed_command() -> str:
    """The command as it can be typed here: by its name if the shell finds it, else by its path."""
    if far := os.environ.get(TYPED_VARIABLE):
        return far
    from shutil import which  # slow to import, and seldom asked for

    typed, name = Path(sys.argv[0]), "dovetail"
    found = which(name)
    if typed.name != name or not typed.exists() or (found and typed.samefile(found)):
        return name
    return min(os.path.relpath(typed), str(typed), key=len)
