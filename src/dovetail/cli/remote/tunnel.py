"""The socket of a daemon on another machine, brought here by ssh for as long as somebody looks."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from dovetail.cli.remote.message import CarriedCommand
from dovetail.cli.remote.over_ssh import ssh_command
from dovetail.client.connection import DaemonUnreachable
from dovetail.client.hosts import Host
from dovetail.home import Home, home_in

_WITHIN_S = 60.0


@contextmanager
def tunnel(host: Host, home: str | None) -> Iterator[Home]:
    """A home here, whose socket leads there: ssh opens that as the user who has come."""
    named = ["--home", home] if home else []
    word = CarriedCommand([*named, "where"]).as_word()
    asked = subprocess.run(
        ssh_command(host, there=word), stdout=subprocess.PIPE, text=True, check=False
    )
    if asked.returncode:
        raise DaemonUnreachable(f"there is no daemon to be reached at {host.name}; see above")
    with TemporaryDirectory(prefix="dovetail-") as folder:
        own = Path(folder) / "dovetail.sock"
        process = _forwarding(host, own, asked.stdout.strip())
        try:
            _wait_for(own, process, host)
            yield replace(home_in(Path(folder)), socket=own)
        finally:
            process.terminate()
            process.wait()


def _forwarding(host: Host, own: Path, far: str) -> subprocess.Popen[bytes]:
    options = ["-N", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindMask=0177"]
    alive = ["-o", "ServerAliveInterval=15", "-L", f"{own}:{far}"]
    return subprocess.Popen(
        ssh_command(host, *options, *alive), stdin=subprocess.DEVNULL, start_new_session=True
    )


def _wait_for(own: Path, process: subprocess.Popen[bytes], host: Host) -> None:
    until = monotonic() + _WITHIN_S
    while monotonic() < until and process.poll() is None:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(own))
                return
            except OSError:
                sleep(0.02)
    raise DaemonUnreachable(f"ssh does not bring the socket of {host.name} here; see above")
