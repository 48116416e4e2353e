"""Space put by for the day when the disk is full: a file that is deleted to make room."""

from __future__ import annotations

import os
from pathlib import Path
from typing import final


@final
class Reserve:
    def __init__(self, journal: Path, size: int) -> None:
        self._path = journal.with_name(f"{journal.name}.reserve")
        self._size = size

    def is_there(self) -> bool:
        """Whether its blocks are really its own; a file with holes puts nothing by."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        return found.st_size >= self._size and found.st_blocks * 512 >= self._size

    def make(self) -> bool:
        """Asks for twice the space and gives half back: made on the last free block it would have
        to be spent at the next entry."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        try:
            os.posix_fallocate(descriptor, 0, 2 * self._size)
            os.ftruncate(descriptor, self._size)
        except OSError:
            self._path.unlink()
            return False
        finally:
            os.close(descriptor)
        return True

    def spend(self) -> bool:
        """Give the space free; False when there is none (any more)."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True
