"""What was submitted, as it is kept beside the journal: once for an array, whatever its size."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

OF = "of"  # in the record of a member: the number of the array that has the rest


def array_of(job_id: str) -> str:
    """The number of the array that a job is a member of; its own if it is none."""
    return job_id.partition(".")[0]


def record_in(find: Callable[[str], str | None], job_id: str) -> dict[str, Any] | None:
    text = find(job_id)
    if text is None:
        return None
    own: dict[str, Any] = json.loads(text)
    common = find(own[OF]) if OF in own else None
    return own if common is None else {**json.loads(common), **own}
