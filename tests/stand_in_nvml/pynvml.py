"""Two GPUs for machines that have none, as far as NVML tells of them. What their power limits are is in
the file that STAND_IN_NVML names, so that several processes see the same cards.

`{"GPU-0": 700000, "GPU-1": 700000, "refuses": "NoPermission"}`: milliwatts, and how setting them fails;
`"processes": {"GPU-0": [[4711, 3221225472]]}`: numbers and bytes of those that compute there.
"""

# ruff: noqa: N801, N802

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

NVML_DEVICE_MIG_ENABLE = 1
LOWEST, HIGHEST = 200_000, 700_000
TOTAL = 140 * 2**30
UUIDS = ("GPU-0", "GPU-1")


class NVMLError(Exception):
    pass


class NVMLError_NoPermission(NVMLError):
    pass


class NVMLError_NotSupported(NVMLError):
    pass


def _file() -> Path:
    return Path(os.environ["STAND_IN_NVML"])


def _cards() -> dict[str, Any]:
    cards: dict[str, Any] = json.loads(_file().read_text())
    return cards


def nvmlInit() -> None: ...


def nvmlShutdown() -> None: ...


def nvmlSystemGetDriverVersion() -> str:
    return "stand-in"


def nvmlDeviceGetCount() -> int:
    return len(UUIDS)


def nvmlDeviceGetHandleByIndex(index: int) -> str:
    return UUIDS[index]


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:
    return uuid


def nvmlDeviceGetUUID(handle: str) -> str:
    return handle


def nvmlDeviceGetName(handle: str) -> str:
    return "NVIDIA H200"


def nvmlDeviceGetPciInfo(handle: str) -> SimpleNamespace:
    return SimpleNamespace(busId=handle)


def nvmlDeviceGetMigMode(handle: str) -> tuple[int, int]:
    raise NVMLError_NotSupported


def nvmlDeviceGetMemoryInfo(handle: str) -> SimpleNamespace:
    used = sum(process.usedGpuMemory for process in _processes(handle))
    return SimpleNamespace(total=TOTAL, free=TOTAL - used)


def nvmlDeviceGetComputeRunningProcesses(handle: str) -> list[SimpleNamespace]:
    return _processes(handle)


def _processes(handle: str) -> list[SimpleNamespace]:
    rows = _cards().get("processes", {}).get(handle, [])
    return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in rows]


def nvmlDeviceGetPowerUsage(handle: str) -> int:
    return 100_000


def nvmlDeviceGetPowerManagementLimit(handle: str) -> int:
    return int(_cards()[handle])


def nvmlDeviceGetPowerManagementLimitConstraints(handle: str) -> tuple[int, int]:
    return LOWEST, HIGHEST


def nvmlDeviceSetPowerManagementLimit(handle: str, milliwatts: int) -> None:
    cards = _cards()
    if refuses := cards.get("refuses"):
        raise globals()[f"NVMLError_{refuses}"]
    assert LOWEST <= milliwatts <= HIGHEST
    cards[handle] = milliwatts
    temporary = _file().with_suffix(".part")
    temporary.write_text(json.dumps(cards))
    temporary.replace(_file())
