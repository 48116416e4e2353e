"""A user's own settings: the table `notify` of ~/.config/dovetail/config.toml."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any


class BadSettings(Exception):
    """What is wrong, in one line."""


@dataclass(frozen=True, slots=True)
class MailSettings:
    to: str = ""
    sender: str = ""
    server: str = ""  # "": the program sendmail of this machine
    port: int = 0  # 0: what is usual
    security: str = "starttls"  # tls, none
    user: str = ""
    password: str = ""
    password_file: str = ""

    def secret(self) -> str:
        if not self.password_file:
            return self.password
        return Path(self.password_file).expanduser().read_text("utf-8").strip()


@dataclass(frozen=True, slots=True)
class NotifySettings:
    how: tuple[str, ...] = ()  # for jobs that do not say it themselves
    on: tuple[str, ...] = ()
    mail: MailSettings = field(default_factory=MailSettings)
    webhook: str = ""
    command: tuple[str, ...] = ()


def config_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "dovetail" / "config.toml"


def read_settings(path: Path | None = None) -> NotifySettings:
    """Those of a file that is not there are empty."""
    path = path or config_file()
    try:
        table = tomllib.loads(path.read_text("utf-8")).get("notify", {})
    except FileNotFoundError:
        return NotifySettings()
    except (OSError, ValueError) as error:
        raise BadSettings(f"{path}: {error}") from None
    try:
        return _from_table(table)
    except (TypeError, ValueError) as error:
        raise BadSettings(f"{path}: notify: {error}") from None


def _from_table(table: Any) -> NotifySettings:
    if not isinstance(table, dict):
        raise TypeError("a table is needed")
    known = {item.name for item in fields(NotifySettings)}
    if wrong := sorted(set(table) - known):
        raise ValueError(f"there is no {wrong[0]}; {', '.join(sorted(known))} are known")
    mail = _mail(table.get("mail", {}))
    webhook, command = table.get("webhook", ""), table.get("command", [])
    if not isinstance(webhook, str):
        raise TypeError("webhook: the address is needed, as a text")
    return NotifySettings(
        _texts("how", table.get("how", [])),
        _texts("on", table.get("on", [])),
        mail,
        webhook,
        _texts("command", command),
    )


def _mail(table: Any) -> MailSettings:
    kinds = {item.name: int if item.name == "port" else str for item in fields(MailSettings)}
    for name, value in table.items():
        if name not in kinds:
            raise ValueError(f"mail: there is no {name}; {', '.join(kinds)} are known")
        if not isinstance(value, kinds[name]):
            raise TypeError(f"mail.{name}: {value!r} is not what is needed there")
    if table.get("security", "starttls") not in ("starttls", "tls", "none"):
        raise ValueError("mail.security: starttls, tls or none is needed")
    return MailSettings(**table)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(own, str) for own in found):
        raise TypeError(f"{name}: a list of texts is needed")
    return tuple(found)
