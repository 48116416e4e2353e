"""An ended job once more: its command, environment and folder as they were, with changes."""

from __future__ import annotations

from collections.abc import Mapping
from time import time
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.daemon.history.submission_records import SubmissionRecord
from dovetail.daemon.submissions import Submission
from dovetail.jobfiles.job_model import JobSpec, read
from dovetail.jobfiles.jobs import due
from dovetail.jobfiles.merging import merged

# They were about that run alone; the jobs it came after have ended.
_ONCE = ("after", "after_any", "after_failed", "begin", "hold", "array")
_SLURM = "SLURM_"


def submission_again(
    record: SubmissionRecord,
    environment: Mapping[str, str],
    changes: Mapping[str, Any],
    is_of_this_machine: bool,
) -> Submission:
    """`environment` is what it was run with: its user's, and its own variables among them."""
    spec = read(_changed(record, changes))
    own = dict(environment)
    if spec.image or not is_of_this_machine:
        spec = _with_variables(spec, own)
    elif spec.slurm:
        told = {name: value for name, value in own.items() if name.startswith(_SLURM)}
        spec = _with_variables(spec, told)
    return Submission(spec, own, record.workdir, record.umask, record.apart)


def _changed(record: SubmissionRecord, changes: Mapping[str, Any]) -> dict[str, Any]:
    before = {name: own for name, own in record.spec.items() if name not in _ONCE}
    before.pop("workdir", None)  # it is in the record's
    if "deadline" in before and _has_passed(str(before["deadline"])):
        del before["deadline"]
    if record.index is not None:
        before["array"] = str(record.index)
    elif record.array is not None:
        before["array"] = record.array
    wrong = sorted(name for name in changes if name in ("run", "command", "args"))
    if wrong:
        raise BadInput(f"{wrong[0]}: what it runs stays as it was; submit another job instead")
    return merged(before, changes)


def _has_passed(deadline: str) -> bool:
    found = due(deadline, time())
    return found is not None and found <= time()


def _with_variables(spec: JobSpec, variables: Mapping[str, str]) -> JobSpec:
    return spec.model_copy(update={"envs": {**variables, **spec.envs}})
