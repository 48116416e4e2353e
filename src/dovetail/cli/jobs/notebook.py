"""`dovetail notebook`: Jupyter as a job."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import click

from dovetail.api.job_row import JobDetails
from dovetail.api.wire import read
from dovetail.cli.jobs.attached import cancel_and_wait
from dovetail.cli.jobs.submit import SETTINGS, SubmitCommand, seat_options, submitted
from dovetail.cli.jobs.terminal import linger_seconds, lingering, say
from dovetail.cli.reach import command_again, with_client
from dovetail.client.connection import Client
from dovetail.client.consoles import seen
from dovetail.client.follow import ending, exit_code, wait_for

_LINK = re.compile(rb"https?://[\w.\[\]:-]+:\d+/\S*token=[0-9a-f]+")
_ANSWERS_WITHIN_S = 30.0
_SCRIPT = """
for server in jupyter-lab jupyter-notebook; do
  if command -v $server >/dev/null; then exec $server --no-browser --ip=127.0.0.1 "$@"; fi
done
echo "there is no Jupyter in the PATH of this job: pip install jupyterlab" >&2
exit 127
"""


@click.command(cls=SubmitCommand, context_settings=SETTINGS)
@seat_options
@lingering
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- JUPYTER OPTIONS...]")
@with_client
def notebook(client: Client, linger: str, words: tuple[str, ...], **asked: Any) -> None:
    """Jupyter on GPUs of its own: dovetail notebook --gpus 1. The link is printed once it answers.

    It waits in the queue like any job, gives way only if --preemptible says so, and ends with
    Ctrl-C, or when this command is gone for as long as --linger says.
    """
    asked["words"] = ("sh", "-c", _SCRIPT, "notebook", *words)
    asked["name"] = asked["name"] or "notebook"
    terminal = {"rows": 24, "columns": 200, "linger_s": linger_seconds(linger)}
    job_id = submitted(client, asked, True, {"terminal": terminal}).ids[0]
    try:
        row = read(JobDetails, client.get(f"/v1/jobs/{job_id}"))
        waits = " waits for its GPUs" if row.phase == "queued" else ""
        say(f"job {job_id}{waits}; Ctrl-C ends it")
        shown = seen(client, f"/v1/jobs/{job_id}", 0, lambda phase: None)
        last = _tell_link(job_id, shown)
        row = wait_for(client, job_id)
    except KeyboardInterrupt:
        sys.exit(cancel_and_wait(client, job_id))
    if row.phase != "finished":
        say(f"{ending(row)}; {last or f'{command_again()} logs {job_id} says more'}")
    sys.exit(exit_code(row))


def _tell_link(job_id: str, shown: Iterable[tuple[int, bytes]]) -> str:
    """The last line that it has printed."""
    said, is_told = b"", False
    for _, piece in shown:
        said = said[-10_000:] + piece
        found = None if is_told else _LINK.search(said)
        if found is not None and said[found.end() : found.end() + 1].isspace():
            is_told = True
            _tell(job_id, found[0].decode())
    lines = said.decode(errors="replace").strip().split("\n")
    return "".join(c for c in lines[-1] if c.isprintable())


def _tell(job_id: str, link: str) -> None:
    if _answers(link):
        click.echo(link)
        return
    port = link.rpartition(":")[2].partition("/")[0]
    click.echo(link)
    say(
        f"it does not answer here; from another machine: ssh -L {port}:127.0.0.1:{port} THAT-MACHINE"
    )


def _answers(link: str) -> bool:
    until = time.monotonic() + _ANSWERS_WITHIN_S
    while time.monotonic() < until:
        try:
            with urlopen(link, timeout=5):
                return True
        except HTTPError:
            return True
        except OSError:
            time.sleep(0.2)
    return False
