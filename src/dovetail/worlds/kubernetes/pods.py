"""A pod of ours as far as it matters, from what the API server tells of it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dovetail.core.model import JobId
from dovetail.worlds.agent import RunId
from dovetail.worlds.endings import Ending
from dovetail.worlds.kubernetes.settings import Settings

CONTAINER: Final = "job"
# The kubelet says that it will not get better by itself,
_HOPELESS: Final = ("InvalidImageName", "ErrImageNeverPull")
# or that it tries again: perhaps in vain, perhaps not, as where two pods make one folder of a claim.
_TRIED_AGAIN: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "RegistryUnavailable",
    "CreateContainerConfigError",
    "CreateContainerError",
)
# What a kubelet says of a pod that it does not admit: its seat is taken.
_NOT_ADMITTED: Final = ("UnexpectedAdmissionError", "OutOf", "NodeAffinity", "Shutdown", "Evicted")
# Why a pod that ran was ended, by no fault of its own.
_TAKEN_AWAY: Final = ("Evicted", "Shutdown", "NodeShutdown", "NodeLost", "Terminated", "Preempting")
# What a kubelet says of a container whose end nobody has seen: its node was restarted.
_UNSEEN: Final = ("Unknown", "ContainerStatusUnknown")

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    namespace: str
    uid: str
    run: RunId
    rank: int
    attempt: int
    node: str  # "" until it is bound
    phase: str
    address: str
    container: str  # its id with the runtime; "" until there is one
    is_running: bool
    ending: Ending | None  # of its container, or of a pod that never had one
    is_deleted: bool  # somebody wants it gone
    waits_for: str  # what the kubelet says why its container is not there
    is_hopeless: bool
    is_tried_again: bool
    taken_away: str  # why somebody else has ended it, or is about to
    probe: str  # a probe that would kill it while it is suspended; "" as a rule

    @property
    def is_over(self) -> bool:
        return self.ending is not None

    @property
    def was_not_admitted(self) -> bool:
        return self.phase == "Failed" and not self.container and self.ending is not None


def pod_of(found: Object, settings: Settings) -> Pod | None:
    """None: it is not one of those that we have made. It is known by its name, which nobody can change
    as users may the labels; whether it is the one of its launch, the launch knows (`Gang.owns`)."""
    metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
    known = _named(metadata["name"], settings)
    if known is None or spec.get("schedulerName") != settings.name:
        return None
    run, rank, attempt = known
    own: Object = next(
        (row for row in status.get("containerStatuses") or () if row.get("name") == CONTAINER), {}
    )
    state: Object = own.get("state") or {}
    waiting: Object = state.get("waiting") or _init_waiting(status)
    reason = waiting.get("reason") or ""
    return Pod(
        metadata["name"],
        metadata["namespace"],
        metadata["uid"],
        run,
        rank,
        attempt,
        spec.get("nodeName") or "",
        status.get("phase") or "",
        status.get("podIP") or "",
        own.get("containerID") or "",
        "running" in state,
        _ending(state.get("terminated"), status),
        "deletionTimestamp" in metadata,
        _joined(reason, waiting.get("message")),
        reason in _HOPELESS,
        reason in _TRIED_AGAIN,
        _taken_away(metadata, status, state.get("terminated") or {}),
        _probe(spec),
    )


def pod_name(home: str, run: RunId, rank: int, attempt: int) -> str:
    """Never used twice: each launch has its number, and so has each attempt at it."""
    return f"dt-{home}-{run.job_id.replace('.', '-')}-{run.number}-{rank}-{attempt}"


def _named(name: str, settings: Settings) -> tuple[RunId, int, int] | None:
    try:
        *job, run, rank, attempt = name.removeprefix(f"dt-{settings.home}-").split("-")
        known = RunId(JobId(".".join(job)), int(run)), int(rank), int(attempt)
    except ValueError:
        return None
    return known if name == pod_name(settings.home, *known) else None


def _taken_away(metadata: Object, status: Object, terminated: Object) -> str:
    reason = status.get("reason") or ""
    if reason in _TAKEN_AWAY:
        return _joined(reason, status.get("message"))
    if terminated.get("reason") in _UNSEEN:
        return "its node was restarted, or lost it"
    return "its pod was deleted" if "deletionTimestamp" in metadata else ""


def _probe(spec: Object) -> str:
    """We make none; who changes pods on their way may. A command is run inside, and waits."""
    for own in spec.get("containers") or ():
        asked = own.get("livenessProbe") or {} if own.get("name") == CONTAINER else {}
        if "httpGet" in asked or "tcpSocket" in asked:
            return "its pod was given a liveness probe, which would kill it while it is suspended"
    return ""


def _init_waiting(status: Object) -> Object:
    for row in status.get("initContainerStatuses") or ():
        if waiting := (row.get("state") or {}).get("waiting"):
            found: Object = waiting
            return found
    return {}


def _ending(terminated: Object | None, status: Object) -> Ending | None:
    if terminated is not None:
        code, number = int(terminated.get("exitCode", 0)), terminated.get("signal")
        reason = terminated.get("reason") or ""
        if number is None and code > 128 and reason != "ContainerCannotRun":
            number = code - 128
        if reason in _UNSEEN:
            number = signal.SIGKILL
        failure = ""
        if reason in ("OOMKilled", "ContainerCannotRun", "StartError", "ContainerStatusUnknown"):
            failure = _joined(reason, terminated.get("message"))
        at = _time(terminated.get("finishedAt"))
        return Ending(None if number else code, number or None, failure, at, 0.0, 0)
    if status.get("phase") == "Failed":  # evicted, or never admitted: there was no container
        failure = _joined(status.get("reason") or "the pod failed", status.get("message"))
        return Ending(None, None, failure, 0.0, 0.0, 0)
    return None


def is_refusal_of_a_seat(ending: Ending) -> bool:
    return ending.failure.startswith(_NOT_ADMITTED)


def _joined(reason: str, message: Any) -> str:
    text = " ".join(str(message or "").split())[:300]
    return f"{reason}: {text}" if reason and text else reason or text


def _time(text: str | None) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0
