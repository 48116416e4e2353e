"""How a daemon was asked to start; where nothing is said, as it was started last time.

Whether a home is one user's own or everybody's is a fact of its journal, not of how it is started.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from dovetail.api.machine_row import SettingRow
from dovetail.core.errors import BadInput
from dovetail.daemon.history.costs import NO_FILE
from dovetail.daemon.history.retention import Keep, keep_of
from dovetail.daemon.history.submission_records import record_in
from dovetail.daemon.power_limits import NO_TABLE, table_of
from dovetail.daemon.users.system_accounts import group_called
from dovetail.home import Home, up_again
from dovetail.models.power import NO_LIMITS, PowerTable
from dovetail.predict.speed import SpeedPredictor
from dovetail.store import Store
from dovetail.worlds.world import MachineAsked

DEFAULT_GROUP = "dovetail"
NO_ADMINS = "none"

log = logging.getLogger("dovetail.daemon")
_KEY = "system"
_EVERYBODYS, _OWN = "yes", "no"


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    home: Home
    policy: str | None = None  # None: the one of last time
    slots: int | None = None
    gpus: str | None = None  # those that may be used, such as 0,2-3; None: as last time
    free_memory: str | None = None  # that others must leave of a GPU; None: as last time
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
    sources: Mapping[str, str] = field(default_factory=dict)  # of these: typed, or a file's line


def _told(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value in (None, False) else str(value)


class RememberedSettings:
    """`given` at this start, and those of last time from the journal's file."""

    def __init__(self, given: DaemonSettings, store: Store) -> None:
        self.given: Final = given
        self._store: Final = store

    def told(self, policy: str) -> list[SettingRow]:
        """As they are now, and whence."""
        remembered = {"policy": policy, "world": self._world()}
        return [
            self._row(item.name, remembered.get(item.name) or self._store.meta(item.name) or "")
            for item in fields(DaemonSettings)
            if item.name not in ("home", "sources")
        ]

    def _row(self, name: str, known: str) -> SettingRow:
        given = getattr(self.given, name)
        source = "last time" if known else "usual"
        if given not in (None, False):
            source = self.given.sources.get(name, "asked")
        value = _told(given) or ", ".join(known.splitlines())
        return SettingRow(name=name, value=value, source=source)

    def _world(self) -> str:
        try:
            return self.given.home.world_note.read_text()
        except OSError:
            return ""

    def check_owners(self, jobs: Iterable[str]) -> None:
        """Before anything is kept for the next time: a refusal is not remembered."""
        settle_whose(self.given.home, self._store, jobs)
        if self.given.home.system and self.given.group:
            group_called(self.given.group, "--group")
        if self.given.home.system and (self.given.admins or NO_ADMINS) != NO_ADMINS:
            group_called(self.given.admins or "", "--admins")

    def group(self) -> str:
        """Its members may use a shared daemon."""
        found = self.given.group or self._store.meta("group") or DEFAULT_GROUP
        if self.given.home.system:
            self._store.set_meta("group", found)
        return found

    def admins(self) -> str:
        """The name of the group; "" if root administers alone."""
        if not self.given.home.system:
            return ""
        named = self.given.admins or self._store.meta("admins") or NO_ADMINS
        self._store.set_meta("admins", named)
        return "" if named == NO_ADMINS else named

    def slots(self) -> int | None:
        known = self._store.meta("slots")
        return self.given.slots or (int(known) if known else None)

    def machine(self) -> MachineAsked:
        given = self.given
        return MachineAsked(
            given.home,
            self.slots(),
            given.suspended_gb,
            self._text("gpus"),
            self._text("free_memory"),
        )

    def _text(self, name: str) -> str | None:
        given: str | None = getattr(self.given, name)
        return given or self._store.meta(name)

    def costs_file(self) -> str:
        return self.given.costs or self._store.meta("costs") or NO_FILE

    def keep_after_start(self) -> None:
        """Once the world has accepted them."""
        slots = self.slots()
        if slots is not None:
            self._store.set_meta("slots", str(slots))
        self._store.set_meta("costs", self.costs_file())
        for name in ("gpus", "free_memory"):
            if text := self._text(name):
                self._store.set_meta(name, text)

    def retention(self) -> Keep:
        keep = keep_of(json.loads(self._store.meta("keep") or "[]"))
        keep = keep_of(self.given.keep or (), keep)
        self._store.set_meta("keep", json.dumps(keep.to_words()))
        return keep

    def speeds(self) -> SpeedPredictor | None:
        """By the table; one of last time may be gone."""
        path = self.given.speed_table or self._store.meta("speed_table")
        if not path or path == NO_TABLE:
            self._store.set_meta("speed_table", NO_TABLE)
            return None
        from dovetail.predict.speed import SimilarModels
        from dovetail.traces.clusters.speed_tables import read_speed_table

        try:
            speeds = SimilarModels(read_speed_table(path))
        except BadInput as error:
            if self.given.speed_table:
                raise
            log.warning("no speeds of models: %s", error)
            return None
        self._store.set_meta("speed_table", path)
        return speeds

    def power(self, notice: Callable[[str], None]) -> PowerTable:
        """By the tables; those of last time may be gone, which is then told."""
        asked = self.given.power_table
        known = (self._store.meta("power_table") or "").splitlines()
        texts = [text for text in (asked or known) if text != NO_TABLE]
        try:
            table = table_of(texts)
        except BadInput as error:
            if asked:
                raise
            notice(f"no power limits: {error}")
            return NO_LIMITS
        self._store.set_meta("power_table", "\n".join(texts))
        return table


def settle_whose(home: Home, store: Store, jobs: Iterable[str]) -> None:
    """Refuses to start as the other kind; `jobs` are those that have not ended."""
    known = _known(store, jobs)
    if known == _EVERYBODYS and not home.system:
        raise BadInput(
            f"{home.state} is everybody's: its jobs run as the users who submitted them; type: "
            f"{up_again(home.state, system=True)}"
        )
    if known == _OWN and home.system and _has_had_jobs(store):
        raise BadInput(
            f"{home.state} is one user's own, with their jobs; type: {up_again(home.state)} "
            "(for everybody on this machine name another folder, or none)"
        )
    store.set_meta(_KEY, _EVERYBODYS if home.system else _OWN)
    _tell(home)


def _known(store: Store, jobs: Iterable[str]) -> str | None:
    """Where the journal does not say, its jobs do; None if there is nothing to go by."""
    said = store.meta(_KEY)
    if said is not None:
        return said
    return _EVERYBODYS if owners_of(store, jobs) - {os.geteuid()} else None


def owners_of(store: Store, jobs: Iterable[str]) -> set[int | None]:
    records = (record_in(store.spec, job_id) for job_id in jobs)
    return {record.uid for record in records if record is not None}


def _has_had_jobs(store: Store) -> bool:
    return store.meta("next_job") not in (None, "1")


def _tell(home: Home) -> None:
    """For those who may not read the journal and ask what to type."""
    if home.system:
        home.mark.touch(mode=0o644)
    else:
        home.mark.unlink(missing_ok=True)
