"""Notices for the operator, kept in the journal until acknowledged."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Final

from dovetail.store import Store

_KEY = "notices"

log = logging.getLogger("dovetail.daemon")


class Notices:
    """Changed on the loop's thread, or before it runs."""

    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._told: tuple[str, ...] = tuple(json.loads(store.meta(_KEY) or "[]"))

    @property
    def all(self) -> Sequence[str]:
        return self._told

    def add(self, text: str) -> None:
        """Once, however often it is said. On disk with the next commit."""
        if text and text not in self._told:
            log.warning("%s", text)
            self._keep((*self._told, text))

    def acknowledge(self) -> Sequence[str]:
        """They are known now, and no longer shown. Returns them."""
        known = self._told
        self._keep(())
        return known

    def _keep(self, told: tuple[str, ...]) -> None:
        self._told = told
        self._store.set_meta(_KEY, json.dumps(told))
