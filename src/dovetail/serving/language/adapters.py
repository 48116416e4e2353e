"""Adapters in the same memory as the KV blocks (S-LoRA): loaded when used, dropped when long unused."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.core.model import Seconds


@dataclass(frozen=True, slots=True)
class AdapterSize:
    """What an adapter takes while it is loaded, and how long it takes to load."""

    blocks: int = 1
    load_s: Seconds = 0.0

    def __post_init__(self) -> None:
        if self.blocks < 0 or self.load_s < 0:
            raise ValueError("an adapter's blocks and time to load cannot be below 0")


class Adapters:
    """The adapters loaded on one replica: those in use, and the others, least recently used first."""

    __slots__ = ("_idle", "_size", "_users", "loads", "reclaimable")

    def __init__(self, size: AdapterSize) -> None:
        self._size = size
        self._users: dict[str, int] = {}
        self._idle: dict[str, None] = {}
        self.loads = 0
        self.reclaimable = 0  # blocks of adapters that no sequence uses

    @property
    def in_use(self) -> int:
        return len(self._users)

    def blocks_wanted(self, name: str) -> int:
        """Blocks to find before a sequence with that adapter can be let in."""
        return 0 if not name or name in self._users or name in self._idle else self._size.blocks

    def reclaimable_beside(self, name: str) -> int:
        """Blocks that could be had without dropping this one."""
        return self.reclaimable - (self._size.blocks if name in self._idle else 0)

    def use(self, name: str) -> Seconds:
        """One more sequence uses it: the seconds until it is loaded."""
        if not name:
            return 0.0
        if name in self._users:
            self._users[name] += 1
            return 0.0
        self._users[name] = 1
        if name in self._idle:
            del self._idle[name]
            self.reclaimable -= self._size.blocks
            return 0.0
        self.loads += 1
        return self._size.load_s

    def release(self, name: str) -> None:
        """One sequence less uses it."""
        if not name:
            return
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            self._idle[name] = None
            self.reclaimable += self._size.blocks

    def drop(self, blocks: int) -> int:
        """Drop unused ones until so many blocks are free, or none is left: the blocks given back."""
        given = 0
        while given < blocks and self._idle and self._size.blocks:
            del self._idle[next(iter(self._idle))]
            given += self._size.blocks
        self.reclaimable -= given
        return given
