"""The daemon's life: recover, decide, serve, stop. The jobs' lives do not depend on it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic, sleep
from typing import Final, cast

from dovetail.core import snapshot
from dovetail.core.entries import Cancelled, Entry, JournalEntry, PolicySet
from dovetail.core.errors import BadInput, DovetailError, IllegalEntry
from dovetail.core.journal import Journal, decode, encode
from dovetail.core.loop import Policy, run
from dovetail.core.model import Seconds
from dovetail.core.state import State
from dovetail.core.track import Track
from dovetail.core.view import IndexSpec
from dovetail.daemon.active_policy import DEFAULT, Chosen, PolicyBroke
from dovetail.daemon.clock import TOLERANCE_S, Clock
from dovetail.daemon.desk import Desk
from dovetail.daemon.foresight import copy as foresight
from dovetail.daemon.foresight.calibration import Record
from dovetail.daemon.foresight.promises import Promises
from dovetail.daemon.history.costs import NO_FILE, costs_here, notice_of
from dovetail.daemon.history.ledger import Ledger
from dovetail.daemon.history.retention import Retention
from dovetail.daemon.history.retention_settings import Keep, keep_of
from dovetail.daemon.history.run_folder_check import compare, of_those_without, without_description
from dovetail.daemon.history.running_costs import PAST, RunningCosts
from dovetail.daemon.metrics import Tally
from dovetail.daemon.notices import Notices
from dovetail.daemon.power_limits import NO_TABLE, AsSet, settable, table_of
from dovetail.daemon.service import Parts, Service
from dovetail.daemon.snapshots import Snapshots
from dovetail.daemon.studies.archive import Archive
from dovetail.daemon.studies.errands import Errands
from dovetail.daemon.studies.service import Studies
from dovetail.daemon.submissions import Book
from dovetail.daemon.upkeep import Upkeep
from dovetail.daemon.users.callers import caller_of
from dovetail.daemon.users.home_owner import settle_whose
from dovetail.daemon.users.limits import Limits
from dovetail.daemon.users.system_accounts import group_called
from dovetail.home import Home, check_own
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.policies.housekeeping import Housekeeping
from dovetail.predict.speed import SpeedPredictor
from dovetail.store import JournalReader, Store
from dovetail.tune.live import Exchanging
from dovetail.version import version
from dovetail.workloads.study.kind import studies_of
from dovetail.worlds.world import Ground, World

DEFAULT_GROUP = "dovetail"
NO_ADMINS = "none"
SNAPSHOT_EVERY = 5_000  # entries
_MOST_FAILURES = 3  # of policies, one after the other, before the daemon gives up

log = logging.getLogger("dovetail.daemon")


@dataclass(frozen=True, slots=True)
class Settings:
    home: Home
    policy: str | None = None  # None: the one of last time
    slots: int | None = None
    suspended_gb: float | None = None
    listen: str | None = None  # HOST:PORT, for who has the token
    tls_cert: str | None = None  # with which it is encrypted
    tls_key: str | None = None  # None: it is in the file of the certificate
    without_tls: bool = False  # the network is said to be safe
    group: str | None = None  # whose members may use the system's daemon; None: as last time
    admins: str | None = None  # whose members administer it besides root; None: as last time
    speed_table: str | None = None  # how fast models run on which GPUs; None: the one of last time
    costs: str | None = None  # a TOML file; None: the one of last time
    keep: Sequence[str] | None = None  # such as runs=30d, see `keeping`
    power_table: Sequence[str] | None = None  # such as H100=h100.csv; None: those of last time
    world: str | None = (
        None  # where jobs run, see `worlds.registry`; None: where they ran last time
    )


# For a home, so many processor slots and so many GB for suspended jobs (None: as the world has it).
MakeWorld = Callable[[Home, int | None, float | None], World]


class Daemon:
    """Made of its parts, in the order in which they need each other. It knows its world by the
    seam alone (`worlds.world`): who starts it hands one in."""

    def __init__(self, settings: Settings, make_world: MakeWorld) -> None:
        home = settings.home
        make_folders(home)
        check_own(home)
        self.settings: Final = settings
        self.home: Final = home
        self.version: Final = version()
        self._began: Final = monotonic()
        self.store: Final = Store.open(home.journal)
        self.notices: Final = Notices(self.store)
        self.notices.add(self.store.notice)
        self.reader: Final = JournalReader(home.journal)
        self.state: Final = recover(self.store)
        self._settle_whose()
        self.group: Final = settings.group or self.store.meta("group") or DEFAULT_GROUP
        self.admins: Final = self._admins()
        if home.system:
            self.store.set_meta("group", self.group)
            self.store.set_meta("admins", self.admins or NO_ADMINS)
        self.journal: Final = Journal(self._write, at_once=1)  # safe before it is carried out
        self.clock: Final = Clock(self.store, self.state.now)
        self._set_clock_right()
        slots = self._slots()
        self.world: Final = make_world(home, slots, settings.suspended_gb)
        self.book: Final = Book(home, self.store, self.world.shelf)
        for told in compare(home, self.store, self.book, self.world.shelf, self.state):
            self.notices.add(told)
        self.tally: Final = Tally(self.state)
        self.ledger: Final = Ledger(self.store, self.clock, self._ended)
        self.state.index(self.ledger)
        nodes = self.world.nodes
        self.costs_file: Final = settings.costs or self.store.meta("costs") or NO_FILE
        power = self._power()
        costs = costs_here(self.costs_file, nodes, self.clock.epoch)
        self.costs: Final = replace(costs, power=power)
        self.costs_notice: Final = notice_of(self.costs, self.costs_file, nodes)
        believed = replace(costs, power=settable(power, self.world.power, nodes))
        self.chosen: Final = Chosen(
            settings.policy or self.state.policy or DEFAULT,
            self.state,
            self.tally.decisions.add,
            believed,
            self._speeds(),
        )
        self.exchange: Final = Exchanging(self.chosen)
        self.archive: Final = Archive(self.store, self.clock, self.exchange.board, self.world.shelf)
        self.state.index(self.archive)
        self._lasting: Final[list[IndexSpec]] = [self.ledger, self.archive, self.exchange.board]
        self.desk: Final = Desk(self.world, self.state, self.clock, self._sync)
        self._join()
        if slots is not None:
            self.store.set_meta("slots", str(slots))
        self.store.set_meta("costs", self.costs_file)
        self.limits_of_users: Final = Limits(home.system, self.admins)
        parts = Parts(
            *(self.world, self.desk, self.store, self.reader, self.book, self.chosen, self.clock),
            self.limits_of_users,
            notices=self.notices,
            lasting=self._lasting,
        )
        self.service: Final = Service(parts)
        foresight.remember(self.service, Record(Promises(self.service)))
        self.studies: Final = Studies(parts, self.service, self.exchange)
        self.errands: Final = Errands(parts, self.service, self.studies, home)
        self.studies.on_resume = self.errands.look_after
        self._lasting.append(self.errands)
        self.state.index(self.errands)
        self.service.recall_arrays(self.state)
        self.service.admission.look_soon()
        self.book.sweep_strays(self.state)
        self.account: Final = RunningCosts(self.reader, self.costs)
        self.keep: Final = self._keep()
        self.retention: Final = Retention(home, parts, self.service, self.keep)
        self.upkeep: Final = Upkeep(
            [
                *(self._look_at_the_journal, self._look_at_the_clock),
                *(self._mark_the_hour, self.retention.tend),
            ]
        )
        self._snapshots: Final = Snapshots(self.store, self.account, self.desk.ask, SNAPSHOT_EVERY)
        self._failures = 0

    def _look_at_the_journal(self) -> None:
        """Is its file still there? The loop finds out before it answers."""
        self.service.look(lambda view, now: None)

    def _keep(self) -> Keep:
        """As asked for, and as last time where nothing is said."""
        keep = keep_of(json.loads(self.store.meta("keep") or "[]"))
        keep = keep_of(self.settings.keep or (), keep)
        self.store.set_meta("keep", json.dumps(keep.to_words()))
        return keep

    def _mark_the_hour(self) -> None:
        if (mark := self.account.mark(self.clock())) is not None:
            self.service.keep_meta(*mark)

    def _look_at_the_clock(self) -> None:
        if abs(self.clock.off_by) > TOLERANCE_S:
            self.service.change(lambda view, now: ((), self._set_clock_right()))

    def _set_clock_right(self) -> str:
        told = self.clock.set_right()
        self.notices.add(told)
        return told

    def _speeds(self) -> SpeedPredictor | None:
        """By the table asked for, else by that of last time, if it is still there."""
        asked = self.settings.speed_table
        path = asked or self.store.meta("speed_table")
        if not path or path == NO_TABLE:
            self.store.set_meta("speed_table", NO_TABLE)
            return None
        from dovetail.predict.speed import SimilarModels
        from dovetail.traces.clusters.speed_tables import read_speed_table

        try:
            speeds = SimilarModels(read_speed_table(path))
        except BadInput as error:
            if asked:
                raise
            log.warning("no speeds of models: %s", error)
            return None
        self.store.set_meta("speed_table", path)
        return speeds

    def _power(self) -> PowerTable:
        """By the tables asked for, else by those of last time, if they are still there."""
        asked = self.settings.power_table
        known = (self.store.meta("power_table") or "").splitlines()
        texts = [text for text in (asked or known) if text != NO_TABLE]
        try:
            table = table_of(texts)
        except BadInput as error:
            if asked:
                raise
            self.world.power.notice(f"no power limits: {error}")
            return NO_LIMITS
        self.store.set_meta("power_table", "\n".join(texts))
        return table

    def _settle_whose(self) -> None:
        """Before anything is kept for the next time: a refusal is not remembered."""
        try:
            settle_whose(self.home, self.store, self.state.tracks)
            if self.home.system and self.settings.group:
                group_called(self.settings.group, "--group")
            if self.home.system and (self.settings.admins or NO_ADMINS) != NO_ADMINS:
                group_called(self.settings.admins or "", "--admins")
        except DovetailError:
            self.reader.close()
            self.store.close()
            raise

    def _admins(self) -> str:
        """The name of the group; "" if root administers alone."""
        named = self.settings.admins or self.store.meta("admins") or NO_ADMINS
        return "" if named == NO_ADMINS or not self.home.system else named

    def _slots(self) -> int | None:
        """As many as asked for, else as many as last time."""
        known = self.store.meta("slots")
        return self.settings.slots or (int(known) if known else None)

    def _join(self) -> None:
        ground = Ground(
            *(self.state, self.clock, self.desk.ring),
            *(self.book.order_for, self.book.account_of, self.book.environment_of),
            self.costs.power,
        )
        try:
            self.world.join(ground)
        except DovetailError:
            self.reader.close()
            self.store.close()
            raise

    def run(self) -> None:
        """Until it is told to stop. A policy that breaks is replaced; nothing else is forgiven."""
        self._give_up_the_undescribed()
        for event in self.world.catch_up():
            self._record(event)
        if self.state.policy != self.chosen.text:
            self._record(PolicySet(self.clock(), self.chosen.text))
        self.upkeep.start()
        policies: list[Policy] = [Housekeeping(), AsSet(self.exchange, self.world.power)]
        while True:
            try:
                run(self.desk, policies, self.state, self.journal)
                break
            except (PolicyBroke, IllegalEntry) as error:
                self._replace_policy(error)
        self.upkeep.stop()
        self._snapshots.take_the_last()
        self.store.close()

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
        """Cancel what there is, wait until its processes are gone, then stop."""
        everybody = caller_of(0, 0)
        for study_id in self.service.look(lambda view, now: list(studies_of(view).open)):
            self.studies.cancel(study_id, everybody)  # else it would name trials in place of theirs
        self.service.cancel_all(everybody)
        while self.world.has_processes():
            sleep(0.05)
        self.stop()

    def _ended(self, track: Track) -> None:
        self.tally.count_end(track)
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

    def _sync(self) -> None:
        self.store.check_in_place()
        self.store.commit()
        self.book.settle()
        self.book.sweep()
        self._snapshots.look()


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
