"""Whether a home is one user's own or everybody's is a fact of its journal, not of how it is started."""

from __future__ import annotations

import os
from collections.abc import Iterable

from dovetail.core.errors import BadInput
from dovetail.daemon.history.submission_records import record_in
from dovetail.home import Home, up_again
from dovetail.store import Store

_KEY = "system"
_EVERYBODYS, _OWN = "yes", "no"


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
