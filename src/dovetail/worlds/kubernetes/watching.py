"""List, then watch: what there is of one kind, and every change, for as long as we look.

A watch goes on where it was when its connection ends. It lists anew when the server no longer knows that
place (410 Gone, also after a restart), and tries again, later and later, when nobody answers.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final, Protocol

import orjson

from dovetail.worlds.kubernetes.client import GONE, Api, ApiError, Stream, Unreachable, error_of

_STREAM_S: Final = 240  # so long the server keeps a watch open; then another begins there
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0

log = logging.getLogger("dovetail.kubernetes")

Object = dict[str, Any]


class Sees(Protocol):
    """Called on the thread of the watch."""

    def listed(self, objects: Sequence[Object], as_of: float) -> None:
        """All that there were at that time (monotonic): whatever else was known then is gone."""

    def changed(self, thing: Object, is_gone: bool) -> None: ...


class Watch:
    """One kind of thing, on a thread of its own from `start` to `stop`."""

    def __init__(self, api: Api, path: str, sees: Sees, **query: object) -> None:
        self._api: Final = api
        self._path: Final = path
        self._sees: Final = sees
        self._query: Final = query
        self._over: Final = threading.Event()
        self._stream: Stream | None = None
        self.trouble = ""  # why nothing is seen; "" as a rule
        self.silent_since: float | None = None
        self._version = ""
        name = f"watch of {path.rpartition('/')[2]}"
        self._thread: Final = threading.Thread(target=self._keep_on, name=name, daemon=True)

    def list_now(self) -> None:
        """On the caller's thread, before `start`: raises what keeps us from it."""
        self._list()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        stream = self._stream
        if stream is not None:
            stream.close()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _keep_on(self) -> None:
        wait_s = _FIRST_WAIT_S
        while not self._over.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
                wait_s = _FIRST_WAIT_S
                continue
            except (ApiError, Unreachable) as error:
                self._stumble(error)
            except Exception as error:  # our own mistake must not blind us
                log.error("the watch of %s stumbled and looks anew", self._path, exc_info=error)
                self._stumble(error)
            self._over.wait(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _stumble(self, error: Exception) -> None:
        if self._over.is_set():
            return
        if not isinstance(error, Unreachable):
            self._version = ""
        if isinstance(error, ApiError) and error.code == GONE:
            return  # usual
        if not self.trouble:
            log.warning("%s is not watched for now: %s", self._path, error)
        self.trouble = str(error) or type(error).__name__
        if self.silent_since is None:
            self.silent_since = monotonic()

    def _list(self) -> None:
        as_of = monotonic()
        found = self._api.get(self._path, **self._query)
        kind = {"kind": str(found.get("kind", "")).removesuffix("List")}
        self._sees.listed([{**kind, **item} for item in found.get("items") or ()], as_of)
        self._version = found["metadata"]["resourceVersion"]
        self._well()

    def _well(self) -> None:
        self.trouble, self.silent_since = "", None

    def _watch(self) -> None:
        self._stream = stream = self._api.stream(
            self._path,
            **self._query,
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=self._version,
            timeoutSeconds=_STREAM_S,
        )
        self._well()
        try:
            for line in stream.lines():
                if self._over.is_set():
                    return
                self._heed(orjson.loads(line))
        finally:
            self._stream = None
            stream.close()

    def _heed(self, event: Object) -> None:
        kind, thing = event["type"], event["object"]
        if kind == "ERROR":
            raise error_of(thing)
        if kind != "BOOKMARK":
            self._sees.changed(thing, kind == "DELETED")
        self._version = thing["metadata"]["resourceVersion"]
