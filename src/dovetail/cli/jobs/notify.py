"""`dovetail notify`: be told of jobs that were handed in already."""

from __future__ import annotations

from collections.abc import Sequence

import click

from dovetail.api.job_row import Ids
from dovetail.api.wire import read
from dovetail.cli.jobs.queue import say_problems
from dovetail.cli.reach import WANTED, with_client
from dovetail.client.connection import Client
from dovetail.client.notify_settings import is_here, notify_settings, troubles_of
from dovetail.core.errors import BadInput
from dovetail.notify.message import MAIL
from dovetail.notify.settings import NotifySettings
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
    """`mail to ann@example.org, desktop`; BadInput: nobody would be told by one of them."""
    if not ways or not is_here(client):
        return ", ".join(ways)
    settings = notify_settings()
    if troubles := troubles_of(ways, settings):
        raise BadInput(troubles[0])
    return ", ".join(_way_told(way, settings) for way in ways)


def _way_told(way: str, settings: NotifySettings) -> str:
    kind, _, address = way.partition(":")
    if kind != MAIL:
        return way
    to = address or settings.mail.to
    return f"mail to {to}" if to else "mail to your user name (notify.mail.to is not set)"
