"""One message, told by all its ways, each as often as it takes."""

from __future__ import annotations

import email.contentmanager  # here and below: what Python would load after the change of user
import email.generator
import email.policy
import encodings.idna
import encodings.punycode
import os
import pwd
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .message import Message
from .settings import BadSettings, NotifySettings, read_settings
from .ways import CannotTell, tell

_LOADED = (
    *(email.contentmanager, email.generator, email.policy),
    *(encodings.idna, encodings.punycode),
)
AGAIN_AFTER_S = (1.0, 5.0, 20.0, 60.0)


def become(account: Mapping[str, Any] | None) -> None:
    """Take on the rights of the user, for good, and nothing of the environment of before."""
    if account is None:
        return
    os.setgroups(account["groups"])
    os.setgid(account["gid"])
    os.setuid(account["uid"])
    os.environ.clear()
    os.environ.update(_environment(account["uid"]))
    os.umask(0o077)


def _environment(uid: int) -> dict[str, str]:
    try:
        person = pwd.getpwuid(uid)
        own = {"HOME": person.pw_dir, "USER": person.pw_name, "LOGNAME": person.pw_name}
    except KeyError:
        own = {"HOME": "/"}
    run = f"/run/user/{uid}"
    desktop = {"XDG_RUNTIME_DIR": run, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={run}/bus"}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", **own, **desktop, "DISPLAY": ":0"}


def told(message: Message, again_after_s: Sequence[float] = AGAIN_AFTER_S) -> list[str]:
    """What could not be told, and why."""
    try:
        settings = read_settings()
    except BadSettings as error:
        return [str(error)]
    return [
        line for way in message.ways if (line := _told_by(way, message, settings, again_after_s))
    ]


def _told_by(
    way: str, message: Message, settings: NotifySettings, again_after_s: Sequence[float]
) -> str:
    for wait_s in (*again_after_s, None):
        try:
            tell(way, message, settings)
            return ""
        except CannotTell as problem:
            if wait_s is None or problem.for_good:
                return str(problem)
            time.sleep(wait_s)
    return ""
