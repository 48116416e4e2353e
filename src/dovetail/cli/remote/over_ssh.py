"""`dovetail --host box …` by ssh: the whole command is carried out there, as the user that ssh is there.

Input, output, exit code and terminal are those of ssh. Where there is no terminal at both ends ssh does
not carry a Ctrl-C: then a second one is sent after it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from shlex import quote

from dovetail.cli.remote.message import CarriedCommand
from dovetail.client.connection import DaemonUnreachable
from dovetail.client.hosts import Host

_NOT_REACHED = 255
_NOT_FOUND = 127


def run_there(host: Host, home: str | None, words: Sequence[str]) -> int:
    """The exit code of the command."""
    named = ["--home", home] if home else []
    typed = f"dovetail --host {quote(host.name)}"
    word = CarriedCommand([*named, *words], _here(), typed).as_word()
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    process = _started(host, word, has_terminal)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: process.send_signal(received))
    signal.signal(signal.SIGINT, lambda *_: None if has_terminal else _interrupt(host, word))
    code = process.wait()
    if code == _NOT_REACHED:
        raise DaemonUnreachable(f"ssh did not reach {host.profile.ssh}; its own words stand above")
    if code == _NOT_FOUND:
        _say_what_is_missing(host)
    return code if code >= 0 else 128 - code


def _started(host: Host, word: str, has_terminal: bool) -> subprocess.Popen[bytes]:
    command = ssh_command(host, *(["-t"] if has_terminal else []), there=word)
    if has_terminal:
        return subprocess.Popen(command)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # it would end and tell nobody
    try:
        return subprocess.Popen(command)
    finally:
        signal.signal(signal.SIGINT, before)


def ssh_command(host: Host, *options: str, there: str = "") -> list[str]:
    words = ["ssh", *options, "--", host.profile.ssh]
    return [*words, f"{host.profile.command} there {there}"] if there else words


def _interrupt(host: Host, word: str) -> None:
    command = ssh_command(host, there=CarriedCommand(interrupt=word).as_word())
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _say_what_is_missing(host: Host) -> None:
    told = (
        f"dovetail: {host.profile.ssh} does not find the command {host.profile.command!r}; if it is "
        f'installed there, name its path: command = "/path/to/dovetail" in [hosts.{host.name}]'
    )
    print(told, file=sys.stderr)


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""
