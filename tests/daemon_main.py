"""The daemon of `daemon_process`, and a process that forks one after another.

    python -P daemon_main.py FOLDER SETTINGS READY
    python -P daemon_main.py SOCKET

To import what a daemon needs takes ten times as long as all else that it does until it can be asked, and
there are hundreds of starts. A fork is a process like any other: it is killed, and dies, alone.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

MOST_BYTES = 1 << 18


class Asked(NamedTuple):
    """A start: `ready` is a pipe that is told of it."""

    folder: Path
    settings: dict[str, Any]
    ready: int


def main(asked: Asked) -> None:
    folder, settings = asked.folder, asked.settings
    files = resource.RLIMIT_NOFILE
    soft, hard = settings.pop("soft_files", None), settings.pop("most_files", None)
    if soft or hard:  # before anything of ours is there
        resource.setrlimit(files, (soft or hard, hard or resource.getrlimit(files)[1]))
    from dovetail.daemon.__main__ import serve
    from dovetail.daemon.settings import DaemonSettings
    from dovetail.home import Home, home_in

    if patience_s := settings.pop("patience_s", None):
        from dovetail.daemon.http import time_limits

        time_limits.WITHIN_S = patience_s
    if name := settings.pop("dying_thread", None):
        threading.Thread(target=_die, args=(folder,), name=name, daemon=True).start()
    if settings.pop("harmless", False):  # whatever is asked for, nothing is run
        from dovetail.daemon import submissions

        vars(submissions)["argv"] = lambda spec: ("/bin/true",)
    make_world = _maker(settings.pop("pods", None))
    is_shared = settings.pop("system", False)
    home = Home(folder, folder / "dovetail.sock", system=True) if is_shared else home_in(folder)
    serve(DaemonSettings(home, **settings), make_world, asked.ready)


def _maker(pods: dict[str, Any] | None) -> Any:
    if not pods:
        from dovetail.worlds.local.making import local_world

        return local_world
    from dovetail.worlds.kubernetes.making import Kubernetes

    return lambda asked: Kubernetes(asked.home, asked.slots, **pods).make()


def _die(folder: Path) -> None:
    while not (folder / "die").exists():
        time.sleep(0.05)
    raise RuntimeError("for the test")


# ------------------------------------------------------------------------------ one after another


def forked(line: socket.socket) -> Asked | None:
    """In each fork: what it is to be. In the process that forks: None, when nobody asks any more."""
    _import_all()
    reading, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    ends: dict[int, int] = {}  # by process: the pipe that is told how it ended
    while True:
        ready, _, _ = select.select([line.fileno(), reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            _tell_ends(ends)
            continue
        text, given, _, _ = socket.recv_fds(line, MOST_BYTES, 3)
        if not text:
            return None
        said, told, end = given
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for own in (line.detach(), reading, wake, end, *ends.values()):
                os.close(own)
            return _become(json.loads(text), said, told)
        ends[pid] = end
        os.close(said)
        os.close(told)
        line.send(str(pid).encode())


def _import_all() -> None:
    import dovetail.daemon.__main__
    import dovetail.daemon.http.server
    import dovetail.worlds.local.making  # noqa: F401

    gc.collect()
    gc.freeze()


def _tell_ends(ends: dict[int, int]) -> None:
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        end = ends.pop(pid)
        os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(end)


def _become(asked: dict[str, Any], said: int, ready: int) -> Asked:
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(said)
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    os.chdir(asked["workdir"])
    return Asked(Path(asked["folder"]), asked["settings"], ready)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        found = forked(socket.socket(fileno=int(sys.argv[1])))
    else:
        found = Asked(Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]))
    if found is not None:
        main(found)
