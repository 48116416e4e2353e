"""Daemons on other machines, by ssh or by their address: `hosts` of the configuration file."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dovetail.config_file import ConfigFile, check_known, read_config
from dovetail.core.errors import BadInput

TOKEN_VARIABLE = "DOVETAIL_TOKEN"
_PORT = 7733
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class HostProfile:
    """The table `hosts.NAME` of ~/.config/dovetail/config.toml."""

    ssh: str = ""  # as ssh is told: user@box, or a name of ~/.ssh/config
    command: str = "dovetail"  # where it is there
    url: str = ""  # https://box:7733
    token_file: str = ""
    ca: str = ""  # a file with its certificate, or that of who signed it
    without_tls: bool = False  # the network is said to be safe


KINDS = {own.name: bool if own.name == "without_tls" else str for own in fields(HostProfile)}


@dataclass(frozen=True, slots=True)
class Host:
    """One that was asked for; `name` as it is typed."""

    name: str
    profile: HostProfile

    @property
    def is_by_ssh(self) -> bool:
        return not self.profile.url


def host_called(name: str) -> Host:
    """By the configuration file; an address, or a destination of ssh, needs no entry there."""
    if not name or name.startswith("-") or any(sign.isspace() for sign in name):
        raise BadInput(f"{name!r} is no host; write --host user@box, https://box:7733, or a name of "
                       f"{config_file()}")  # fmt: skip
    profiles = _profiles(config_file())
    if name in profiles:
        profile = profiles[name]
    elif "://" in name:
        profile = HostProfile(url=name)
    else:
        profile = HostProfile(ssh=name)
    return Host(name, _checked(name, profile))


def config_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser() / "dovetail" / "config.toml"


def _profiles(path: Path) -> dict[str, HostProfile]:
    file = read_config(path)
    return {name: _profile(file, name, table) for name, table in file.table("hosts").items()}


def check_hosts(file: Path) -> None:
    """BadInput: the first table of `hosts` there that could not be used."""
    for name, profile in _profiles(file).items():
        _checked(name, profile)


def _profile(file: ConfigFile, name: str, table: Any) -> HostProfile:
    if not isinstance(table, dict):
        raise BadInput(f"{file.at('hosts', name)}: write a table: [hosts.{name}]")
    for key, value in table.items():
        check_known(file, key, tuple(KINDS), "hosts", name)
        if not isinstance(value, KINDS[key]):
            raise BadInput(f"{file.at('hosts', name, key)}: {value!r} is not what is needed there")
    return HostProfile(**table)


def _checked(name: str, profile: HostProfile) -> HostProfile:
    if bool(profile.ssh) == bool(profile.url):
        raise BadInput(f"{config_file()}: hosts.{name}: say either ssh or url")
    if profile.ssh.startswith("-"):
        raise BadInput(f"{config_file()}: hosts.{name}.ssh: {profile.ssh!r} is no destination")
    if not profile.url:
        return profile
    address(profile)
    scheme = urlsplit(profile.url).scheme
    if scheme == "http" and not (profile.without_tls or address(profile)[0] in _LOOPBACK):
        raise BadInput(
            f"{profile.url}: who listens on the way would read the token; use https, or say "
            f"without_tls = true in [hosts.{name}] of {config_file()}"
        )
    return profile


def address(profile: HostProfile) -> tuple[str, int]:
    """Name and port."""
    parts = urlsplit(profile.url)
    try:
        port = parts.port or _PORT
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or not port:
        raise BadInput(f"{profile.url!r} is no address of a daemon; write https://box:{_PORT}")
    if parts.path.strip("/") or parts.query or parts.username:
        raise BadInput(f"{profile.url!r}: an address is {parts.scheme}://HOST:PORT and no more")
    return parts.hostname, port


def token_for(host: Host) -> str:
    """From its file, or from the environment."""
    path = host.profile.token_file
    if not path:
        found = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not found:
            raise BadInput(
                f"no token for {host.name}: type `dovetail token create` there, put it into a file "
                f"of mode 600, and name that as token_file in [hosts.NAME] of {config_file()} "
                f"(or set {TOKEN_VARIABLE})"
            )
        return _plain(found, TOKEN_VARIABLE)
    place = Path(path).expanduser()
    try:
        if place.stat().st_mode & 0o077:
            raise BadInput(f"others can read the token in {place}; try: chmod 600 {place}")
        return _plain(place.read_text("ascii").strip(), str(place))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the token in {place}: {error}") from None


def _plain(token: str, place: str) -> str:
    """It becomes part of a header, and is not quoted in an error."""
    if not token or not all(
        sign.isascii() and sign.isprintable() and sign != " " for sign in token
    ):
        raise BadInput(f"what {place} holds is no token")
    return token
