"""`python -m dovetail.daemon SETTINGS [READY]`: the process that `dovetail up` starts.

SETTINGS is JSON; READY is the number of a pipe on which `1` says that it can be asked, and anything
else why it cannot.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.core.errors import DovetailError
from dovetail.daemon.garbage import seldom_collected
from dovetail.daemon.logbook import log_to
from dovetail.daemon.main import Daemon, MakeWorld
from dovetail.daemon.refusals import Unavailable
from dovetail.daemon.settings import DaemonSettings
from dovetail.home import Home
from dovetail.worlds.registry import maker
from dovetail.worlds.shortage import raise_limit

if TYPE_CHECKING:
    from dovetail.daemon.http.tls import Network

log = logging.getLogger("dovetail.daemon")


def serve(settings: DaemonSettings, make_world: MakeWorld, ready: int | None = None) -> None:
    """The whole daemon, on this thread, until SIGTERM or SIGINT. `ready` is a pipe that is told."""
    os.umask(0o077)  # what we write is for nobody else; jobs have the mask of their submitter
    log_to(settings.home.log)
    raise_limit()
    network = _network(settings)
    daemon = Daemon(settings, make_world)
    failures: list[Exception] = []
    threading.excepthook = lambda died: _end_loudly(daemon, died, failures)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: daemon.stop())
    threading.Thread(
        target=_serve_api, args=(daemon, network, ready, failures), name="api", daemon=True
    ).start()
    with seldom_collected():
        daemon.run()
    if failures:
        raise failures[0]  # if the API's: the socket is not ours, perhaps another daemon's
    settings.home.note.unlink(missing_ok=True)
    settings.home.socket.unlink(missing_ok=True)


def _network(settings: DaemonSettings) -> Network | None:
    """Before anything is decided: a start that is refused has started no job."""
    if settings.listen is None:
        return None
    from dovetail.daemon.http.tls import network_at  # with OpenSSL, which few need

    return network_at(settings.listen, settings.tls_cert, settings.tls_key, settings.without_tls)


def _serve_api(
    daemon: Daemon, network: Network | None, ready: int | None, failures: list[Exception]
) -> None:
    # Imported here: it takes longer than all the rest, and the jobs need not wait for it.
    from dovetail.daemon.http import server

    try:
        server.serve(daemon, network, lambda: _announce(daemon.home, ready))
        raise Unavailable("it has ended by itself")  # it should end with the process
    except Exception as error:
        log.error(
            "the API cannot be served: %s", error, exc_info=not isinstance(error, DovetailError)
        )
        failures.append(error)
        daemon.stop()


def _end_loudly(daemon: Daemon, died: threading.ExceptHookArgs, failures: list[Exception]) -> None:
    """A thread that is gone is missed by all: better no daemon than half a one. The jobs go on."""
    name = died.thread.name if died.thread is not None else "?"
    error = died.exc_value
    log.critical("the daemon ends, since its thread %r died: %r", name, error, exc_info=error)
    failures.append(error if isinstance(error, Exception) else RuntimeError(repr(error)))
    daemon.stop()


def _announce(home: Home, ready: int | None) -> None:
    note = {"pid": os.getpid(), "started": _started(), "socket": str(home.socket)}
    temporary = home.note.with_suffix(".part")
    temporary.write_text(json.dumps(note))
    temporary.replace(home.note)
    tell_systemd("READY=1")
    if ready is not None:
        os.write(ready, b"1")
        os.close(ready)


def tell_systemd(what: str) -> None:
    """Where a unit of `Type=notify` has started us. Jobs are not to tell it anything."""
    address = os.environ.pop("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect("\0" + address[1:] if address.startswith("@") else address)
        notify.sendall(what.encode())


def _started() -> int:
    """When this process began, in clock ticks since the machine did: its number may be given again."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def main(arguments: list[str]) -> int:
    settings = settings_of(arguments[0])
    ready = int(arguments[1]) if len(arguments) > 1 else None
    # `serve` closes the pipe, after which its number may stand for any file, even the journal.
    telling = os.dup(ready) if ready is not None else None
    try:
        if ready is None:
            _log_to_terminal(settings)
        serve(settings, maker(settings.world), ready)
    except DovetailError as error:
        return _cannot(str(error), telling)
    except OSError as error:
        return _cannot(f"{error.filename or 'the system'}: {error.strerror or error}", telling)
    return 0


def settings_of(text: str) -> DaemonSettings:
    given = json.loads(text)
    home = Home(Path(given.pop("state")), Path(given.pop("socket")), given.pop("system"))
    return DaemonSettings(home, **given)


def _log_to_terminal(settings: DaemonSettings) -> None:
    log_to(settings.home.log)
    logging.getLogger().addHandler(logging.StreamHandler())


def _cannot(sentence: str, telling: int | None) -> int:
    print(f"dovetail: {sentence}", file=sys.stderr)
    if telling is not None:
        with suppress(OSError):  # nobody waits for it any more
            os.write(telling, sentence.encode(errors="replace"))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
