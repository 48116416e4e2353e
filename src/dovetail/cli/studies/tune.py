"""`dovetail tune`: hand in a study and follow it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from shlex import quote

import click

from dovetail.api.study_row import StudyOpen
from dovetail.api.wire import read
from dovetail.cli.jobs.submit import warn_of_ways
from dovetail.cli.reach import as_json, command_again, print_json, with_client
from dovetail.cli.studies.study_follow import follow
from dovetail.client.connection import Client, RequestRefused
from dovetail.client.shell import as_sent
from dovetail.client.study_rows import has_ended_well
from dovetail.core.errors import BadInput
from dovetail.text.counting import counted
from dovetail.text.tables import clean


@click.command()
@click.argument("file", metavar="STUDY.yaml")
@click.option("--name", help="Instead of the name in the file.")
@click.option("--policy", help="Instead of the policy in the file: asha-promote:eta=3.")
@click.option("--detach", is_flag=True, help="Do not follow it.")
@as_json
@with_client
def tune(client: Client, file: str, detach: bool, as_json: bool, **own: str | None) -> None:
    """Try many settings of hyper-parameters: hand in a study and follow it to its end.

    Ctrl-C leaves it running and says how to come back. 0: it closed with a best setting; 1: not so.
    """
    opened = _submit(client, file, {name: value for name, value in own.items() if value})
    if detach or not as_json:
        _say(opened, as_json, detach)
    if detach:
        return
    study = follow(client, opened.study, quiet=as_json)
    if as_json:
        print_json(study)
    sys.exit(0 if has_ended_well(study) else 1)


def _submit(client: Client, file: str, own: Mapping[str, str]) -> StudyOpen:
    """Options go before the fields of the file."""
    from dovetail.jobfiles.yaml_files import text_of, unchecked

    text, source = text_of(file), "standard input" if file == "-" else file
    spec = unchecked(text, source)
    if not isinstance(spec, Mapping):
        raise BadInput(f"{source}: a study is a table of fields, such as run, space, metric, steps")
    try:
        sent = as_sent({**spec, **own})
        opened = read(StudyOpen, client.post("/v1/studies", sent))
    except RequestRefused as error:
        if error.status not in (400, 422):
            raise RequestRefused(error.status, f"{source}: {error}") from None
        raise RequestRefused(error.status, _explained(error, text, source, own)) from None
    warn_of_ways(client, sent["spec"].get("notify"))
    return opened


def _explained(error: RequestRefused, text: str, source: str, own: Mapping[str, str]) -> str:
    """With the line where it stands. Most of what is refused there is refused here, too; what only
    the daemon can know begins with the name of its field."""
    from dovetail.jobfiles.study_model import read_study
    from dovetail.jobfiles.yaml_files import located

    given, lines = located(text, source)
    assert isinstance(given, Mapping)
    read_study({**given, **own}, source, lines)
    field = str(error).partition(":")[0]
    line = None if field in own else lines.get((field,))
    return f"{source}, line {line}: {error}" if line else f"{source}: {error}"


def _say(opened: StudyOpen, as_json: bool, detach: bool) -> None:
    if as_json:
        print_json(opened)
        return
    name = opened.name
    told = f"Opened study {name}: {counted(opened.planned, 'trial')}."
    if detach:
        told += f" To watch it: {command_again()} study show {quote(name)} --watch"
    click.echo(clean(told))
