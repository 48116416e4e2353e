"""How a job is made to give way without losing what it has done: the gentlest rung that works.

1. `cuda-suspend`: the driver moves the GPU memory of an unmodified process to host memory.
2. `freeze`: a job that holds no GPU memory is stopped where it is.
3. `cooperative`: a job that said it saves itself is asked to, ends, and is started again later.
4. `kill`: only if its user allows it; what it had done since its start is lost.

Which one is found by looking at the processes, never by asking the user. If one fails half-way the
job is as it was before, and the next is tried.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Protocol

from dovetail.core.errors import DovetailError
from dovetail.core.model import Seconds
from dovetail.worlds.agent import COOPERATE, FREEZE, KILL, SUSPEND, ProcessGroup, Used
from dovetail.worlds.local import machine
from dovetail.worlds.local.containers.groups import TIDY_WITHIN_S, has_ended_inside
from dovetail.worlds.local.gpus import cuda
from dovetail.worlds.local.runs.run import ProcessRun
from dovetail.worlds.shortage import at_once, is_short
from dovetail.worlds.world import Order

_LOCK_MS = 10_000  # a process that launches kernels all the time is locked within milliseconds
_LOOK_EVERY_S = 0.02
_ROOM_WITHIN_S = 10.0  # GPU memory that its last user has just left may take a moment to be free
_PARKED = "parked.json"
_UNSUSPENDABLE = "unsuspendable"  # the driver refused once: a second try may do harm
_HELLO_WITHIN = 1 << 16  # bytes of the reports in which a job says that it saves itself


class CannotGiveWay(DovetailError):
    """No rung works for this job now. It goes on as if nothing had been asked."""


class NotNow(DovetailError):
    """There is no room to come back to yet. The job stays parked, unharmed."""


class Suspendable(Protocol):
    """Processes, and the folder of what must be known to resume them, which nobody else may write."""

    @property
    def folder(self) -> Path: ...

    def process_group(self) -> ProcessGroup | None:
        """None: they have ended."""


@dataclass(frozen=True, slots=True)
class JobSeat:
    """The resources of a job here: its GPUs by UUID (none on processor slots), where it reports and
    saves itself, and what is left of the memory for suspended jobs; with GPUs, as far as it is free."""

    gpus: tuple[str, ...]
    reports: Path
    checkpoints: Path
    room_bytes: int


def obstacle(run: ProcessRun, order: Order, seat: JobSeat) -> str:
    """Why the job could not be made to give way now; "" if it could."""
    if not order.preemptible:
        return "its user does not want it to give way"
    if run.stop_asked:
        return "it was asked to save itself, and has not ended yet"
    if order.restartable or saves_itself(order, seat):
        return ""
    return cannot_suspend(run, seat)


def cannot_suspend(run: Suspendable, seat: JobSeat) -> str:
    """Why it could not be suspended or frozen now; "" if it could."""
    holders, wanted = _holders_and_bytes(run, seat)
    return _why_not_suspended(run, holders) or _too_much(wanted, seat)


def _why_not_suspended(run: Suspendable, holders: Sequence[int]) -> str:
    """What keeps a job with GPU memory from being suspended."""
    if not holders:
        return ""
    if trouble := cuda.can_suspend():
        return f"it holds GPU memory, and {trouble}"
    try:
        return (run.folder / _UNSUSPENDABLE).read_text()
    except OSError:
        return ""


def _too_much(wanted: int, seat: JobSeat) -> str:
    """Refused before it fails for lack of memory: the job could not be suspended ever after."""
    if wanted <= seat.room_bytes:
        return ""
    return (
        f"suspended it would keep {wanted / 1e9:.1f} GB of host memory, and "
        f"{max(seat.room_bytes, 0) / 1e9:.1f} GB are left for that"
    )


def saves_itself(order: Order, seat: JobSeat) -> bool:
    return order.saves_itself or said_hello(seat.reports)


def said_hello(reports: Path) -> bool:
    try:
        with open(reports, "rb", opener=at_once) as file:
            return b'"cooperative"' in file.read(_HELLO_WITHIN)
    except BlockingIOError:
        return False
    except OSError as error:
        if is_short(error):
            raise  # not to be killed because its word could not be read
        return False


def _holders_and_bytes(run: Suspendable, seat: JobSeat) -> tuple[list[int], int]:
    """The processes with GPU memory, and the bytes of host memory the job would keep if suspended."""
    group = run.process_group()
    if group is None:
        return [], 0
    resident = group.memory_bytes()
    if not seat.gpus:
        return [], resident
    holders = cuda.holders(group.pids())
    return holders, resident + sum(machine.gpu_memory_bytes(holders).values())


# ------------------------------------------------------------------------------------- giving way


def give_way(run: ProcessRun, order: Order, seat: JobSeat) -> Used:
    """Make the job leave its GPUs by the gentlest rung that works. Blocks until it has."""
    troubles = []
    for rung in (_suspend_or_freeze, _cooperate, _kill):
        began = monotonic()
        try:
            used = rung(run, order, seat)
        except DovetailError as error:
            troubles.append(str(error))
            continue
        return Used(used.rung, monotonic() - began, used.bytes, used.parked)
    raise CannotGiveWay("; ".join(troubles))


def _suspend_or_freeze(run: ProcessRun, order: Order, seat: JobSeat) -> Used:
    if not order.preemptible:
        raise CannotGiveWay("its user does not want it to give way")
    return suspend(run, seat)


def suspend(run: Suspendable, seat: JobSeat) -> Used:
    """The rungs that keep the processes. If it fails they run on; Used.seconds is left to the caller."""
    group = run.process_group()
    if group is None:
        raise CannotGiveWay("its processes are gone")
    if _noted(run):
        group.thaw()  # a daemon since killed was at it: a stopped process cannot be asked
    holders, wanted = _holders_and_bytes(run, seat)
    trouble = _why_not_suspended(run, holders) or _too_much(wanted, seat)
    if trouble:
        raise CannotGiveWay(trouble)
    if not holders:
        return Used(FREEZE, 0.0, group.freeze(), True)
    _off_the_gpu(run, holders, seat.gpus)
    group.freeze()  # its other processes would spin, waiting for the GPU
    return Used(SUSPEND, 0.0, wanted, True)


def _off_the_gpu(run: Suspendable, holders: Sequence[int], gpus: Sequence[str]) -> None:
    """What it needs to come back is noted first: whoever takes over after a crash will want to know."""
    if not _noted(run):
        needs = machine.gpu_memory_by_gpu(holders)
        note = {"holders": list(holders), "gpus": list(gpus), "needs": needs}
        temporary = run.folder / f"{_PARKED}.part"
        temporary.write_text(json.dumps(note))
        os.replace(temporary, run.folder / _PARKED)
    try:
        cuda.suspend(holders, _LOCK_MS)
    except cuda.SuspendFailed as error:
        (run.folder / _UNSUSPENDABLE).write_text(str(error))
        if not error.stuck:
            (run.folder / _PARKED).unlink(missing_ok=True)
        raise


def _cooperate(run: ProcessRun, order: Order, seat: JobSeat) -> Used:
    if not saves_itself(order, seat):
        raise CannotGiveWay("it does not save itself when asked")
    run.ask_to_stop()
    main = run.main_pid()
    if main is not None:
        # To it alone: workers that die of a signal would take it down before it has saved.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(main, signal.SIGTERM)
    if not (_ends_within(run, order.grace_s) or _is_tidied_up(run)):
        raise CannotGiveWay(f"asked to save itself, it went on for {order.grace_s:g} s")
    return Used(COOPERATE, 0.0, 0, False)


def save_itself(run: ProcessRun, order: Order, seat: JobSeat) -> Used:
    """Let it save itself and end, to go on with other GPUs. If it does not, it runs on as it is."""
    if not order.preemptible:
        raise CannotGiveWay("its user does not want it to give way")
    began = monotonic()
    used = _cooperate(run, order, seat)
    return Used(used.rung, monotonic() - began, used.bytes, used.parked)


def _is_tidied_up(run: ProcessRun) -> bool:
    """The grace is the job's, not its engine's: podman looks 20 s for the exit code of a container
    that ended while it began."""
    group = run.process_group()
    is_over = group is None or has_ended_inside(group)
    return is_over and _ends_within(run, TIDY_WITHIN_S)


def _kill(run: ProcessRun, order: Order, seat: JobSeat) -> Used:
    if not order.restartable:
        raise CannotGiveWay("its user does not allow it to be killed and started again")
    end(run, 0.0)
    return Used(KILL, 0.0, 0, False)


# -------------------------------------------------------------------------------------- going on


def go_on(run: Suspendable, gpus: Sequence[str]) -> Used:
    """Let parked processes work again, on these GPUs."""
    group = run.process_group()
    if group is None:
        raise CannotGiveWay("its processes are gone")
    began = monotonic()
    noted = _noted(run)
    if not noted:
        group.thaw()
        return Used(FREEZE, monotonic() - began, 0, False)
    where = dict(zip(noted["gpus"], gpus, strict=False))
    _wait_for_room({where.get(gpu, gpu): need for gpu, need in noted["needs"].items()})
    group.thaw()
    moved = any(old != new for old, new in where.items())
    cuda.resume(noted["holders"], where if moved else None)
    (run.folder / _PARKED).unlink(missing_ok=True)
    return Used(SUSPEND, monotonic() - began, 0, False)


def _wait_for_room(needs: Mapping[str, int]) -> None:
    """A process that is restored without room for it is lost for good."""
    until = monotonic() + _ROOM_WITHIN_S
    while trouble := machine.room_for(needs):
        if monotonic() > until:
            raise NotNow(trouble)
        sleep(_LOOK_EVERY_S)


def _noted(run: Suspendable) -> dict[str, Any]:
    try:
        noted: dict[str, Any] = json.loads((run.folder / _PARKED).read_text())
    except (OSError, ValueError) as error:
        if is_short(error):
            raise
        return {}
    return noted


# ---------------------------------------------------------------------------------------- ending


def end(run: ProcessRun, grace_s: Seconds) -> None:
    """End the job's processes, all of them: ask, wait, then kill. Blocks until they are gone."""
    group = run.process_group()
    if group is None:
        while not _ends_within(run, 1.0):  # it was killed: its guard is at it
            pass
        return
    if grace_s > 0 and not _noted(run):  # who is suspended on the GPU cannot answer
        run.ask_to_stop()
        group.ask_to_stop()
        group.thaw()
        if _ends_within(run, grace_s):
            return
    group.kill()
    while not _ends_within(run, 1.0):
        group.kill()


def _ends_within(run: ProcessRun, seconds: Seconds) -> bool:
    until = monotonic() + seconds
    while True:
        if not run.is_alive():
            return True
        if monotonic() >= until:
            return False
        sleep(_LOOK_EVERY_S)
