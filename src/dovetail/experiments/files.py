"""The files that `--out` writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import click

from dovetail.core.errors import BadInput
from dovetail.experiments.pareto import Objective
from dovetail.results.record import JobOutcome, RunRecord
from dovetail.traces.spreadsheets import escaped


class FailedRun(Protocol):
    """A policy without a run, and the reason."""

    @property
    def name(self) -> str: ...

    @property
    def reason(self) -> str: ...


SUMMARY, JOBS, JOURNAL, REPORT = "summary.json", "jobs.csv", "journal.jsonl.gz", "report.html"


def named(_: click.Context, __: click.Parameter, value: str | None) -> Path | None:
    """The folder of an option; an empty name would mean the current one."""
    if value == "":
        raise click.BadParameter("name a folder")
    return None if value is None else Path(value)


def prepare_run(out: Path, trace: str) -> Path:
    """The folder of one run, without the files of an earlier run."""
    _spare(Path(trace), out / JOBS)
    return _cleared(folder(out), (SUMMARY, JOBS, JOURNAL, REPORT))


def prepare_comparison(out: Path, policies: Sequence[str], trace: str = "") -> list[Path]:
    """One folder for each policy, without the files of an earlier comparison."""
    _cleared(folder(out), (SUMMARY, REPORT))
    folders = _folders_in(out, policies)
    for path in folders:
        _spare(Path(trace), path / JOBS)
        _cleared(folder(path), (SUMMARY, JOBS, JOURNAL))
    return folders


def _spare(trace: Path, jobs: Path) -> None:
    if jobs.exists() and trace.exists() and jobs.samefile(trace):
        raise BadInput(f"--out {jobs.parent}: {JOBS} there is the trace; name another folder")


def _cleared(path: Path, names: Iterable[str]) -> Path:
    for name in names:
        (path / name).unlink(missing_ok=True)
    return path


def folder(path: Path) -> Path:
    """Make the folder, or raise an error that says why it cannot be used."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"--out {path}: there is a file of that name; name a folder") from None
    return path


def _folders_in(out: Path, policies: Sequence[str]) -> list[Path]:
    return [out / text.replace(":", "_").replace("/", "-") for text in policies]


def write_comparison(
    out: Path,
    runs: Sequence[RunRecord],
    title: str,
    objective: Objective | None = None,
    failures: Sequence[FailedRun] = (),
) -> None:
    """A folder for each run, all summaries in one file (with the reason for a failed run), and the
    report."""
    for path, run in zip(_folders_in(out, [run.policy for run in runs]), runs, strict=True):
        write_run(path, run)
    (out / SUMMARY).write_text(json.dumps(summaries_of(runs, failures), indent=1) + "\n")
    write_page(out, runs, title, objective, failures)


def summaries_of(runs: Sequence[RunRecord], failures: Sequence[FailedRun]) -> list[dict[str, Any]]:
    """One summary for each policy; for a failed run its name and the reason."""
    failed = [{"policy": one.name, "failure": one.reason} for one in failures]
    return [*(dict(run.summary) for run in runs), *failed]


def write_page(
    out: Path,
    runs: Sequence[RunRecord],
    title: str,
    objective: Objective | None = None,
    failures: Sequence[FailedRun] = (),
) -> None:
    from dovetail.reports import write_report

    failed = {one.name: one.reason for one in failures}
    write_report(out / REPORT, runs, title, objective, failed)


def write_run(folder: Path, run: RunRecord) -> None:
    """summary.json and jobs.csv of one run (its journal was streamed while it ran)."""
    (folder / SUMMARY).write_text(json.dumps(dict(run.summary), indent=1) + "\n")
    write_jobs(folder / JOBS, run.jobs)


def write_jobs(path: Path, jobs: Sequence[JobOutcome]) -> None:
    import csv

    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(JobOutcome._fields)
        writer.writerows(_safe(job) for job in jobs)


def _safe(job: JobOutcome) -> JobOutcome:
    """The text, safe in a spreadsheet: names are users' own."""
    names = escaped(job.job_id), escaped(job.user), escaped(job.tenant)
    return job._replace(job_id=names[0], user=names[1], tenant=names[2])
