"""`dovetail notify`: be told of jobs that were handed in already."""

from __future__ import annotations

from collections.abc import Sequence

import click

from dovetail.api.job_row import Ids
from dovetail.api.wire import read
from dovetail.cli.jobs.queue import say_problems
from dovetail.cli.reach import WANTED, with_client
from dovetail.client.connection import Client, SocketLine
from dovetail.client.notify_settings import notify_settings
from dovetail.core.errors import BadInput
from dovetail.notify.message import COMMAND, MAIL, WEBHOOK
from dovetail.notify.settings import NotifySettings, config_file
from dovetail.notify.ways import sendmail
from dovetail.text.counting import ids_text

_NOBODY = "none"
_WAYS = f"desktop, mail, mail:ADDRESS, webhook, https://…, command, or {_NOBODY}"


@click.command()
@click.argument("words", metavar=f"{WANTED}... HOW", nargs=-1)
@click.option("--on", metavar="WHEN", default="end", help="Of end, failure, start.  [end]")
@with_client
def notify(client: Client, words: Sequence[str], on: str) -> None:
    """Be told when jobs end that were handed in already.

    \b
    dovetail notify 12 desktop                 when job 12 ends, well or not
    dovetail notify train mail --on failure    if those called train fail
    dovetail notify 12 none                    no more

    HOW is desktop, mail, mail:ADDRESS, webhook, https://…, command, or several with commas between.
    dovetail submit --notify says it from the beginning, your settings (dovetail config) for all jobs.
    """
    *ids, how = words or ("",)
    if not ids:
        raise click.UsageError(f"say of which jobs, then how: notify JOB... HOW; {_WAYS}")
    ways = [] if how == _NOBODY else [way.strip() for way in how.split(",")]
    told = _told(client, ways)
    asked = {"ids": ids, "notify": ways, "notify_on": on.split(","), "partly": True}
    found = read(Ids, client.post("/v1/jobs/notify", asked))
    if found.ids and ways:
        click.echo(f"You will be told of {ids_text(found.ids)}: {on}, by {told}.")
    elif found.ids:
        click.echo(f"You will not be told of {ids_text(found.ids)}.")
    say_problems(found.problems)


def _told(client: Client, ways: Sequence[str]) -> str:
    """`mail to ann@example.org, desktop`; BadInput: her settings lack what one of them needs. Those on
    the machine of the daemon count."""
    if not ways or not isinstance(client.line, SocketLine):
        return ", ".join(ways)
    settings = notify_settings()
    return ", ".join(_way_told(way, settings) for way in ways)


def _way_told(way: str, settings: NotifySettings) -> str:
    kind, _, address = way.partition(":")
    if kind == MAIL:
        if not settings.mail.server and sendmail() is None:
            raise _lacking(way, "mail.server", "and this machine has no sendmail")
        to = address or settings.mail.to
        return f"mail to {to}" if to else "mail to your user name (notify.mail.to is not set)"
    if way == WEBHOOK and not settings.webhook:
        raise _lacking(way, "webhook")
    if way == COMMAND and not settings.command:
        raise _lacking(way, "command")
    return way


def _lacking(way: str, key: str, more: str = "") -> BadInput:
    told = f"{way}: notify.{key} is not set in {config_file()}"
    return BadInput(f"{told} {more}".rstrip() + ", so nobody would be told")
