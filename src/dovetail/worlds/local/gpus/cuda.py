"""Take running processes off their GPUs and put them back, through NVIDIA's checkpoint API.

The driver moves a process's GPU memory into that process's host memory and back; the program is not
changed and does not notice. Plain ctypes on libcuda, because the API is six functions. Whoever makes
the calls needs no CUDA context and holds no GPU memory.

What was seen on driver 580 and shaped this file (docs/gpu_preemption.md):
- A restore that finds too little GPU memory spoils the process for good (cuda-checkpoint issue 44). Ask
  `machine.room_for` before `resume`.
- A call about a stopped process (SIGSTOP) waits until it is continued, whatever the timeout says. So
  such a process is refused here. One in a frozen cgroup cannot be told apart: thaw it first.
- A call that comes while another is at work on the same process waits for it. The work is done by a
  thread of the process itself and goes on when the caller is killed.
- A process whose checkpoint was refused runs on after unlocking, but is not worth a second try.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol
from uuid import UUID

from dovetail.core.errors import DovetailError

State = Literal["running", "locked", "checkpointed", "failed"]
Step = Literal["state", "lock", "checkpoint", "restore", "unlock"]

STATES: Final[tuple[State, ...]] = ("running", "locked", "checkpointed", "failed")
SINCE_DRIVER: Final = 570  # the first whose libcuda has the calls
REMAPS_SINCE_DRIVER: Final = 580  # the first that restores onto other GPUs
SINCE_CUDA: Final = 12080
NOT_INITIALIZED: Final = 3  # also the answer for a process that has never used CUDA
LOCK_TIMEOUT_MS: Final = 10_000


class DriverRefused(DovetailError):
    """The driver did not do one step for one process."""

    def __init__(self, pid: int, step: Step, why: str) -> None:
        self.pid, self.step, self.why = pid, step, why
        super().__init__(f"the NVIDIA driver refused to {_VERBS[step]} process {pid}: {why}")


class SuspendFailed(DriverRefused):
    """Nothing is suspended: all run on, save those in `stuck` that could not be brought back."""

    def __init__(self, cause: DriverRefused, stuck: Sequence[int] = ()) -> None:
        super().__init__(cause.pid, cause.step, cause.why)
        self.stuck = tuple(stuck)
        self.args = (f"{cause}; {_aftermath(self.stuck)}",)


class ResumeFailed(DriverRefused):
    """The processes are still off the GPUs; `pid` will hardly ever come back (see the module)."""


_VERBS: Final[Mapping[Step, str]] = {
    "state": "tell the state of",
    "lock": "lock",
    "checkpoint": "checkpoint",
    "restore": "restore",
    "unlock": "unlock",
}


def _aftermath(stuck: Sequence[int]) -> str:
    if not stuck:
        return "the job runs on"
    names = ", ".join(str(pid) for pid in stuck)
    return f"process {names} could not be brought back: resume it, or end it"


class Driver(Protocol):
    """What this file needs of the driver. Every verb raises `DriverRefused`; tests bring their own."""

    def state(self, pid: int) -> State: ...
    def lock(self, pid: int, timeout_ms: int) -> None: ...
    def checkpoint(self, pid: int) -> None: ...
    def restore(self, pid: int, gpu_pairs: Mapping[str, str]) -> None: ...
    def unlock(self, pid: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Took:
    """How long the two halves of a switch took: (un)locking, and moving the memory."""

    lock_s: float
    move_s: float


def driver_version() -> str:
    """As in "580.159.04"; empty where the kernel driver is not loaded."""
    for path in ("/sys/module/nvidia/version", "/proc/driver/nvidia/version"):
        try:
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found = re.search(r"\b\d+\.\d+(\.\d+)?\b", text)
        if found:
            return found.group()
    return ""


def can_suspend() -> str:
    """Why processes cannot be suspended here, in one line; empty if they can."""
    version = driver_version()
    if not version:
        return "no NVIDIA driver is loaded here"
    if _major(version) < SINCE_DRIVER:
        return f"the NVIDIA driver is {version}; suspending needs {SINCE_DRIVER} or newer"
    try:
        library = _libcuda()
    except OSError as error:
        return f"libcuda of the NVIDIA driver {version} cannot be loaded: {error}"
    if not hasattr(library, "cuCheckpointProcessLock") or _cuda_version(library) < SINCE_CUDA:
        return f"libcuda is older than the NVIDIA driver {version} and has no checkpoint calls"
    return ""


def state(pid: int, driver: Driver | None = None) -> State:
    """The checkpoint state of the process. Waits while the driver is at work on it."""
    return (driver or NvidiaDriver()).state(pid)


def holders(pids: Iterable[int], driver: Driver | None = None) -> list[int]:
    """Which of these processes use CUDA: those are to be suspended, the others just wait.

    Forked workers of a data loader share open GPU files with their parent but are not CUDA processes
    to the driver. A stopped process cannot be asked; one with a GPU open is named, to be cautious.
    """
    if driver is None and can_suspend():
        return []
    return [pid for pid in pids if _uses_cuda(pid, driver or NvidiaDriver())]


def suspend(
    pids: Sequence[int], timeout_ms: int = LOCK_TIMEOUT_MS, driver: Driver | None = None
) -> Took:
    """Take all of them off their GPUs, or none.

    First all are locked, so that none computes on while a partner is gone; the copying then goes on at
    once for all, as each process copies for itself. Processes that someone else (a daemon since killed)
    has already locked or checkpointed are taken on from there.
    """
    driver = driver or NvidiaDriver()
    held: set[int] = set()
    try:
        began = time.monotonic()
        _lock_all(pids, began + timeout_ms / 1000, held, driver)
        locked = time.monotonic()
        _at_once(partial(_checkpoint, driver), pids)
        return Took(locked - began, time.monotonic() - locked)
    except DriverRefused as cause:
        away = held.difference(_brought_back(pids, driver))
        raise SuspendFailed(cause, [pid for pid in pids if pid in away]) from None


def resume(
    pids: Sequence[int],
    gpu_pairs: Mapping[str, str] | None = None,
    driver: Driver | None = None,
) -> Took:
    """Put all of them back on their GPUs and let them go on, wherever the last caller left them.

    `gpu_pairs` maps the UUID of every GPU a process had to the one it shall get (driver 580 or newer,
    GPUs of one kind). If one cannot be restored, those that were are taken off again.
    """
    driver = driver or NvidiaDriver()
    began = time.monotonic()
    try:
        _at_once(partial(_restore, driver, gpu_pairs or {}), pids)
    except DriverRefused as cause:
        _take_off_again(pids, driver)
        raise ResumeFailed(cause.pid, cause.step, cause.why) from None
    restored = time.monotonic()
    try:
        for pid in pids:
            _unlock(driver, pid)
    except DriverRefused as cause:
        raise ResumeFailed(cause.pid, cause.step, cause.why) from None
    return Took(time.monotonic() - restored, restored - began)


def _lock_all(pids: Sequence[int], deadline: float, held: set[int], driver: Driver) -> None:
    """Lock them and note in `held` which do not run any more."""
    for pid in pids:
        if driver.state(pid) == "running":
            left_ms = int((deadline - time.monotonic()) * 1000)
            driver.lock(pid, max(left_ms, 1))  # 0 would mean: wait for ever
        held.add(pid)


def _checkpoint(driver: Driver, pid: int) -> None:
    if driver.state(pid) != "checkpointed":
        driver.checkpoint(pid)


def _restore(driver: Driver, gpu_pairs: Mapping[str, str], pid: int) -> None:
    if driver.state(pid) not in ("running", "locked"):
        driver.restore(pid, gpu_pairs)


def _unlock(driver: Driver, pid: int) -> None:
    if driver.state(pid) != "running":
        driver.unlock(pid)


def _brought_back(pids: Sequence[int], driver: Driver) -> list[int]:
    """Undo a suspension that failed half-way; the processes that run now, or have ended anyway."""
    restored = _tried(partial(_restore, driver, {}), pids)
    return [*_tried(partial(_unlock, driver), restored), *filter(has_ended, pids)]


def _take_off_again(pids: Sequence[int], driver: Driver) -> None:
    locked = _tried(partial(_expect_locked, driver), pids)
    _tried(driver.checkpoint, locked)


def _expect_locked(driver: Driver, pid: int) -> None:
    now = driver.state(pid)
    if now != "locked":
        raise DriverRefused(pid, "state", f"it is {now}")


def _tried(step: Callable[[int], None], pids: Sequence[int]) -> list[int]:
    """Do it for each; those for which it was done."""
    done = []
    for pid in pids:
        try:
            step(pid)
        except DriverRefused:
            continue
        done.append(pid)
    return done


def _at_once(step: Callable[[int], None], pids: Sequence[int]) -> None:
    """Do it for all in threads of their own, and wait for all before the first error is raised."""
    if len(pids) == 1:
        return step(pids[0])
    with ThreadPoolExecutor(max_workers=max(len(pids), 1)) as pool:
        outcomes = [pool.submit(step, pid) for pid in pids]
    for outcome in outcomes:
        outcome.result()
    return None


def _uses_cuda(pid: int, driver: Driver) -> bool:
    try:
        driver.state(pid)
    except DriverRefused:
        return is_stopped(pid) and _has_gpu_open(pid)
    return True


def is_stopped(pid: int) -> bool:
    return _process_letter(pid) in ("T", "t")


def has_ended(pid: int) -> bool:
    return _process_letter(pid) in ("", "Z", "X")


def _process_letter(pid: int) -> str:
    """The state in /proc/PID/stat; empty if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


def _has_gpu_open(pid: int) -> bool:
    try:
        opened = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    return any(re.match(r"/dev/nvidia\d", _target(link)) for link in opened)


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


# --- the driver itself: names and layouts as in cuda.h of CUDA 12.8 to 13.3, every struct 64 bytes ---


class LockArgs(ctypes.Structure):
    _fields_ = (
        ("timeoutMs", ctypes.c_uint),
        ("reserved0", ctypes.c_uint),
        ("reserved1", ctypes.c_uint64 * 7),
    )


class GpuPair(ctypes.Structure):
    _fields_ = (("oldUuid", ctypes.c_ubyte * 16), ("newUuid", ctypes.c_ubyte * 16))


class RestoreArgs(ctypes.Structure):
    """Before CUDA 13 all 64 bytes were reserved and had to be zero: no pairs means the same."""

    _fields_ = (
        ("gpuPairs", ctypes.POINTER(GpuPair)),
        ("gpuPairsCount", ctypes.c_uint),
        ("reserved", ctypes.c_char * (52 - ctypes.sizeof(ctypes.c_void_p))),
        ("reserved1", ctypes.c_uint64),
    )


class NvidiaDriver:
    """The checkpoint calls of libcuda. They may be made from several threads."""

    def state(self, pid: int) -> State:
        answer = ctypes.c_int(-1)
        self._call("state", "cuCheckpointProcessGetState", pid, ctypes.byref(answer))
        return STATES[answer.value]

    def lock(self, pid: int, timeout_ms: int) -> None:
        arguments = LockArgs(timeoutMs=timeout_ms)
        self._call("lock", "cuCheckpointProcessLock", pid, ctypes.byref(arguments))

    def checkpoint(self, pid: int) -> None:
        self._call("checkpoint", "cuCheckpointProcessCheckpoint", pid, None)

    def restore(self, pid: int, gpu_pairs: Mapping[str, str]) -> None:
        _keep_gpus_awake()
        if not gpu_pairs:
            return self._call("restore", "cuCheckpointProcessRestore", pid, None)
        if _major(driver_version()) < REMAPS_SINCE_DRIVER:
            why = f"other GPUs need driver {REMAPS_SINCE_DRIVER} or newer, not {driver_version()}"
            raise DriverRefused(pid, "restore", why)
        arguments = restore_args(gpu_pairs)
        return self._call("restore", "cuCheckpointProcessRestore", pid, ctypes.byref(arguments))

    def unlock(self, pid: int) -> None:
        self._call("unlock", "cuCheckpointProcessUnlock", pid, None)

    def _call(self, step: Step, name: str, pid: int, arguments: Any) -> None:
        if is_stopped(pid):
            raise DriverRefused(pid, step, "it is stopped; continue it first (SIGCONT)")
        reason = can_suspend()
        if reason:
            raise DriverRefused(pid, step, reason)
        code = getattr(_libcuda(), name)(pid, arguments)
        if code:
            raise DriverRefused(pid, step, _reason(code, pid, step))


def restore_args(gpu_pairs: Mapping[str, str]) -> RestoreArgs:
    pairs = (GpuPair * len(gpu_pairs))(
        *(GpuPair(_uuid_bytes(old), _uuid_bytes(new)) for old, new in gpu_pairs.items())
    )
    return RestoreArgs(gpuPairs=pairs, gpuPairsCount=len(gpu_pairs))


def _uuid_bytes(uuid: str) -> ctypes.Array[ctypes.c_ubyte]:
    return (ctypes.c_ubyte * 16)(*UUID(uuid.removeprefix("GPU-")).bytes)


def _reason(code: int, pid: int, step: Step) -> str:
    if has_ended(pid):
        return "it has ended"
    if code == NOT_INITIALIZED and step in ("state", "lock"):
        return "it does not use CUDA"
    if os.geteuid() and _owner(pid) != os.geteuid():
        return "it belongs to another user"
    return f"{_text('cuGetErrorString', code)} ({_text('cuGetErrorName', code)})"


def _owner(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def _text(function: str, code: int) -> str:
    text = ctypes.c_char_p()
    getattr(_libcuda(), function)(code, ctypes.byref(text))
    return (text.value or b"error %d" % code).decode()


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def _cuda_version(library: ctypes.CDLL) -> int:
    answer = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(answer))
    return answer.value


@cache
def _keep_gpus_awake() -> None:
    """Without persistence mode the driver restores only if someone has initialised CUDA.

    That takes milliseconds and 3 MB once, makes no context and takes no GPU memory.
    """
    if not can_suspend():
        _libcuda().cuInit(0)


@cache
def _libcuda() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")
