"""Power limits of real GPUs: set for the jobs that are to have them, and put back afterwards.

What a GPU was allowed before is noted in a file before the first change, so that whoever comes after a
crash puts it back. Limits do not outlive a restart of the machine, and neither does the note.

What GPUs draw is read from the card's own counter of energy where it has one, else by looking often.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import Any, Final

from dovetail.core.model import Node, Placement
from dovetail.worlds.local import machine
from dovetail.worlds.local.keeper import proc

_MILLI: Final = 1000

log = logging.getLogger("dovetail.local")
_LOOK_EVERY_S = 0.1


class PowerLimits:
    """Used by the world's own thread. `notices` says why GPUs run without limits that they were to
    have, each thing once."""

    def __init__(self, note: Path) -> None:
        self._note: Final = note
        self._before: Final = _noted(note)  # by UUID of those changed: milliwatts
        self._held: Final[dict[str, int]] = {}  # by UUID: watts, as set by us
        self.notices: Final[list[str]] = []
        self.failed = False  # one could not be set after all: no more are
        self._session: AbstractContextManager[Any] | None = None

    @property
    def usual_watts(self) -> Mapping[str, float]:
        """By UUID, what those that we have changed may draw otherwise."""
        return {uuid: allowed / _MILLI for uuid, allowed in self._before.items()}

    def try_out(self, nodes: Iterable[Node]) -> dict[str, tuple[float, float]]:
        """By GPU kind, from how many watts to how many a limit may be: at most what is allowed
        anyhow. Each card is tried with the limit that it has; kinds that refuse it are absent."""
        with machine.nvml() as library:
            found = {node.kind: self._ranges(library, node) for node in nodes}
        return {kind: ranges for kind, ranges in found.items() if ranges is not None}

    def _ranges(self, library: Any, node: Node) -> tuple[float, float] | None:
        if not node.labels:
            self.notice("no power limits: processor slots have none")
            return None
        try:
            lows, highs = zip(*[self._range(library, uuid) for _, uuid in node.labels], strict=True)
        except library.NVMLError as error:
            self.notice(f"no power limits for {node.kind}: {_explained(error)}")
            return None
        return max(lows), min(highs)

    def _range(self, library: Any, uuid: str) -> tuple[float, float]:
        handle = library.nvmlDeviceGetHandleByUUID(uuid)
        now = library.nvmlDeviceGetPowerManagementLimit(handle)
        low, high = library.nvmlDeviceGetPowerManagementLimitConstraints(handle)
        library.nvmlDeviceSetPowerManagementLimit(handle, now)
        return low / _MILLI, min(high, self._before.get(uuid, now)) / _MILLI

    def notice(self, line: str) -> None:
        if line not in self.notices:
            self.notices.append(line)
            log.warning("%s", line)

    def hold(self, wanted: Mapping[str, int]) -> bool:
        free = [uuid for uuid in self._before if uuid not in wanted]
        new = {uuid: watts for uuid, watts in wanted.items() if self._held.get(uuid) != watts}
        if self.failed:
            new.clear()
        if not (free or new):
            return True
        with machine.nvml() as library:
            for uuid in free:
                self._put_back(library, uuid)
            done = [self._limit(library, uuid, watts) for uuid, watts in new.items()]
        self.failed = self.failed or not all(done)
        return all(done)

    def is_held(self, placement: Placement, nodes: Sequence[Node]) -> bool:
        return self.are_held(machine.uuids_of(placement, nodes), placement.limit)

    def are_held(self, uuids: Collection[str], watts: int) -> bool:
        """Do these GPUs have that limit, whoever has set it?"""
        with machine.nvml() as library:
            return all([_allowed(library, uuid) == watts * _MILLI for uuid in uuids])

    def _limit(self, library: Any, uuid: str, watts: int) -> bool:
        is_new = uuid not in self._before
        if is_new and not self._note_down(library, uuid):
            return False
        self._stay_open()
        if self._set(library, uuid, watts * _MILLI):
            self._held[uuid] = watts
            return True
        if is_new:
            del self._before[uuid]
            self._write()
        return False

    def _note_down(self, library: Any, uuid: str) -> bool:
        allowed = _allowed(library, uuid)
        if allowed is None:
            self.notice(f"no more power limits: {uuid} does not tell the one that it has")
            return False
        self._before[uuid] = allowed
        if self._write():
            return True
        del self._before[uuid]
        return False

    def _put_back(self, library: Any, uuid: str) -> None:
        if self._set(library, uuid, self._before[uuid]):
            del self._before[uuid]
            self._held.pop(uuid, None)
            self._write()

    def _set(self, library: Any, uuid: str, milliwatts: int) -> bool:
        why = "NVML cannot be used any more"
        if library is not None:
            try:
                handle = library.nvmlDeviceGetHandleByUUID(uuid)
                library.nvmlDeviceSetPowerManagementLimit(handle, milliwatts)
                return True
            except library.NVMLError as error:
                why = _explained(error)
        watts = f"{milliwatts / _MILLI:g}"
        self.notice(
            f"no more power limits: {uuid} was to have {watts} W ({why}); "
            f"to set it by hand: nvidia-smi -i {uuid} -pl {watts}"
        )
        return False

    def _stay_open(self) -> None:
        """Without persistence mode a card forgets its limit when nobody has it open."""
        if self._session is None:
            self._session = machine.nvml()
            self._session.__enter__()

    def _write(self) -> bool:
        try:
            if not self._before:
                self._note.unlink(missing_ok=True)
                return True
            temporary = self._note.with_suffix(".part")
            temporary.write_text(json.dumps({"boot": proc.boot_id(), "milliwatts": self._before}))
            temporary.replace(self._note)
        except OSError as error:
            self.notice(f"no more power limits: {self._note} cannot be written: {error.strerror}")
            return False
        return True


def _noted(note: Path) -> dict[str, int]:
    try:
        found = json.loads(note.read_text())
        return dict(found["milliwatts"]) if found["boot"] == proc.boot_id() else {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s does not say which power limits to put back: %s", note, error)
        return {}


def _allowed(library: Any, uuid: str) -> int | None:
    """Milliwatts; None if the card does not tell."""
    if library is None:
        return None
    handle = machine.told(library, "nvmlDeviceGetHandleByUUID", uuid)
    if handle is None:
        return None
    allowed = machine.told(library, "nvmlDeviceGetPowerManagementLimit", handle)
    return None if allowed is None else int(allowed)


def _explained(error: Exception) -> str:
    known = {
        "NVMLError_NoPermission": "setting them takes root; start the daemon as root: "
        "dovetail up --system",
        "NVMLError_NotSupported": "the card does not support them",
    }
    return known.get(type(error).__name__, f"NVML says: {error}")


class Meter:
    """Counts the joules of some GPUs from its making on. To be closed."""

    def __init__(self, uuids: Collection[str]) -> None:
        self._session: Final = machine.nvml()
        self._library: Final[Any] = self._session.__enter__()
        self._handles: Final = [
            handle
            for handle in machine.whole_gpus(self._library)
            if self._library.nvmlDeviceGetUUID(handle) in uuids
        ]
        counters = [self._counter(handle) for handle in self._handles]
        self.counts: Final = bool(counters) and None not in counters  # by the cards themselves?
        self._began: Final = sum(found for found in counters if found is not None)
        self._sampled = 0.0
        self._over: Final = threading.Event()
        self._sampler: Final = threading.Thread(target=self._sample, name="meter", daemon=True)
        if self._handles and not self.counts:
            self._sampler.start()

    @property
    def knows(self) -> bool:
        """Is there any GPU that tells what it draws?"""
        return bool(self._handles) and (self.counts or self._watts() is not None)

    def joules(self) -> float:
        if not self.counts:
            return self._sampled
        return sum(self._counter(handle) or 0.0 for handle in self._handles) - self._began

    def close(self) -> None:
        self._over.set()
        if self._sampler.is_alive():
            self._sampler.join()
        self._session.__exit__(None, None, None)

    def _counter(self, handle: Any) -> float | None:
        millijoules = machine.told(self._library, "nvmlDeviceGetTotalEnergyConsumption", handle)
        return None if millijoules is None else millijoules / 1000

    def _watts(self) -> float | None:
        drawn = [
            machine.told(self._library, "nvmlDeviceGetPowerUsage", handle)
            for handle in self._handles
        ]
        return None if None in drawn else sum(drawn) / 1000

    def _sample(self) -> None:
        before = monotonic()
        while not self._over.wait(_LOOK_EVERY_S):
            now = monotonic()
            self._sampled += (self._watts() or 0.0) * (now - before)
            before = now
