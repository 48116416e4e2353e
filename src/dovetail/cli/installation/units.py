"""The unit by which systemd starts the daemon: for everybody at boot, or for one user."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

MARK = "# Written by `dovetail install`; `dovetail uninstall` removes it."

# Why each line that is not obvious:
#   Type=notify         `systemctl start` returns when the daemon can be asked.
#   KillMode=process    a stop or restart, also for an upgrade, ends the daemon alone: jobs go on.
#   OOMPolicy=continue  a job that the kernel kills for its memory does not take the daemon with it.
#   TasksMax, Limit…    jobs inherit them.
#   Delegate=yes        jobs' control groups are ours to make and to freeze.
_UNIT = """{mark}
[Unit]
Description=Dovetail, the queue for {whom}
Documentation=man:dovetail(1)
After={after}
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
Restart=on-failure
RestartSec=2
KillMode=process
TimeoutStartSec=300
TimeoutStopSec=60
OOMPolicy=continue
Delegate=yes
TasksMax=infinity
{limits}
[Install]
WantedBy={wanted_by}
"""
_LIMITS = """LimitNOFILE=1048576
LimitMEMLOCK=infinity
StateDirectory=dovetail
StateDirectoryMode=0711
RuntimeDirectory=dovetail
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
"""


def system_unit(command: Sequence[str]) -> str:
    return _UNIT.format(
        mark=MARK,
        whom="everybody on this machine",
        after="network.target local-fs.target nss-user-lookup.target nvidia-persistenced.service",
        command=_quoted(command),
        limits=_LIMITS,
        wanted_by="multi-user.target",
    )


def user_unit(command: Sequence[str]) -> str:
    return _UNIT.format(
        mark=MARK,
        whom="one user",
        after="basic.target",
        command=_quoted(command),
        limits="",
        wanted_by="default.target",
    )


def _quoted(command: Sequence[str]) -> str:
    """In a unit, % and $ mean something even within quotes."""
    return " ".join(shlex.quote(word.replace("%", "%%").replace("$", "$$")) for word in command)
