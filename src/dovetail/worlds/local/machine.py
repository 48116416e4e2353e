"""The hardware of this machine: its GPUs as NVML reports them, its processors and its memory.

Nothing here fails on a machine without NVIDIA: there are then no GPUs, and `gpu_trouble` says why if a
card is in the machine nevertheless. Gigabytes are 2**30 bytes, as everywhere in Dovetail.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Placement
from dovetail.extras import install
from dovetail.text.gpu_numbers import gpu_numbers

Key = TypeVar("Key", int, str)

GIB: Final = 2**30
ALL_GPUS: Final = "all"
NOTHING_CHANGED: Final[Mapping[str, float]] = {}
ROOM_SLACK_BYTES: Final = 64 * 2**20  # a restored context is not always exactly as large as before


@dataclass(frozen=True, slots=True)
class GpuFound:
    """One GPU. `index` is its place in the order of PCI bus ids."""

    index: int
    uuid: str
    kind: str
    memory_gb: float
    power_limit_watts: float = 0.0  # 0 where the card does not tell


@contextmanager
def nvml() -> Iterator[Any]:
    """NVML opened, or None where it cannot be.

    Sessions nest and only the outermost costs anything, so a daemon keeps one open for its lifetime.
    Opening takes milliseconds with persistence mode and can take a second for each GPU without.
    """
    library = _opened()
    try:
        yield library
    finally:
        if library is not None:
            library.nvmlShutdown()


def _opened() -> Any:
    try:
        library = _pynvml()
        library.nvmlInit()
    except Exception:  # not installed, or any of NVML's errors: gpu_trouble() tells which
        return None
    return library


def _pynvml() -> Any:
    """Imported when first asked for, and by name: the package has no types."""
    return import_module("pynvml")


def find_gpus() -> list[GpuFound]:
    """Every GPU that can be used as a whole; those cut into MIG slices are left alone."""
    with nvml() as library:
        if library is None:
            return []
        handles = whole_gpus(library)
        return [_gpu(library, index, handle) for index, handle in enumerate(handles)]


def gpu_trouble() -> str:
    """Why a GPU that seems to be there cannot be used, in one line; empty if all is well."""
    if not (_card_is_there() or Path("/proc/driver/nvidia/version").exists()):
        return ""
    try:
        library = _pynvml()
    except ImportError:
        return "there is an NVIDIA GPU, but nvidia-ml-py is not installed: " + install("live")
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return explain(type(error).__name__, str(error))
    try:
        return _sliced(library)
    finally:
        library.nvmlShutdown()


def explain(error: str, message: str) -> str:
    """NVML's errors as something to do."""
    known = {
        "NVMLError_LibraryNotFound": "there is an NVIDIA GPU, but libnvidia-ml.so.1 is not "
        "installed; install the NVIDIA driver",
        "NVMLError_DriverNotLoaded": "there is an NVIDIA GPU, but its kernel driver is not loaded; "
        "try: modprobe nvidia",
        "NVMLError_LibRmVersionMismatch": "the NVIDIA kernel driver and its libraries have different "
        "versions (an update?); restart the machine or reload the driver",
        "NVMLError_NoPermission": "no permission to use the NVIDIA GPUs; see the mode and group of "
        "/dev/nvidia*",
        "NVMLError_GpuIsLost": "an NVIDIA GPU has dropped off the bus; restart the machine",
    }
    return known.get(error, f"NVML, the NVIDIA management library, cannot be used: {message}")


def foreign_use(our_pids: Collection[int]) -> set[str]:
    """The UUIDs of GPUs on which processes compute that are not ours.

    Screens do not count. Neither do processes without GPU memory, which have only looked at the GPU.
    """
    ours = frozenset(our_pids)
    return {
        uuid
        for uuid, processes in compute_processes().items()
        for pid, used_bytes in processes
        if pid not in ours and used_bytes != 0
    }


def gpu_memory_bytes(pids: Collection[int]) -> dict[int, int]:
    """GPU memory by process, over all GPUs. Processes that use none, or are suspended, are absent."""
    return _sums(
        (pid, used_bytes or 0)
        for processes in compute_processes().values()
        for pid, used_bytes in processes
        if pid in pids
    )


def gpu_memory_by_gpu(pids: Collection[int]) -> dict[str, int]:
    """GPU memory that these processes use together, by UUID: what each GPU needs to restore them."""
    return _sums(
        (uuid, used_bytes or 0)
        for uuid, processes in compute_processes().items()
        for pid, used_bytes in processes
        if pid in pids
    )


def free_gpu_memory_bytes() -> dict[str, int]:
    """Free memory of every GPU, by UUID."""
    with nvml() as library:
        return {
            library.nvmlDeviceGetUUID(handle): library.nvmlDeviceGetMemoryInfo(handle).free
            for handle in whole_gpus(library)
        }


def room_for(needs: Mapping[str, int], free: Mapping[str, int] | None = None) -> str:
    """Why so many bytes, by UUID, cannot be restored now, in one line; empty if they can.

    To be asked before `cuda.resume`: the driver spoils a process it has no room for.
    """
    free = free_gpu_memory_bytes() if free is None else free
    for uuid, need in needs.items():
        if uuid not in free:
            return f"{uuid} is not in this machine"
        if need + ROOM_SLACK_BYTES > free[uuid]:
            return f"{uuid} has {free[uuid] / GIB:.1f} GB free of the {need / GIB:.1f} GB needed"
    return ""


def power_watts() -> dict[str, float]:
    """The watts that every GPU draws now, by UUID. GPUs that do not report them are absent."""
    with nvml() as library:
        drawn = {
            library.nvmlDeviceGetUUID(handle): told(library, "nvmlDeviceGetPowerUsage", handle)
            for handle in whole_gpus(library)
        }
    return {uuid: milliwatts / 1000 for uuid, milliwatts in drawn.items() if milliwatts is not None}


def machine_nodes(
    slots: int | None = None,
    usual_watts: Mapping[str, float] = NOTHING_CHANGED,
    only: str = ALL_GPUS,
) -> list[Node]:
    """This machine for the scheduler: one node for each kind of GPU, or its processor slots.

    `slots` counts only where there is no GPU: a slot beside GPUs would be taken for one of them.
    `usual_watts`: by UUID, the power limits of GPUs that have another one for a while. `only` these
    GPUs: their numbers as nvidia-smi counts, or UUIDs.
    """
    cores = len(os.sched_getaffinity(0))
    gpus = [
        replace(gpu, power_limit_watts=usual_watts.get(gpu.uuid, gpu.power_limit_watts))
        for gpu in find_gpus()
    ]
    chosen = chosen_gpus(gpus, only)
    return nodes_of(gpus, socket.gethostname(), cores, host_memory_bytes() / GIB, slots, chosen)


def chosen_gpus(gpus: Sequence[GpuFound], only: str) -> frozenset[str]:
    """UUIDs. Whoever names a GPU that is not there is told what there is."""
    if only == ALL_GPUS:
        return frozenset(gpu.uuid for gpu in gpus)
    if not gpus:
        raise BadInput(f"--gpus {only}: there is no GPU here that can be used; try --slots")
    known = {str(gpu.index): gpu.uuid for gpu in gpus} | {gpu.uuid: gpu.uuid for gpu in gpus}
    names = only.split(",") if "GPU-" in only else list(map(str, gpu_numbers(only)))
    for name in names:
        if name.strip() not in known:
            there = f"are GPUs 0 to {len(gpus) - 1}" if len(gpus) > 1 else "is GPU 0"
            raise BadInput(f"--gpus {only}: there is no GPU {name.strip()!r} here; there {there}")
    return frozenset(known[name.strip()] for name in names)


def nodes_of(
    gpus: Sequence[GpuFound],
    host: str,
    cores: int,
    memory_gb: float,
    slots: int | None = None,
    chosen: Collection[str] | None = None,
) -> list[Node]:
    """Processors and memory are split between the kinds in proportion to their chosen GPUs. A GPU has
    the same number whether the others are chosen or not."""
    if not gpus:
        count = cores if slots is None else slots
        return [Node(host, count, "cpu", cpus=cores, memory_gb=memory_gb)]
    by_kind: dict[str, list[GpuFound]] = {}
    for gpu in sorted(gpus, key=lambda gpu: gpu.index):
        by_kind.setdefault(gpu.kind, []).append(gpu)
    numbers = {gpu.uuid: i for group in by_kind.values() for i, gpu in enumerate(group)}
    wanted = numbers.keys() if chosen is None else frozenset(chosen)
    return [
        Node(
            id=host if len(by_kind) == 1 else f"{host}:{kind}",
            gpus=len(own),
            kind=kind,
            gpu_memory_gb=min(gpu.memory_gb for gpu in own),
            gpu_watts=max(gpu.power_limit_watts for gpu in own),
            cpus=cores * len(own) / len(wanted),
            memory_gb=memory_gb * len(own) / len(wanted),
            labels=tuple((f"gpu{numbers[gpu.uuid]}", gpu.uuid) for gpu in own),
        )
        for kind, group in by_kind.items()
        if (own := [gpu for gpu in group if gpu.uuid in wanted])
    ]


def uuids_of(placement: Placement, nodes: Sequence[Node]) -> tuple[str, ...]:
    """The UUIDs of its GPUs; none where they are processor slots."""
    return tuple(
        uuid
        for piece in placement.slices
        for i, (_, uuid) in enumerate(nodes[piece.node].labels)
        if piece.mask >> i & 1
    )


_MAKERS: Final = frozenset(("nvidia", "tesla", "geforce", "quadro", "grid"))
_BUILDS: Final = re.compile(r"sxm\d*|pcie|hbm\d\w*|gpu|generation|edition", re.IGNORECASE)


def short_kind(name: str) -> str:
    """A GPU's name as one writes it in a job: "NVIDIA A100-SXM4-80GB" is A100-80GB.

    Maker, board and memory technology go; what tells cards apart (size, Ti, NVL, Laptop) stays.
    """
    words = re.split(r"[\s\-_/]+", name.strip())
    kept = [word for word in words if not (word.lower() in _MAKERS or _BUILDS.fullmatch(word))]
    return "-".join(kept) or "gpu"


def host_memory_bytes() -> int:
    return _meminfo()["MemTotal"]


def host_memory_available_bytes() -> int:
    """Bytes that can be filled without swapping or a kill, within the limits of our control group."""
    return min([memory_available_bytes(), *_control_group_room()])


def memory_available_bytes() -> int:
    """The available bytes of the whole machine, whatever our own limits are."""
    return _meminfo()["MemAvailable"]


def _meminfo() -> dict[str, int]:
    rows = (line.split() for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if len(row) > 1}


def _control_group_room(
    proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")
) -> list[int]:
    """What every limit above us leaves free. A job killed by such a limit would be lost."""
    try:
        lines = (proc / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            found += rooms_upwards(root / controllers, path.strip("/"))
    return found


def rooms_upwards(mount: Path, path: str) -> Iterator[int]:
    """The bytes that the limits of a control group, and of the groups above it, leave free."""
    group = mount / path
    for folder in (group, *group.parents):
        if not folder.is_relative_to(mount):
            return
        room = _room_in(folder)
        if room is not None:
            yield room


def _room_in(folder: Path) -> int | None:
    """Version 2 of control groups, then version 1. Cached files count as free: they can be dropped."""
    for limit, usage, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        most, used = _number(folder / limit), _number(folder / usage)
        if most is not None and used is not None:
            return max(most - used + _row(folder / "memory.stat", cached), 0)
    return None


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _row(path: Path, name: str) -> int:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[0] == name), 0)


def whole_gpus(library: Any) -> list[Any]:
    """Handles in the order of PCI bus ids, as CUDA_DEVICE_ORDER=PCI_BUS_ID counts them."""
    if library is None:
        return []
    whole = [handle for handle in _handles(library) if not _is_sliced(library, handle)]
    return sorted(whole, key=lambda handle: str(library.nvmlDeviceGetPciInfo(handle).busId))


def _handles(library: Any) -> list[Any]:
    """A GPU that has dropped off the bus cannot be asked; the others can."""
    found = []
    for index in range(library.nvmlDeviceGetCount()):
        try:
            found.append(library.nvmlDeviceGetHandleByIndex(index))
        except library.NVMLError:
            continue
    return found


def _is_sliced(library: Any, handle: Any) -> bool:
    modes = told(library, "nvmlDeviceGetMigMode", handle)
    return modes is not None and modes[0] == library.NVML_DEVICE_MIG_ENABLE


def _sliced(library: Any) -> str:
    sliced = [handle for handle in _handles(library) if _is_sliced(library, handle)]
    if not sliced:
        return ""
    names = ", ".join(library.nvmlDeviceGetUUID(handle) for handle in sliced)
    return f"cut into MIG slices and therefore not used: {names}"


def _gpu(library: Any, index: int, handle: Any) -> GpuFound:
    limit_milliwatts = told(library, "nvmlDeviceGetPowerManagementLimit", handle) or 0
    return GpuFound(
        index=index,
        uuid=library.nvmlDeviceGetUUID(handle),
        kind=short_kind(library.nvmlDeviceGetName(handle)),
        memory_gb=round(library.nvmlDeviceGetMemoryInfo(handle).total / GIB, 1),
        power_limit_watts=limit_milliwatts / 1000,
    )


def compute_processes() -> dict[str, list[tuple[int, int | None]]]:
    """By UUID: process id and bytes, or None where the driver does not tell the bytes."""
    with nvml() as library:
        return {
            library.nvmlDeviceGetUUID(handle): [
                (process.pid, process.usedGpuMemory)
                for process in told(library, "nvmlDeviceGetComputeRunningProcesses", handle) or ()
            ]
            for handle in whole_gpus(library)
        }


def told(library: Any, function: str, handle: Any) -> Any:
    """The answer of the GPU; None if it does not support the question."""
    try:
        return getattr(library, function)(handle)
    except library.NVMLError:
        return None


def _sums(rows: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    sums: dict[Key, int] = {}
    for key, number in rows:
        sums[key] = sums.get(key, 0) + number
    return sums


def _card_is_there() -> bool:
    """A display or 3D controller of NVIDIA's on the PCI bus, whether or not a driver is loaded."""
    for device in Path("/sys/bus/pci/devices").glob("*"):
        vendor, kind = _line(device / "vendor"), _line(device / "class")
        if vendor == "0x10de" and kind.startswith("0x03"):
            return True
    return False


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
