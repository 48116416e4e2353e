"""A real sshd on a port of the loopback, with a key that lets in who runs the tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from waiting import until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
needs_sshd = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh") is None,
    reason="sshd is not installed (Debian: apt-get install openssh-server)",
)


@contextmanager
def ssh_server(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which `ssh box` leads there, and `dovetail` is found there."""
    assert SSHD is not None
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("host_key", "user_key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    server = subprocess.Popen(
        [SSHD, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: _answers(port))
        yield _environment(folder, port)
    finally:
        server.terminate()
        server.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _environment(folder: Path, port: int) -> dict[str, str]:
    """`ssh` is called through a script: it reads ~/.ssh/config of the user, whatever HOME says."""
    (folder / "ssh_config").write_text(
        f"Host box\n HostName 127.0.0.1\n Port {port}\n IdentityFile {folder}/user_key\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {folder}/known\n StrictHostKeyChecking no\n"
        " LogLevel ERROR\n"
    )
    programs = folder / "bin"
    programs.mkdir()
    _script(programs / "ssh", f'exec {shutil.which("ssh")} -F {folder}/ssh_config "$@"')
    _script(folder / "dovetail", f'exec {sys.executable} -m dovetail.cli.main "$@"')
    settings = folder / "config" / "dovetail"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text(
        f'[hosts.box]\nssh = "box"\ncommand = "{folder}/dovetail"\n'
    )
    own = {"PATH": f"{programs}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(folder / "config")}
    return {**os.environ, **own}


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
