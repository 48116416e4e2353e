"""Lays `srun` and `scontrol` into the folder of a job that is a Slurm script."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from dovetail.jobfiles.launch import SLURM_TOOLS, slurm_tool
from dovetail.worlds.local import srun


def lay_out_tools(folder: Path) -> None:
    """Its user may be another than ours, and runs them."""
    folder.mkdir(mode=0o755, exist_ok=True)
    first, *others = SLURM_TOOLS
    tool = folder / first
    tool.write_text(slurm_tool(_source_of_srun(), sys.executable), encoding="utf-8")
    for path in (folder, tool):
        path.chmod(0o755)
    for name in others:
        with suppress(FileExistsError):
            (folder / name).symlink_to(first)


@cache
def _source_of_srun() -> str:
    return Path(srun.__file__).read_text(encoding="utf-8")
