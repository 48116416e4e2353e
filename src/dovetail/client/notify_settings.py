"""How a user wants to be told, with the line of what is wrong there."""

from __future__ import annotations

from pathlib import Path

from dovetail.config_file import read_config
from dovetail.core.errors import BadInput
from dovetail.notify.settings import BadSettings, NotifySettings, config_file, read_settings


def notify_settings(path: Path | None = None) -> NotifySettings:
    """Of a file, else of the user's own."""
    path = path or config_file()
    try:
        return read_settings(path)
    except BadSettings as error:
        where = read_config(path).at("notify", *error.key.split("."))
        raise BadInput(f"{where}: {str(error).removeprefix(f'{path}: ')}") from None
