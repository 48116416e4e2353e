"""Forecasts that were told, kept in the journal: some at a time, the oldest forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol, final

from dovetail.daemon.foresight.forecast_record import MOST_KEPT, TimePromise
from dovetail.daemon.refusals import Unavailable

_PREFIX = "foretold "


class PromiseRows(Protocol):
    """The part of a service that is used here."""

    def keep_meta(self, key: str, value: str, forget: Iterable[str] = ()) -> None: ...

    def meta_after(self, key: str, prefix: str) -> str | None: ...


@final
class Promises:
    """As a `Keeper`: one row for whatever was told at one time."""

    def __init__(self, journal: PromiseRows) -> None:
        self._journal: Final = journal
        self._rows: Final[dict[int, int]] = {}  # how many promises each has, the oldest first
        self._policy = ""
        self._last = 0

    def kept(self) -> tuple[str, Sequence[TimePromise]]:
        found: list[TimePromise] = []
        while (text := self._journal.meta_after(_key(self._last), _PREFIX)) is not None:
            self._last, policy, rows = json.loads(text)
            if policy != self._policy:
                self._policy, found = policy, []
            self._rows[self._last] = len(rows)
            found += [TimePromise.of_row(row) for row in rows]
        return self._policy, found

    def keep(self, policy: str, promises: Sequence[TimePromise]) -> None:
        """Not at any price: where there is no room, forecasts go on without."""
        number, old = self._last + 1, self._outdated(policy, len(promises))
        text = json.dumps([number, policy, promises])
        with suppress(Unavailable):
            self._journal.keep_meta(_key(number), text, map(_key, old))
            self._last, self._policy = number, policy
            self._rows[number] = len(promises)
            for row in old:
                del self._rows[row]

    def _outdated(self, policy: str, new: int) -> list[int]:
        """Rows of another policy, and such as are further back than anybody remembers."""
        if policy != self._policy:
            return [*self._rows]
        found, number = [], new + sum(self._rows.values())
        for row, has in self._rows.items():
            number -= has
            if number < MOST_KEPT:
                break
            found.append(row)
        return found


def _key(number: int) -> str:
    return f"{_PREFIX}{number:012d}"
