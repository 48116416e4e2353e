"""Studies that are closed: their pages are kept in the journal's file, and found there however long ago
they closed. The state only remembers the last ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from dovetail.api.study_row import StudyPage
from dovetail.api.wire import read, text_of
from dovetail.core.view import CLOSES, View
from dovetail.daemon.clock import Clock
from dovetail.daemon.studies.rows import look_at, page_of_study
from dovetail.store import JournalReader, Store
from dovetail.tune.board import Board
from dovetail.workloads.study.track import FAILED, UNREPORTED, StudyTrack
from dovetail.worlds.world import Shelf


def _page_key(study_id: str) -> str:
    return f"{study_id}.page"


def _name_key(name: str, user: str = "") -> str:
    return f"study called {name} by {user}" if user else f"study called {name}"


class ClosedStudies:
    """All closed studies, as they were kept."""

    def __init__(self, reader: JournalReader) -> None:
        self._reader: Final = reader

    def page(self, study_id: str) -> StudyPage | None:
        text = self._reader.spec(_page_key(study_id))
        if text is None:
            return None
        kept = json.loads(text)
        page = read(StudyPage, kept)
        page.reason += kept.get("last_words", "")  # earlier versions kept them apart
        return page

    def find(self, name: str, user: str) -> str | None:
        """The id of the closed study with that id or name. Where several had the name: the user's
        own before others', and of these the last."""
        if self._reader.spec(_page_key(name)) is not None:
            return name
        own = self._reader.meta(_name_key(name, user))
        return own or self._reader.meta(_name_key(name))

    def last_first(self, lately: Sequence[str], opened: Sequence[str]) -> list[str]:
        """The ids of all: those that closed lately in that order, then the others as they were opened,
        the last first."""
        number = int(self._reader.meta("next_study") or "1")
        told = {*lately, *opened}
        others = (f"s{own}" for own in range(number - 1, 0, -1))
        return [*lately, *(own for own in others if own not in told)]


class Archive:
    """An index of the state: keeps the page of every study that closes, in the transaction of the
    entry that closed it."""

    def __init__(self, store: Store, clock: Clock, board: Board, shelf: Shelf) -> None:
        self.watches = CLOSES
        self._shelf: Final = shelf
        self._store: Final = store
        self._clock: Final = clock
        self._board: Final = board
        self._view: View | None = None

    def build(self, view: View) -> Archive:
        self._view = view
        return self

    def closes(self, study: StudyTrack, reason: str) -> None:
        assert self._view is not None
        look = look_at(study, self._view, self._view.now, self._board)
        page = page_of_study(look, self._clock, reason + self._last_words(study))
        self._store.put_spec(_page_key(study.id), text_of(page))
        self._store.set_meta(_name_key(study.design.name), study.id)
        self._store.set_meta(_name_key(study.design.name, study.design.user), study.id)

    def _last_words(self, study: StudyTrack) -> str:
        """Where nothing was ever reported, the log of the last trial that failed knows why."""
        failed = [trial for trial in study.trials.values() if trial.standing == FAILED]
        if not failed or study.best is not None:
            return ""
        from dovetail.daemon import logs
        from dovetail.daemon.studies.metric_hint import hint

        last = max(failed, key=lambda trial: trial.ended_at)
        log = self._shelf.log(last.job)
        line = logs.last_line(log)
        told = f"; the last line of its log: {line}" if line else ""
        pattern = hint(log, study.design.metric).pattern if UNREPORTED in last.reason else ""
        return told + (f"; perhaps metric_pattern: '{pattern}'" if pattern else "")
