"""Whether replicas answer, asked beside the keeper's own thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Final

from dovetail.daemon.services.asked import asked
from dovetail.worlds.hosting import Endpoint

_WITHIN_S = 5.0
_SLEEP_WITHIN_S = 120.0
_SOON_S, _SELDOM_S = 0.1, 5.0
_PATIENCE = 3  # failures in a row after which a replica that was healthy is not


@dataclass
class _Patient:
    endpoint: Endpoint
    healthy: bool = False
    failures: int = 0
    why: str = "nobody has asked it yet"
    due: float = 0.0
    asked: Future[tuple[str, bool]] | None = None


class HealthWatch:
    """By the number of a replica. `stranger_at` says who else listens there: they are not asked."""

    def __init__(self, path: str, stranger_at: Callable[[Endpoint], str]) -> None:
        self._path: Final = path
        self._stranger_at: Final = stranger_at
        self._patients: Final[dict[int, _Patient]] = {}
        self._asking: Final = ThreadPoolExecutor(4, thread_name_prefix="health")

    def look(self, running: Mapping[int, Endpoint]) -> None:
        """These run now, and where; the others are forgotten: they are asked anew."""
        for number, known in list(self._patients.items()):
            if running.get(number) != known.endpoint:
                del self._patients[number]
        for number, endpoint in running.items():
            patient = self._patients.setdefault(number, _Patient(endpoint))
            if patient.asked is not None and patient.asked.done():
                self._heed(patient, *patient.asked.result())
            if patient.asked is None and monotonic() >= patient.due:
                patient.asked = self._asking.submit(self._ask, endpoint)

    def _ask(self, endpoint: Endpoint) -> tuple[str, bool]:
        """Why it is not well, and whether it is somebody else at all."""
        if why := self._why_not_ours(endpoint):
            return why, True
        return asked(endpoint, "GET", self._path, _WITHIN_S), False

    def _why_not_ours(self, endpoint: Endpoint) -> str:
        other = self._stranger_at(endpoint)
        return f"port {endpoint.port} is held by a process of {other}" if other else ""

    def _heed(self, patient: _Patient, why: str, is_stranger: bool) -> None:
        """There is no patience with strangers: they would be given what clients send."""
        patient.asked = None
        patient.why = why
        patient.failures = patient.failures + 1 if why else 0
        may_recover = not is_stranger and patient.failures < _PATIENCE
        patient.healthy = not why or (patient.healthy and may_recover)
        patient.due = monotonic() + (_SOON_S if why else _SELDOM_S)

    def post(self, number: int, path: str) -> Future[str]:
        """Beside the keeper, too: a server takes seconds to move its weights."""
        patient = self._patients.get(number)
        return self._asking.submit(self._told, patient.endpoint if patient else None, path)

    def _told(self, endpoint: Endpoint | None, path: str) -> str:
        if endpoint is None:
            return "it cannot be reached"
        return self._why_not_ours(endpoint) or asked(endpoint, "POST", path, _SLEEP_WITHIN_S)

    def is_healthy(self, number: int) -> bool:
        return number in self._patients and self._patients[number].healthy

    def why_not(self, number: int) -> str:
        return self._patients[number].why if number in self._patients else ""

    @property
    def is_anxious(self) -> bool:
        """Is somebody asked who is not healthy yet?"""
        return any(not patient.healthy for patient in self._patients.values())

    def stop(self) -> None:
        self._asking.shutdown(wait=False, cancel_futures=True)
