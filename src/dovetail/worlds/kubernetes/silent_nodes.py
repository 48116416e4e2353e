"""Nodes that are not heard of, and since when by our own clock. One that was removed never answers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any, Final

Object = Mapping[str, Any]


def is_ready(node: Object) -> bool:
    rows = (node.get("status") or {}).get("conditions") or ()
    return any(row.get("type") == "Ready" and row.get("status") == "True" for row in rows)


class SilentNodes:
    """Of all nodes of the cluster. Fed by their watch; asked from any thread."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._since: dict[str, float] = {}  # inf: it is ready

    def listed(self, objects: Sequence[Object]) -> None:
        with self._lock:
            gone = self._since.keys() - {thing["metadata"]["name"] for thing in objects}
            for name in gone:
                del self._since[name]
        for thing in objects:
            self.changed(thing, is_gone=False)

    def changed(self, thing: Object, is_gone: bool) -> None:
        name = thing["metadata"]["name"]
        with self._lock:
            if is_gone:
                self._since.pop(name, None)
            elif is_ready(thing):
                self._since[name] = inf
            elif self._since.get(name, inf) == inf:
                self._since[name] = monotonic()

    def silent_s(self, name: str) -> float:
        with self._lock:
            since = self._since.get(name)
        return inf if since is None else max(monotonic() - since, 0.0)
