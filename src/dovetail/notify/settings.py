"""A user's own settings: the table `notify` of ~/.config/dovetail/config.toml."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .message import EVENTS, way_trouble


class BadSettings(Exception):
    """What is wrong, in one line; `key` of the table `notify`, such as `mail.port`, if it is one."""

    def __init__(self, line: str, key: str = "") -> None:
        super().__init__(line)
        self.key = key


SECURITIES = ("starttls", "tls", "none")


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
    except BadSettings as error:
        raise BadSettings(f"{path}: notify: {error}", error.key) from None


def _from_table(table: Any) -> NotifySettings:
    if not isinstance(table, dict):
        raise BadSettings("a table is needed")
    known = {item.name for item in fields(NotifySettings)}
    if wrong := sorted(set(table) - known):
        raise BadSettings(f"there is no {wrong[0]}; {', '.join(sorted(known))} are known", wrong[0])
    webhook, command = table.get("webhook", ""), table.get("command", [])
    if not isinstance(webhook, str):
        raise BadSettings("webhook: the address is needed, as a text", "webhook")
    return NotifySettings(
        _ways(table.get("how", [])),
        _events(table.get("on", [])),
        _mail(table.get("mail", {})),
        webhook,
        _texts("command", command),
    )


def _ways(value: Any) -> tuple[str, ...]:
    found = _texts("how", value)
    for way in found:
        if trouble := way_trouble(way):
            raise BadSettings(f"how: {way!r} {trouble}", "how")
    return found


def _events(value: Any) -> tuple[str, ...]:
    found = _texts("on", value)
    if wrong := [event for event in found if event not in EVENTS]:
        raise BadSettings(f"on: {wrong[0]!r} is none of {', '.join(EVENTS)}", "on")
    return found


def _mail(table: Any) -> MailSettings:
    if not isinstance(table, dict):
        raise BadSettings("mail: a table is needed", "mail")
    kinds = {item.name: int if item.name == "port" else str for item in fields(MailSettings)}
    for name, value in table.items():
        if name not in kinds:
            raise BadSettings(
                f"mail: there is no {name}; {', '.join(kinds)} are known", f"mail.{name}"
            )
        if type(value) is not kinds[name]:
            raise BadSettings(f"mail.{name}: {value!r} is not what is needed there", f"mail.{name}")
    if table.get("security", "starttls") not in SECURITIES:
        raise BadSettings("mail.security: starttls, tls or none is needed", "mail.security")
    return MailSettings(**table)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(own, str) for own in found):
        raise BadSettings(f"{name}: a list of texts is needed", name)
    return tuple(found)
