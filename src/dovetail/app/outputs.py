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


def folders_in(out: Path, policies: Sequence[str]) -> list[Path]:
    """One folder for each policy of a comparison."""
    return [folder(out / text.replace(":", "_").replace("/", "-")) for text in policies]


def write_comparison(out: Path, runs: Sequence[RunRecord], title: str) -> None:
    """A folder for each run, all summaries in one file, and the report."""
    for path, run in zip(folders_in(out, [run.policy for run in runs]), runs, strict=True):
        write_run(path, run)
    summaries = [dict(run.summary) for run in runs]
    (out / "summary.json").write_text(json.dumps(summaries, indent=1) + "\n")
    write_page(out, runs, title)


def write_page(out: Path, runs: Sequence[RunRecord], title: str) -> None:
    from dovetail.app.report import write_report

    write_report(out / "report.html", runs, title)


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
