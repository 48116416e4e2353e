"""What running jobs has cost so far, kept as it grows: nobody needs to read the whole journal for it.

A state of its own follows the journal with the books that simulations are kept with. What they say is
kept with each snapshot, from where the next daemon goes on, and once an hour, to tell what a stretch of
time has cost. Each hour is charged by the prices that the daemon had then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, TypeAlias

from dovetail.core import snapshot
from dovetail.core.journal import decode
from dovetail.core.model import Seconds
from dovetail.core.state import State
from dovetail.daemon.history.costs import charged
from dovetail.models.cost import Costs
from dovetail.models.hourly import HOUR_S
from dovetail.results.charges import Charges
from dovetail.store import Reader, Store

Figures: TypeAlias = Mapping[str, float | int]

EXACT = 20_000  # a journal of so many entries is read as a whole: it knows every instant
_KEPT, _MARK = "charged", "mark "  # of meta


class Account:
    """Any thread may ask; they wait for each other."""

    def __init__(self, store: Store, reader: Reader, costs: Costs) -> None:
        self._store: Final = store
        self._reader: Final = reader
        self._costs: Final = costs
        self._lock: Final = Lock()
        self._books: _Books | None = None

    def since(self, since: Seconds, now: Seconds) -> dict[str, Any]:
        """What was charged from then to now."""
        if self._reader.first_seq() == 1 and self._reader.last_seq() <= EXACT:
            entries = (decode(line) for _, line in self._reader.lines_after(0))
            return charged(entries, self._costs, now, since)
        after = self._figures(now)
        before = self._at(since, now, after)
        return {name: value - before.get(name, 0) for name, value in after.items()}

    def keep(self, seq: int, now: Seconds) -> None:
        """With the snapshot after that entry, which is in the journal already."""
        figures = self._figures(now)
        kept = [*json.loads(self._store.meta(_KEPT) or "[]"), {"seq": seq, "figures": figures}]
        self._store.set_meta(_KEPT, json.dumps(kept[-2:]))

    def mark(self, now: Seconds) -> tuple[str, str] | None:
        """The key and value of meta for this hour, if it has none yet."""
        key = f"{_MARK}{int(now // HOUR_S):010d}"
        if self._reader.meta(key) is not None:
            return None
        return key, json.dumps([now, self._figures(now)])

    def _at(self, since: Seconds, now: Seconds, after: Figures) -> Figures:
        """As it was at that time; between two marks as if it had grown evenly."""
        key = f"{_MARK}{int(since // HOUR_S):010d}\uffff"
        earlier = self._reader.meta_before(key, _MARK)
        later = self._reader.meta_after(key, _MARK)
        start, first = json.loads(earlier) if earlier else (0.0, dict.fromkeys(after, 0))
        end, last = json.loads(later) if later else (now, after)
        if since < start:
            return dict.fromkeys(after, 0)
        part = min((since - start) / (end - start), 1.0) if end > start else 1.0
        return {name: first[name] + (last[name] - first[name]) * part for name in after}

    def _figures(self, now: Seconds) -> dict[str, float | int]:
        with self._lock:
            if self._books is None:
                self._books = self._opened()
            return self._books.upto(self._reader, now)

    def _opened(self) -> _Books:
        """From the last snapshot with which figures were kept; else from the first entry there is."""
        rows = json.loads(self._store.meta(_KEPT) or "[]")
        kept = {row["seq"]: row["figures"] for row in rows}
        snapshots = list(self._reader.snapshots())
        for seq, text in snapshots:
            if seq in kept:
                return _Books(snapshot.restore(text, 0), seq, self._costs, kept[seq])
        if self._reader.first_seq() == 1 or not snapshots:
            return _Books(State(), 0, self._costs, {})
        seq, text = snapshots[0]
        return _Books(
            snapshot.restore(text, 0), seq, self._costs, rows[-1]["figures"] if rows else {}
        )


class _Books:
    def __init__(self, state: State, seq: int, costs: Costs, before: Figures) -> None:
        self._state: Final = state
        self._seq = seq
        self._charges: Final = Charges(costs)
        state.index(self._charges)
        for track in state.running.values():
            self._charges.runs(track)
        begun = self._charges.figures()
        self._before: Final = {name: before.get(name, 0) - begun[name] for name in begun}

    def upto(self, reader: Reader, now: Seconds) -> dict[str, float | int]:
        for seq, line in reader.lines_after(self._seq):
            self._state.record(decode(line))
            self._seq = seq
        figures = self._charges.figures(max(now, self._state.now))
        return {name: value + self._before[name] for name, value in figures.items()}
