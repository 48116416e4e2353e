"""The costs so far, kept as they grow: nobody needs to read the whole journal for them.

A state of its own follows the journal with the books that simulations are kept with. What they say is
kept with each snapshot, from where the next daemon goes on, and once an hour, to tell what a stretch of
time has cost. Each hour is charged by the prices that the daemon had then. Snapshots are taken of this
state too. All of it is done in a process of its own, see `account_process`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from dovetail.core import snapshot
from dovetail.core.errors import DovetailError
from dovetail.core.journal import decode
from dovetail.core.model import Seconds
from dovetail.core.state import State
from dovetail.daemon.history.costs import Figures
from dovetail.models.cost import Costs
from dovetail.models.hourly import HOUR_S
from dovetail.results.charges import Charges
from dovetail.store import JournalReader

PAST = 5_000  # ended jobs that policies and predictors may learn from
_KEPT, MARK = "charged", "mark "  # of meta


@dataclass(frozen=True, slots=True)
class KeptCosts:
    """A snapshot as of an entry, and what is to be kept in meta with it."""

    seq: int
    text: str
    key: str
    value: str


class RunningCosts:
    """The account of one journal, up to date whenever it is asked."""

    def __init__(self, reader: JournalReader, costs: Costs) -> None:
        self._reader: Final = reader
        self._costs: Final = costs
        self._books: _Books | None = None

    def since(self, since: Seconds, now: Seconds) -> Figures:
        """The costs charged from then to now."""
        after = self.figures(now)
        before = self._at(since, now, after)
        return {name: value - before.get(name, 0) for name, value in after.items()}

    def snapshot(self) -> KeptCosts:
        """The costs up to the last committed entry, and the state it leads to."""
        books = self._up_to_date()
        figures = books.figures(books.state.now)
        text = snapshot.packed(snapshot.told(books.state))
        rows = [
            *json.loads(self._reader.meta(_KEPT) or "[]"),
            {"seq": books.seq, "figures": figures},
        ]
        return KeptCosts(books.seq, text, _KEPT, json.dumps(rows[-2:]))

    def figures(self, now: Seconds) -> Figures:
        """What was charged from the beginning to now."""
        books = self._up_to_date()
        return books.figures(max(now, books.state.now))

    def _at(self, since: Seconds, now: Seconds, after: Figures) -> Figures:
        """As it was at that time; between two marks as if it had grown evenly."""
        key = f"{hour_key(since)}\uffff"
        earlier = self._reader.meta_before(key, MARK)
        later = self._reader.meta_after(key, MARK)
        start, first = json.loads(earlier) if earlier else (0.0, dict.fromkeys(after, 0))
        end, last = json.loads(later) if later else (now, after)
        if since < start:
            return dict.fromkeys(after, 0)
        part = min((since - start) / (end - start), 1.0) if end > start else 1.0
        return {name: first[name] + (last[name] - first[name]) * part for name in after}

    def _up_to_date(self) -> _Books:
        if self._books is None:
            self._books = self._opened()
        self._books.follow(self._reader)
        return self._books

    def _opened(self) -> _Books:
        """From the last snapshot that can be read, and what was kept with it; else from the first entry
        there is."""
        rows = json.loads(self._reader.meta(_KEPT) or "[]")
        kept = {row["seq"]: row["figures"] for row in rows}
        found = [(seq, text) for seq, text in self._reader.snapshots()]
        found.sort(key=lambda row: row[0] in kept, reverse=True)  # those without figures come last
        if self._reader.first_seq() == 1 and not (found and found[0][0] in kept):
            return _Books(State(PAST), 0, self._costs, {})
        for seq, text in found:
            try:
                state = snapshot.restore(text, PAST)
            except DovetailError:
                continue
            figures = kept.get(seq, rows[-1]["figures"] if rows else {})
            return _Books(state, seq, self._costs, figures)
        return _Books(State(PAST), 0, self._costs, {})


def hour_key(now: Seconds) -> str:
    """Of meta, where it stands what had been charged in that hour."""
    return f"{MARK}{int(now // HOUR_S):010d}"


class _Books:
    def __init__(self, state: State, seq: int, costs: Costs, before: Figures) -> None:
        self.state: Final = state
        self.seq = seq
        self._charges: Final = Charges(costs)
        state.index(self._charges)
        for track in state.running.values():
            self._charges.runs(track)
        begun = self._charges.figures()
        self._before: Final = {name: before.get(name, 0) - begun[name] for name in begun}

    def follow(self, reader: JournalReader) -> None:
        """Take up what was committed since."""
        for seq, line in reader.lines_after(self.seq):
            self.state.record(decode(line))
            self.seq = seq

    def figures(self, now: Seconds) -> dict[str, float | int]:
        figures = self._charges.figures(now)
        return {name: value + self._before[name] for name, value in figures.items()}
