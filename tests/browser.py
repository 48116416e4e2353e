"""A real browser before a real daemon: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BRIDGE = """
import os, socket, sys, threading
path, uid, ready = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if uid != os.geteuid():
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
def pump(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    for own in (source, target):
        try:
            own.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
def serve(client):
    daemon = socket.socket(socket.AF_UNIX)
    try:
        daemon.connect(path)
    except OSError:
        client.close()
        return
    threading.Thread(target=pump, args=(client, daemon), daemon=True).start()
    pump(daemon, client)
listener = socket.create_server(("127.0.0.1", 0))
os.write(ready, str(listener.getsockname()[1]).encode())
os.close(ready)
while True:
    client, _ = listener.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
"""


@contextmanager
def bridge(path: Path, uid: int | None = None) -> Iterator[str]:
    """The address at which a browser finds the daemon, as that user of the machine."""
    reading, ready = os.pipe()
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _BRIDGE,
        str(path),
        str(os.geteuid() if uid is None else uid),
    ]
    process = subprocess.Popen([*words, str(ready)], pass_fds=[ready])
    os.close(ready)
    try:
        yield f"http://127.0.0.1:{int(os.read(reading, 20))}"
    finally:
        os.close(reading)
        process.kill()
        process.wait()
