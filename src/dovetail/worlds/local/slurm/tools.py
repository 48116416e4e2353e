"""`srun` and `scontrol` for a job that is a Slurm script, in its folder and first in its PATH."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from dovetail.worlds.local.slurm import srun

TOOLS = "bin"  # in the folder of the job
_NAMES: Final = ("srun", "scontrol")


def lay_out_tools(folder: Path) -> None:
    """Its user may be another than ours, and runs them."""
    folder.mkdir(mode=0o755, exist_ok=True)
    first, *others = _NAMES
    tool = folder / first
    tool.write_text(_script(_source_of_srun(), sys.executable), encoding="utf-8")
    for path in (folder, tool):
        path.chmod(0o755)
    for name in others:
        with suppress(FileExistsError):
            (folder / name).symlink_to(first)


def tools_environment(environment: Mapping[str, str], tools: Path) -> dict[str, str]:
    """First in PATH, and as functions of bash, since a login shell (`#!/bin/bash -l`) makes its PATH
    anew."""
    found = {
        f"BASH_FUNC_{name}%%": f'() {{ {shlex.quote(str(tools / name))} "$@"; }}' for name in _NAMES
    }
    return {**found, "PATH": f"{tools}:{environment.get('PATH', os.defpath)}"}


@cache
def _source_of_srun() -> str:
    return Path(srun.__file__).read_text(encoding="utf-8")


def _script(source: str, python: str) -> str:
    """The program of that source as a script that any user can run: by our Python, else by theirs. Its
    first lines are commands to the shell, and to Python a text."""
    program, ours, quotes = source.split('"""', 2)[2], shlex.quote(python), "'" * 3
    return (
        f"#!/bin/sh\n{quotes}:'\n"
        f'[ -x {ours} ] && exec {ours} -I -S "$0" "$@"\n'
        f'exec python3 -I -S "$0" "$@"\n{quotes}\n{program}'
    )
