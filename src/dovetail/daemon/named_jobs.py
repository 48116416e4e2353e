"""Which jobs a caller means: by ids, the number of an array, names, or patterns such as `train-*`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from dovetail.core.view import View
from dovetail.daemon.refusals import NotFound
from dovetail.daemon.users.callers import Caller

_ID = re.compile(r"[0-9]{1,18}(\.[0-9]{1,10})?")


def is_id(text: str) -> bool:
    """Rather than a name or a pattern."""
    return _ID.fullmatch(text) is not None


def meant(wanted: Sequence[str], caller: Caller, view: View) -> list[str]:
    """Ids as they are; the number of an array stands for its members, a name or pattern for the
    caller's live jobs whose name or id matches."""
    found: dict[str, None] = {}
    for one in wanted:
        if is_id(one):
            matching = _members(one, view) or [one]
        else:
            matching = _matching(one, caller, view)
            if not matching:
                raise NotFound(f"no job of yours that has not ended is called {one!r}")
        found.update(dict.fromkeys(matching))
    return list(found)


def _members(array: str, view: View) -> list[str]:
    if not array.isdigit() or array in view.tracks:
        return []
    return [job_id for job_id in view.tracks if job_id.startswith(f"{array}.")]


def _matching(pattern: str, caller: Caller, view: View) -> list[str]:
    """Also jobs with exactly that name, whatever signs it has."""
    matches = re.compile(fnmatch.translate(pattern)).match
    return [
        track.job.id
        for track in view.tracks.values()
        if (caller.admin or track.job.user == caller.name)
        and (track.job.name == pattern or matches(track.job.name) or matches(track.job.id))
    ]
