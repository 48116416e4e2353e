"""Packages of strangers: installed into a folder as pip would, and used by typing commands."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def install(site: Path, project: Mapping[str, Any]) -> None:
    """What pip leaves of a `pyproject.toml` beside the modules: the metadata and the entry points."""
    about = project["project"]
    info = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n"
    (info / "METADATA").write_text(head)
    lines = []
    for group, points in about["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def install_text(site: Path, pyproject: str) -> None:
    install(site, tomllib.loads(pyproject))


def add(site: Path, package: str, group: str, **points: str) -> None:
    """A package that has nothing but entry points."""
    named = {name.replace("_", "-"): where for name, where in points.items()}
    install(site, {"project": {"name": package, "version": "1", "entry-points": {group: named}}})


def python(site: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In the folder, which stands for site-packages."""
    path = [str(site), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    # Relative entries of the path are meant from where the tests run.
    return subprocess.run(
        [sys.executable, *words],
        cwd=site,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(Path(part).absolute()) for part in path),
            **environment,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def dovetail(site: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python(site, "-m", "dovetail.cli.main", *words, **environment)
