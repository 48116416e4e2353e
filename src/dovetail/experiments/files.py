"""The files that `--out` writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

import click

from dovetail.core.errors import BadInput
from dovetail.experiments.pareto import Objective
from dovetail.results.job_table import COLUMNS, check_columns, job_table
from dovetail.results.record import RunRecord
from dovetail.traces.spreadsheets import escaped


class FailedRun(Protocol):
    """A policy without a run, and the reason."""

    @property
    def name(self) -> str: ...

    @property
    def reason(self) -> str: ...


POLICY = "policy"  # a column where jobs of several are in one table
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
    return [*(dict(run.summary) for run in runs), *failed_rows(failures)]


def failed_rows(failures: Sequence[FailedRun]) -> list[dict[str, Any]]:
    return [{"policy": one.name, "failure": one.reason} for one in failures]


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
    with open(folder / JOBS, "w", newline="", encoding="utf-8") as file:
        write_table(file, job_table(run))


def write_table(
    file: TextIO, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()
) -> None:
    """These columns of jobs, or all. Texts are safe in a spreadsheet: names are users' own."""
    import csv

    check_columns([name for name in columns if name != POLICY])
    writer = csv.DictWriter(file, columns or COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: escaped(v) if isinstance(v, str) else v for k, v in row.items()})
