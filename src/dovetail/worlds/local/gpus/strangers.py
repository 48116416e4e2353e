"""Other people's use of the GPUs, outside Dovetail: which GPUs are taken by it, and who is there."""

from __future__ import annotations

import pwd
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dovetail.core.errors import BadInput
from dovetail.worlds.local import machine
from dovetail.worlds.local.machine import GIB

ANY_USE = "any"  # a GPU on which somebody else computes at all is taken


@dataclass(frozen=True, slots=True)
class LeastFree:
    """The memory that others must leave free of a GPU, so that it may be given to jobs."""

    bytes: float = 0.0
    part: float = 0.0

    def of(self, total: int) -> float:
        return max(self.bytes, self.part * total)


def least_free(text: str | None) -> LeastFree | None:
    """`90%`, `70GB` or `70`; None for `any`."""
    if text in (None, "", ANY_USE):
        return None
    number = text.strip().removesuffix("%").upper().removesuffix("GB").strip()
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    is_part = text.strip().endswith("%")
    if not 0 < value <= (100 if is_part else 1e5):
        raise BadInput(f"--free-memory {text}: write a part such as 90%, GB such as 70, or any")
    return LeastFree(part=value / 100) if is_part else LeastFree(bytes=value * GIB)


def taken(our_pids: Collection[int], least: LeastFree | None) -> set[str]:
    """The UUIDs of GPUs that are not to be given to jobs. What our own processes use counts as free."""
    if least is None:
        return machine.foreign_use(our_pids)
    ours = machine.gpu_memory_by_gpu(our_pids)
    found = set()
    with machine.nvml() as library:
        for handle in machine.whole_gpus(library):
            uuid, memory = (
                library.nvmlDeviceGetUUID(handle),
                library.nvmlDeviceGetMemoryInfo(handle),
            )
            if memory.free + ours.get(uuid, 0) < least.of(memory.total):
                found.add(uuid)
    return found


def users_beside(our_pids: Collection[int]) -> dict[str, list[str]]:
    """By UUID, a text for each process that is not ours: `ann: python, 3.2 GB`."""
    ours = frozenset(our_pids)
    found = {
        uuid: sorted(_told(pid, used) for pid, used in processes if pid not in ours and used != 0)
        for uuid, processes in machine.compute_processes().items()
    }
    return {uuid: texts for uuid, texts in found.items() if texts}


def _told(pid: int, used_bytes: int | None) -> str:
    """Where it cannot be seen, as in another container, its number must do."""
    folder = Path(f"/proc/{pid}")
    try:
        uid, name = folder.stat().st_uid, (folder / "comm").read_text(errors="replace").strip()
    except OSError:
        return f"process {pid}{_memory(used_bytes)}"
    return f"{_user(uid)}: {name}{_memory(used_bytes)}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _memory(used_bytes: int | None) -> str:
    return "" if used_bytes is None else f", {used_bytes / GIB:.1f} GB"
