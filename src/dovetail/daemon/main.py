"""The daemon's life: recover, decide, serve, stop. The jobs' lives do not depend on it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, cast

from dovetail.core import snapshot
from dovetail.core.entries import Cancelled, Entry, JournalEntry, PolicySet, Woke
from dovetail.core.errors import DovetailError, IllegalEntry
from dovetail.core.journal import Journal, decode, encode
from dovetail.core.loop import Policy, look, run
from dovetail.core.model import Seconds
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.core.view import IndexSpec
from dovetail.daemon.active_policy import DEFAULT, Chosen, PolicyBroke
from dovetail.daemon.asking import Parts
from dovetail.daemon.clock import TOLERANCE_S, Clock
from dovetail.daemon.desk import Desk
from dovetail.daemon.foresight import copy as foresight
from dovetail.daemon.foresight.forecast_record import Promises, Record
from dovetail.daemon.history.account_process import AccountProcess
from dovetail.daemon.history.costs import costs_here, notice_of
from dovetail.daemon.history.job_rows import Ledger
from dovetail.daemon.history.replays import Replays
from dovetail.daemon.history.retention import Retention
from dovetail.daemon.history.run_folder_check import compare, of_those_without, without_description
from dovetail.daemon.history.running_costs import PAST
from dovetail.daemon.messages import Messages
from dovetail.daemon.metrics import Tally
from dovetail.daemon.notices import Notices
from dovetail.daemon.overview.overview import Overview
from dovetail.daemon.page_changes import PageChanges
from dovetail.daemon.power_limits import AsSet, settable
from dovetail.daemon.service import Service
from dovetail.daemon.services.serving import Services
from dovetail.daemon.settings import DaemonSettings, RememberedSettings
from dovetail.daemon.snapshots import Snapshots
from dovetail.daemon.studies.archive import Archive
from dovetail.daemon.studies.errands import Errands
from dovetail.daemon.studies.service import Studies
from dovetail.daemon.submissions import Book
from dovetail.daemon.upkeep import Upkeep
from dovetail.daemon.users.callers import caller_of
from dovetail.daemon.users.limits import Limits
from dovetail.daemon.users.still_allowed import StillAllowed
from dovetail.daemon.users.tokens import Tokens
from dovetail.home import Home, check_own
from dovetail.models.cost import Costs
from dovetail.policies.housekeeping import Housekeeping
from dovetail.policies.services_first import ServicesFirst
from dovetail.store import JournalReader, Store
from dovetail.tune.live import Exchanging
from dovetail.version import version
from dovetail.workloads.service.kind import services_of
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.world import Ground, MachineAsked, World

if TYPE_CHECKING:
    from dovetail.daemon.declared.attending import Attendant

SNAPSHOT_EVERY = 5_000  # entries
_MOST_FAILURES = 3  # of policies, one after the other, before the daemon gives up

log = logging.getLogger("dovetail.daemon")


MakeWorld = Callable[[MachineAsked], World]


class Daemon:
    """Made of its parts, in the order in which they need each other. It knows its world by the
    seam alone (`worlds.world`): who starts it hands one in."""

    def __init__(self, settings: DaemonSettings, make_world: MakeWorld) -> None:
        home = prepared(settings.home)
        self.home: Final = home
        self.version: Final = version()
        self._began: Final = monotonic()
        self.store: Final = Store.open(home.journal)
        self.notices: Final = Notices(self.store)
        self.notices.add(self.store.notice)
        self.reader: Final = JournalReader(home.journal)
        self.state: Final = recover(self.store)
        self.settings: Final = RememberedSettings(settings, self.store)
        with self._closed_on_refusal():
            self.settings.check_owners(self.state.tracks)
        self.group: Final = self.settings.group()
        self.admins: Final = self.settings.admins()
        self.journal: Final = Journal(self._write, at_once=1)  # safe before it is carried out
        self.clock: Final = Clock(self.store, self.state.now)
        self._set_clock_right()
        self.world: Final = make_world(self.settings.machine())
        self.keep: Final = self.settings.retention()
        self.book: Final = Book(home, self.store, self.world.shelf, self.keep.environments)
        self._compare_folders()
        self.tally: Final = Tally(self.state)
        self.changes: Final = PageChanges(self.store, self.clock)
        self.costs_file: Final = self.settings.costs_file()
        self.costs: Final = self._costs()
        self.costs_notice: Final = notice_of(self.costs, self.costs_file, self.world.nodes)
        self.chosen: Final = self._chosen()
        self.exchange: Final = Exchanging(self.chosen)
        self.desk: Final = Desk(self.world, self.state, self.clock, self._sync)
        self._lasting: Final[list[IndexSpec]] = self._indexes()
        with self._closed_on_refusal():
            self._join()
        self.settings.keep_after_start()
        self.limits_of_users: Final = Limits(home.system, self.admins)
        parts = self._parts()
        self.service: Final = Service(parts)
        foresight.remember(self.service, Record(Promises(self.service)))
        self.studies: Final = Studies(parts, self.service, self.exchange)
        self.services: Final = Services(parts, self.service, settings)
        self.replays: Final = Replays(self.service)
        self.overview: Final = Overview(parts, self.service, self.state)
        self._begin_studies(Errands(parts, self.service, self.studies, home))
        self.messages: Final = self._messages()
        self._attendant: Final = self._attend_to_declared()
        self.account: Final = AccountProcess(home.journal, self.reader, self.costs)
        self.retention: Final = Retention(home, parts, self.service, self.keep)
        self.upkeep: Final = self._upkeep()
        self._snapshots: Final = self._taken_of_the_state()

    _failures = 0

    @cached_property
    def tokens(self) -> Tokens:
        """Read when the API is served."""
        return Tokens(self.service)

    @contextmanager
    def _closed_on_refusal(self) -> Iterator[None]:
        try:
            yield
        except DovetailError:
            self.reader.close()
            self.store.close()
            raise

    def _compare_folders(self) -> None:
        for told in compare(self.home, self.store, self.book, self.world.shelf, self.state):
            self.notices.add(told)

    def _costs(self) -> Costs:
        found = costs_here(self.costs_file, self.world.nodes, self.clock.epoch)
        return replace(found, power=self.settings.power(self.world.power.notice))

    def _chosen(self) -> Chosen:
        """The policy believes in power limits only where they can be set."""
        power = settable(self.costs.power, self.world.power, self.world.nodes)
        return Chosen(
            self.settings.given.policy or self.state.policy or DEFAULT,
            self.state,
            self.tally.decisions.add,
            replace(self.costs, power=power),
            self.settings.speeds(),
            lambda: self.desk.ask(lambda view, now: ([Woke(now)], None)),
        )

    def _indexes(self) -> list[IndexSpec]:
        """They stay whatever policy decides."""
        board = self.exchange.board
        ledger = Ledger(self.store, self.clock, self._ended, self.world.used_by)
        archive = Archive(self.store, self.clock, board, self.world.shelf)
        self.state.index(ledger)
        self.state.index(archive)
        return [ledger, archive, board]

    def _parts(self) -> Parts:
        return Parts(
            *(self.world, self.desk, self.store, self.reader, self.book, self.chosen, self.clock),
            *(self.limits_of_users, self.notices, self._lasting),
        )

    def _begin_studies(self, errands: Errands) -> None:
        """And take up the arrays and studies that an earlier daemon left."""
        self.studies.on_more = errands.look_after
        self._lasting.append(errands)
        self.state.index(errands)
        self.service.arrays.recall(self.state)
        self.service.begins.look_soon()
        self.service.admission.look_soon()
        self.book.sweep_strays(self.state)

    def _messages(self) -> Messages:
        messages = Messages(self.home, self.reader, self.book.account_of)
        self._lasting.append(messages)
        self.state.index(messages)
        return messages

    def _attend_to_declared(self) -> Attendant | None:
        """None: the world has no objects for jobs and studies."""
        if self.world.declarations is None:
            return None
        from dovetail.daemon.declared.attending import Attendant

        attendant = Attendant(self.service, self.studies, self.services, self.world.declarations)
        self._lasting.append(attendant)
        self.state.index(attendant)
        return attendant

    def _upkeep(self) -> Upkeep:
        look_at_terminals = partial(
            self.service.terminals.tend,
            partial(self._why_not_any_more, StillAllowed(self.group, os.geteuid())),
        )
        return Upkeep(
            [
                *(self._look_at_the_journal, self._look_at_the_clock),
                *(self._mark_the_hour, self.retention.tend, look_at_terminals),
            ]
        )

    def _taken_of_the_state(self) -> Snapshots:
        return Snapshots(self.store, self.reader, self.account, self.desk.ask, SNAPSHOT_EVERY)

    def _look_at_the_journal(self) -> None:
        """Is its file still there? The loop finds out before it answers."""
        self.service.look(lambda view, now: None)

    def _mark_the_hour(self) -> None:
        if (mark := self.account.mark(self.clock())) is not None:
            self.service.keep_meta(*mark)

    def _why_not_any_more(self, allowed: StillAllowed, job_id: str) -> str:
        record = self.book.record(job_id) if self.home.system else None
        return "" if record is None else allowed.why_not(record)

    def _look_at_the_clock(self) -> None:
        if abs(self.clock.off_by) > TOLERANCE_S:
            self.service.change(lambda view, now: ((), self._set_clock_right()))

    def _set_clock_right(self) -> str:
        told = self.clock.set_right()
        self.notices.add(told)
        return told

    def _join(self) -> None:
        ground = Ground(
            *(self.state, self.clock, self.desk.ring),
            *(self.book.order_for, self.book.account_of, self.book.environment_of),
            self.costs.power,
        )
        self.world.join(ground)

    def run(self) -> None:
        """Until it is told to stop. A policy that breaks is replaced; nothing else is forgiven."""
        policies: list[Policy] = [
            Housekeeping(),
            ServicesFirst(),
            AsSet(self.exchange, self.world.power),
        ]
        self._look(policies)
        self._give_up_the_undescribed()
        for event in self.world.catch_up():
            self._record(event)
        if self.state.policy != self.chosen.text:
            self._record(PolicySet(self.clock(), self.chosen.text))
        self.upkeep.start()
        self.messages.start()
        self.services.recall(self.state, self.clock())
        if self._attendant is not None:
            self._attendant.start()
        while True:
            try:
                run(self.desk, policies, self.state, self.journal)
                break
            except (PolicyBroke, IllegalEntry) as error:
                self._replace_policy(error)
        self.upkeep.stop()
        self.messages.finish()
        for load in self.services.stop_keeping(self.state, self.clock()):
            self._record(load)
        self.replays.close()
        if self._attendant is not None:
            self._attendant.stop()
        self._snapshots.take_the_last()
        self.account.close()
        self.store.close()

    def _look(self, policies: Sequence[Policy]) -> None:
        try:
            look(policies, self.state)
        except (PolicyBroke, IllegalEntry) as error:
            self._replace_policy(error)

    def _give_up_the_undescribed(self) -> None:
        """A journal that was salvaged may know that there is a job, and no longer what it is."""
        if lost := without_description(self.state, self.store, self.book):
            self.notices.add(of_those_without(lost))
            for job_id in lost:
                self._record(Cancelled(self.clock(), job_id, "what it should run was lost"))

    def stop(self) -> None:
        self.desk.stop()

    @property
    def uptime_s(self) -> float:
        return monotonic() - self._began

    def stop_and_end_jobs(self) -> None:
        """Cancel all jobs, wait until their processes are gone, then stop."""
        everybody = caller_of(0, 0)
        for study_id in self.service.look(lambda view, now: list(studies_of(view).open)):
            self.studies.cancel(study_id, everybody)  # else it would name trials in place of theirs
        for service_id in self.service.look(lambda view, now: list(services_of(view).open)):
            self.services.stop(service_id, everybody)
        self.service.cancel_all(everybody)
        while self.world.has_processes():
            sleep(0.05)
        self.stop()

    def _ended(self, track: Track) -> None:
        self.tally.count_end(track)
        self.changes.ended(track)
        self.service.ended(track, self.state)

    def _replace_policy(self, error: Exception) -> None:
        self._failures += 1
        if self._failures > _MOST_FAILURES:
            raise error
        self.state.settle()
        self.state.forget_indexes(but=self._lasting)
        self.chosen.give_up_on(error, self.state)
        self._record(PolicySet(self.clock(), self.chosen.text))

    def _record(self, entry: JournalEntry) -> None:
        self.state.record(entry)
        self.journal.note(entry, self.state.now)

    def _write(self, entries: Sequence[Entry], times: Sequence[Seconds]) -> None:
        for entry, now in zip(cast(Sequence[JournalEntry], entries), times, strict=True):
            self.store.add(encode(entry, now).rstrip("\n"))
            self.tally.count(entry, now)
            self.changes.note(entry)

    def _sync(self) -> None:
        self.store.check_in_place()
        self.store.commit()
        self.book.settle()
        self.book.sweep()
        self._snapshots.look()
        self.changes.look(self.state)


def prepared(home: Home) -> Home:
    """With its folders, which must be ours."""
    make_folders(home)
    check_own(home)
    return home


def make_folders(home: Home) -> None:
    """Nobody else may look inside; on a shared box jobs of others must pass through."""
    mode = 0o711 if home.system else 0o700
    for folder in (home.state, home.runs):
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        folder.chmod(mode)
    home.environments.mkdir(mode=0o700, exist_ok=True)


def recover(store: Store) -> State:
    """The state that the journal leads to: from the last snapshot that can be read, and what follows."""
    state, seq = _from_snapshot(store)
    for _, line in store.lines_after(seq):
        state.record(decode(line))
    return state


def _from_snapshot(store: Store) -> tuple[State, int]:
    for seq, text in store.snapshots():
        try:
            return snapshot.restore(text, PAST), seq
        except DovetailError as error:
            log.warning("the snapshot after entry %d is passed over: %s", seq, error)
    return State(PAST), 0
