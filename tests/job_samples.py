"""Jobs as the daemon tells of them, made up."""

from typing import Any

from dovetail.api.job_row import JobRow
from dovetail.api.wire import read

_WAITING: dict[str, Any] = {
    "id": "1", "name": "train", "user": "ada", "tenant": "", "group": "", "phase": "queued",
    "exit_code": None, "gpus": 1, "share": 1.0, "kinds": [], "priority": 0.0, "preemptions": 0,
    "attempts": 0, "submitted_at": 0.0, "started_at": None, "ended_at": None, "run_s": 0.0,
    "lost_gpu_s": 0.0, "placement": [], "last_report": None, "preemption": None, "reason": "",
    "after": [], "time_limit_s": None, "deadline": None,
}  # fmt: skip


def a_job(**more: Any) -> JobRow:
    """It waits, unless more is said of it."""
    return read(JobRow, {**_WAITING, **more})
