"""The commit that a folder is at, and what has changed there since."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_MOST_BYTES = 4_000_000  # of packed references
_PATIENCE_S = 10.0
_SHOWN = 5


def commit_of(folder: str) -> str | None:
    """Read from its files, as every submission asks; None where there is none."""
    with suppress(OSError, ValueError):
        git = _git_folder(os.path.abspath(folder))
        head = _line(git, "HEAD") if git else None
        if git and head is not None:
            name = head.removeprefix("ref: ")
            found = head if name == head else _referred(git, name)
            return found if found and is_commit(found) else None
    return None


def is_commit(text: str) -> bool:
    return _COMMIT.fullmatch(text) is not None


def _git_folder(folder: str) -> str | None:
    while True:
        found = os.path.join(folder, ".git")
        if os.path.isdir(found):
            return found
        if os.path.isfile(found):  # a work tree of its own, or a submodule
            told = _line(folder, ".git") or ""
            return os.path.join(folder, told.removeprefix("gitdir: "))
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _referred(git: str, name: str) -> str | None:
    common = os.path.join(git, _line(git, "commondir") or "")
    for place in (git, common):
        if found := _line(place, name):
            return found
    with open(os.path.join(common, "packed-refs"), encoding="utf-8", errors="replace") as file:
        for line in file.read(_MOST_BYTES).split("\n"):
            commit, _, own = line.partition(" ")
            if own == name:
                return commit
    return None


def _line(folder: str, name: str) -> str | None:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.readline(5000).strip()
    except OSError:
        return None


def changes_since(folder: str, commit: str, at: float) -> list[str]:
    """What is not as it was in the folder at that commit and time, in sentences; none: nothing."""
    now = commit_of(folder)
    if now is None:
        return [f"{folder} is no longer kept by Git; it was at {commit[:9]}"]
    told = []
    if now != commit:
        number = _git(folder, "rev-list", "--count", f"{commit}..{now}") or ["?"]
        more = "1 commit" if number[0] == "1" else f"{number[0]} commits"
        told.append(f"{folder} is at commit {now[:9]} now, {more} after {commit[:9]} of then")
    if changed := list(_changed_files(folder, at)):
        names = ", ".join(changed[:_SHOWN]) + (" …" if len(changed) > _SHOWN else "")
        told.append(f"changed since then and not committed: {names}")
    return told


def _changed_files(folder: str, at: float) -> Iterator[str]:
    top = (_git(folder, "rev-parse", "--show-toplevel") or [folder])[0]
    for line in _git(folder, "status", "--porcelain", "--untracked-files=normal"):
        name = line[3:].rpartition(" -> ")[2].strip('"')
        path = os.path.join(top, name)
        if not os.path.lexists(path) or os.lstat(path).st_mtime > at:
            yield name


def _git(folder: str, *words: str) -> list[str]:
    import subprocess

    command = ["git", "-C", folder, "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line for line in done.stdout.split("\n") if line]
