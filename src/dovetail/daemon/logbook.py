"""The daemon's own log. What is said again and again is counted rather than written: a flood does not
carry away the line that tells its cause."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import monotonic
from typing import Final

_IN_FULL = 20  # of one kind, before they are counted
_QUIET_S = 600.0  # after so long without one, the next is news again
_AGAIN_EVERY_S = 3600.0
_MOST_KINDS = 1000
_LONGEST_KIND = 200  # characters
_BYTES = 5_000_000


def log_to(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=_BYTES, backupCount=2)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(Sparing())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _Kind:
    """Messages that differ only in what they are about."""

    __slots__ = ("last_at", "left_out", "number", "told_at")

    def __init__(self) -> None:
        self.number = 0
        self.left_out = 0
        self.last_at = self.told_at = monotonic()


class Sparing(logging.Filter):
    """Lets the first of a kind pass, then the 100th, the 1,000th, … and one an hour, which say how
    many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: Final[dict[tuple[str, int, str], _Kind]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = self._kind(record)
        now = monotonic()
        if now - kind.last_at > _QUIET_S:
            kind.number = 0
        kind.last_at = now
        kind.number += 1
        if not self._is_told(kind, now):
            kind.left_out += 1
            return False
        if kind.left_out:
            told = f"{record.getMessage()} ({kind.left_out} like this were left out)"
            record.msg, record.args = told, None
        kind.left_out, kind.told_at = 0, now
        return True

    def _kind(self, record: logging.LogRecord) -> _Kind:
        template = str(record.msg)
        about = record.getMessage() if template == "%s" else template
        key = (record.name, record.levelno, about[:_LONGEST_KIND])
        if key not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            self._kinds.pop(min(self._kinds, key=lambda known: self._kinds[known].last_at))
        return self._kinds.setdefault(key, _Kind())

    @staticmethod
    def _is_told(kind: _Kind, now: float) -> bool:
        if kind.number <= _IN_FULL or now - kind.told_at > _AGAIN_EVERY_S:
            return True
        return str(kind.number).rstrip("0") == "1"  # 100, 1,000, …
