"""What is to be done on a machine, step by step: shown by `--dry-run`, done without."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dovetail.cli.installation.units import MARK
from dovetail.core.errors import BadInput


@dataclass(frozen=True, slots=True)
class Folder:
    path: Path
    mode: int = 0o755

    def __str__(self) -> str:
        return f"folder  {self.path} ({self.mode:o})"

    def do(self) -> None:
        self.path.mkdir(mode=self.mode, parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True)
class File:
    path: Path
    text: str
    keep: bool = False  # one that is there is its administrator's

    def __str__(self) -> str:
        kept = " (kept as it is)" if self.keep and self.path.exists() else ""
        return f"file    {self.path}{kept}"

    def do(self) -> None:
        if self.keep and self.path.exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and not self.keep and not _is_ours(self.path):
            raise BadInput(f"{self.path} was not written by dovetail install; move it away first")
        temporary = self.path.with_name(f".{self.path.name}.part")
        temporary.write_text(self.text)
        temporary.chmod(0o644)
        temporary.replace(self.path)


@dataclass(frozen=True, slots=True)
class ManPages:
    """Many small files in one folder."""

    folder: Path
    texts: Mapping[str, str]

    def __str__(self) -> str:
        return f"pages   {len(self.texts)} in {self.folder}"

    def do(self) -> None:
        for name, text in self.texts.items():
            File(self.folder / name, text).do()


@dataclass(frozen=True, slots=True)
class Link:
    path: Path
    target: Path

    def __str__(self) -> str:
        return f"link    {self.path} -> {self.target}"

    def do(self) -> None:
        if self.path.is_symlink():
            self.path.unlink()
        elif self.path.exists():
            raise BadInput(f"{self.path} is there and no link; move it away first")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.symlink_to(self.target)


@dataclass(frozen=True, slots=True)
class RunProgram:
    words: tuple[str, ...]
    may_fail: bool = False

    def __str__(self) -> str:
        return f"run     {' '.join(self.words)}"

    def do(self) -> None:
        done = subprocess.run(self.words, check=False, capture_output=True, text=True)
        if done.returncode and not self.may_fail:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise BadInput(f"{' '.join(self.words)}: {said[-1] if said else 'it failed'}")


@dataclass(frozen=True, slots=True)
class Remove:
    """A file that carries our mark or is a page of ours, or a link to us; others are left alone."""

    path: Path
    is_folder: bool = False

    def __str__(self) -> str:
        return f"remove  {self.path}"

    def do(self) -> None:
        if self.is_folder:
            shutil.rmtree(self.path, ignore_errors=True)
        elif self.path.is_symlink() or (self.path.exists() and _is_ours(self.path)):
            with suppress(FileNotFoundError):
                self.path.unlink()


@dataclass(frozen=True, slots=True)
class RemoveManPages:
    folder: Path

    def __str__(self) -> str:
        return f"remove  {len(self.paths())} pages in {self.folder}"

    def paths(self) -> list[Path]:
        return sorted(self.folder.glob("dovetail*.1"))

    def do(self) -> None:
        for path in self.paths():
            Remove(path).do()


Step: TypeAlias = Folder | File | ManPages | Link | RunProgram | Remove | RemoveManPages


def _is_ours(path: Path) -> bool:
    return MARK.strip("# ") in path.read_text(errors="replace")


def systemd_runs() -> bool:
    return os.path.isdir("/run/systemd/system")


def check_reachable(program: Path) -> None:
    """Everybody is to run it, so everybody must come to it."""
    for folder in (program, *program.parents):
        if not folder.stat().st_mode & 0o001:
            raise BadInput(
                f"others than root cannot run {program}, since {folder} is closed to them: install "
                "Dovetail where everybody may run it, such as in a virtual environment in /opt/dovetail"
            )


def existing(steps: Sequence[Remove]) -> Iterator[Remove]:
    for step in steps:
        if step.path.exists() or step.path.is_symlink():
            yield step
