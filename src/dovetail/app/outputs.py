"""The files that `--out` writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dovetail.core.errors import BadInput
from dovetail.traces.record import JobRow, RunRecord


def folder(path: Path) -> Path:
    """Make the folder, or say why it cannot be used."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"--out {path}: there is a file of that name; name a folder") from None
    return path


def write_run(folder: Path, run: RunRecord) -> None:
    """summary.json and jobs.csv of one run (its journal was streamed while it ran)."""
    (folder / "summary.json").write_text(json.dumps(dict(run.summary), indent=1) + "\n")
    write_jobs(folder / "jobs.csv", run.jobs)


def write_jobs(path: Path, jobs: Sequence[JobRow]) -> None:
    import csv

    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(JobRow._fields)
        writer.writerows(jobs)
