"""How a user wants to be told: with the line of what is wrong there, and whom nobody would tell."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from dovetail.client.connection import Client, SocketLine
from dovetail.config_file import read_config
from dovetail.core.errors import BadInput
from dovetail.notify.message import COMMAND, DESKTOP, MAIL, WEBHOOK
from dovetail.notify.settings import BadSettings, NotifySettings, config_file, read_settings


def notify_settings(path: Path | None = None) -> NotifySettings:
    """Of a file, else of the user's own."""
    path = path or config_file()
    try:
        return read_settings(path)
    except BadSettings as error:
        where = read_config(path).at("notify", *error.key.split("."))
        raise BadInput(f"{where}: {str(error).removeprefix(f'{path}: ')}") from None


def is_here(client: Client) -> bool:
    """The settings on the machine of the daemon count: are they those of this one?"""
    return isinstance(client.line, SocketLine)


def troubles_of(ways: Sequence[str], settings: NotifySettings) -> list[str]:
    """Why nobody would be told by some of these ways, as far as can be known before."""
    found = [(way, _trouble_of(way, settings)) for way in ways]
    return [f"{way}: {trouble}, so nobody would be told" for way, trouble in found if trouble]


def _trouble_of(way: str, settings: NotifySettings) -> str:
    kind = way.partition(":")[0]
    if kind == MAIL and not settings.mail.server:
        from dovetail.notify.ways import sendmail  # with the packages of mail and TLS behind it

        return "" if sendmail() else f"{_unset('mail.server')} and this machine has no sendmail"
    if way == WEBHOOK and not settings.webhook:
        return _unset("webhook")
    if way == COMMAND and not settings.command:
        return _unset("command")
    if way == DESKTOP and shutil.which("notify-send") is None:
        return "notify-send is not installed here (on Debian: apt-get install libnotify-bin)"
    return ""


def _unset(key: str) -> str:
    return f"notify.{key} is not set in {config_file()}"
