"""A submission as it is kept beside the journal: once for an array, whatever its size."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dovetail.api.wire import read, text_of
from dovetail.core.model import JobId

_WISHES = "wishes"  # fields of the description that were said later, of one job


@dataclass(frozen=True, kw_only=True)
class SubmissionRecord:
    """Without the environment, which may hold secrets."""

    spec: dict[str, object] = field(default_factory=dict)
    workdir: str = "/"
    umask: int = 0o022
    name: str = ""
    user: str = ""  # earlier versions did not keep it
    uid: int | None = None
    gid: int | None = None
    index: int | None = None  # of a member of an array,
    of: str | None = None  # whose number this is
    at_once: int | None = None  # members of the array that may run at once
    begins_from: JobId | None = None
    apart: bool = False
    stdin: bool = False
    submitted_in: str | None = None  # of a Slurm script, as is
    array: str | None = None  # its indices as written
    terminal: list[float] | None = None  # rows, columns, seconds that it lingers unseen
    commit: str | None = None  # that its folder was at

    def member(self, array: str, index: int | None) -> SubmissionRecord:
        return self if index is None else replace(self, of=array, index=index)

    def to_text(self) -> str:
        said = {k: own for k, own in vars(self).items() if own is not None and own is not False}
        return text_of(said)


def member_text(array: str, index: int) -> str:
    """The part of a member that is kept beside the record of its array."""
    return json.dumps({"of": array, "index": index})


def array_of(job_id: str) -> str:
    """The number of the array that a job is a member of; its own if it is none."""
    return job_id.partition(".")[0]


def is_of(job_id: str, wanted: str) -> bool:
    """Is it the job that is wanted, or a member of that array?"""
    return job_id == wanted or array_of(job_id) == wanted


def record_in(find: Callable[[str], str | None], job_id: str) -> SubmissionRecord | None:
    text = find(job_id)
    if text is None:
        return None
    own = json.loads(text)
    wishes = own.pop(_WISHES, {})
    common = find(own["of"]) if "of" in own else None
    found = read(SubmissionRecord, own if common is None else {**json.loads(common), **own})
    return replace(found, spec={**found.spec, **wishes}) if wishes else found


def with_wishes(text: str, wishes: Mapping[str, object]) -> str:
    """The text of one job, whose user wants to be told otherwise than its description says. What it
    has in common with others stays where it is."""
    return json.dumps({**json.loads(text), _WISHES: wishes})
