"""Below a world: an agent is one machine, a group is the processes of one run on it.

The local world has one agent, in the daemon's own process. What passes between the two is data: wants
go down and may be repeated, facts come up with numbers, so that whoever was away asks for what follows
the last one it has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ProcessGroup(Protocol):
    """A keeper's tree; elsewhere a container or a Slurm step. All of it or none."""

    def pids(self) -> Sequence[int]: ...

    def memory_bytes(self) -> int:
        """That it holds in main memory: what suspending it would keep from others."""

    def freeze(self) -> int:
        """Stop every process where it is; the bytes that it holds meanwhile. If that cannot be, none
        is stopped, and NotFrozen raised."""

    def thaw(self) -> None: ...

    def is_frozen(self) -> bool: ...

    def ask_to_stop(self) -> None:
        """As the system asks (SIGTERM). A frozen one hears it when it is thawed."""

    def kill(self) -> None: ...
