"""`dovetail again`: an ended job once more."""

from __future__ import annotations

from typing import Any

import click

from dovetail.api.job_row import JobDetails, JobRow, SubmittedJobs
from dovetail.api.wire import read
from dovetail.cli.jobs.submit import changed_options, described, say_submitted
from dovetail.cli.reach import array_of, as_json, found_jobs, is_id, with_client
from dovetail.client.connection import Client
from dovetail.client.git_state import changes_since, commit_of
from dovetail.text.counting import counted
from dovetail.text.tables import clean


@click.command()
@click.argument("job", metavar="JOB")
@changed_options
@click.option("-q", "--quiet", is_flag=True, help="Print the id and nothing else.")
@as_json
@with_client
def again(client: Client, job: str, quiet: bool, as_json: bool, **asked: Any) -> None:
    """Hand in an ended job once more: its command, environment and folder as they were.

    Options change what it asks for, the rest stays: dovetail again 7 --gpus 2. What has changed in
    its folder since is said, if Git keeps it. The number of an array stands for all of it.
    """
    rows = found_jobs(client, job)
    wanted = job if is_id(job) else rows[-1].id if len(rows) == 1 else array_of(rows[-1].id)
    sent = {"changes": described(asked)}
    found = read(SubmittedJobs, client.post(f"/v1/jobs/{wanted}/again", sent))
    say_submitted(found, quiet, as_json, f": {_which(wanted, rows[0])} again{_on(asked['gpus'])}")
    if not (quiet or as_json):
        _say_what_changed(client, rows[0])


def _which(wanted: str, row: JobRow) -> str:
    return f"{wanted} ({clean(row.name)})" if row.name else wanted


def _on(gpus: int | None) -> str:
    return "" if gpus is None else f", on {counted(gpus, 'GPU')}"


def _say_what_changed(client: Client, row: JobRow) -> None:
    details = read(JobDetails, client.get(f"/v1/jobs/{row.id}"))
    folder, commit = details.workdir, details.commit
    if not (folder and commit):
        return
    told = changes_since(folder, commit, row.submitted_at)
    if not told and commit_of(folder) == commit:
        told = [f"{folder} is as it was then, at commit {commit[:9]}"]
    for line in told:
        click.echo(clean(f"{line[0].upper()}{line[1:]}."))
