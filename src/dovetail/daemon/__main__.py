"""`python -m dovetail.daemon SETTINGS [READY]`: the process that `dovetail up` starts.

SETTINGS is JSON; READY is the number of a pipe on which `1` says that it can be asked, and anything
else why it cannot.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path

from dovetail.core.errors import DovetailError
from dovetail.daemon.logbook import log_to
from dovetail.daemon.process import serve
from dovetail.daemon.settings import DaemonSettings
from dovetail.home import Home
from dovetail.worlds.registry import maker


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
