"""At each start: what only the journal knows, and what only the run folders know, is said and kept.

After a whole start they agree. They differ when a part of the journal, or of the folders, was lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from dovetail.core.model import JobId
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.daemon.history.submission_records import array_of
from dovetail.daemon.submissions import Book
from dovetail.home import Home
from dovetail.store import Filter, Store
from dovetail.worlds.world import Shelf

_TOLD = "lost jobs"  # of meta: those that were named already
_MOST_NAMED = 20


def compare(home: Home, store: Store, book: Book, shelf: Shelf, view: View) -> Iterator[str]:
    """Sentences for the operator; as a rule none."""
    shelf.drop_unsettled(lambda job_id: job_id in view.tracks or book.knows(job_id))
    folders = shelf.jobs()
    lost = _unknown(folders, store, view) | _undone(store, view)
    # They may be somebody's work of days: they are named, and the operator decides.
    running = {job_id: own for job_id in sorted(lost) if (own := shelf.leave_alone(job_id))}
    told = set(json.loads(store.meta(_TOLD) or "[]"))
    if new := lost - told:
        store.set_meta(_TOLD, json.dumps(sorted(lost | told)))
        yield _of_lost(sorted(new, key=_in_order), home, running)
    yield from _of_folders(view, folders, book)


def without_description(view: View, store: Store, book: Book) -> list[JobId]:
    """Jobs of which the journal has lost what they are, and no run folder says it either: they can
    never run."""
    described = store.specs()
    return [own for own in view.tracks if own not in described and not book.knows(own)]


def of_those_without(ids: Iterable[str]) -> str:
    named = _named(list(ids))
    return f"what {named} should run was lost with a part of the journal: cancelled; submit again"


def _unknown(folders: set[str], store: Store, view: View) -> set[str]:
    known = store.specs() | {*view.tracks}
    known |= {array_of(job_id) for job_id in known}  # an array has a folder of its own
    rest = {job_id for job_id in folders - known if not store.history(Filter(job_id=job_id), 1)}
    members = {array_of(job_id) for job_id in rest if "." in job_id}
    return {job_id for job_id in rest if job_id not in members and not _is_array(job_id, store)}


def _undone(store: Store, view: View) -> set[str]:
    """Described, and neither there nor ended."""
    open_specs = store.open_specs()
    arrays = {array_of(job_id) for job_id in store.specs() if "." in job_id}
    rest = open_specs - arrays - {*view.tracks}
    return {job_id for job_id in rest if not _is_array(job_id, store)}


def _is_array(job_id: str, store: Store) -> bool:
    """Members of it have ended, and only their rows are left."""
    return "." not in job_id and bool(store.history(Filter(job_id=f"{job_id}.*"), 1))


def _of_lost(lost: list[str], home: Home, running: Mapping[str, str]) -> str:
    told = (
        f"the journal has lost {_named(lost)}, of which there is still a run folder or a "
        f"description (see {home.runs}): nothing of it was removed, and nothing is run again"
    )
    alive = [f"{job_id} ({running[job_id]})" for job_id in lost if job_id in running]
    return f"{told}; still running: {', '.join(alive)}" if alive else told


def _of_folders(view: View, folders: set[str], book: Book) -> Iterator[str]:
    gone = [track for track in view.tracks.values() if track.job.id not in folders]
    if not gone:
        return
    for track in gone:
        if not track.process:
            book.prepare_again(track.job.id)
    yield (
        f"the run folder of {_named([track.job.id for track in gone])} is gone, with logs, "
        f"reports and checkpoints{_what_then(gone)}"
    )


def _what_then(gone: list[Track]) -> str:
    return "; who ran counts as killed" if any(track.process for track in gone) else ""


def _named(ids: list[str]) -> str:
    if len(ids) == 1:
        return f"job {ids[0]}"
    named = ", ".join(ids[:_MOST_NAMED])
    return f"{len(ids):,} jobs ({named}{', …' if len(ids) > _MOST_NAMED else ''})"


def _in_order(job_id: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in job_id.split("."))
