"""The order of the driver's steps and their undoing, with a driver made of a table.

What the real driver does is measured by benchmarks/gpu_preemption.py; the last tests here need it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from threading import Lock

import pytest

from dovetail.worlds.local import machine
from dovetail.worlds.local.gpus import cuda

# Living processes, because those that have ended need no bringing back. No fake harms them.
FIRST, SECOND = os.getpid(), os.getppid()


class TableDriver:
    """Keeps the state of each process and refuses the steps it is told to refuse."""

    def __init__(self, *refused: tuple[str, int]) -> None:
        self.refused = set(refused)
        self.states: dict[int, cuda.State] = {FIRST: "running", SECOND: "running"}
        self.steps: list[tuple[str, int]] = []
        self.pairs: Mapping[str, str] = {}
        self.timeouts: list[int] = []
        self.guard = Lock()

    def state(self, pid: int) -> cuda.State:
        if ("state", pid) in self.refused:
            raise cuda.DriverRefused(pid, "state", "by the table")
        return self.states[pid]

    def lock(self, pid: int, timeout_ms: int) -> None:
        self.timeouts.append(timeout_ms)
        self._step("lock", pid, "running", "locked")

    def checkpoint(self, pid: int) -> None:
        self._step("checkpoint", pid, "locked", "checkpointed")

    def restore(self, pid: int, gpu_pairs: Mapping[str, str]) -> None:
        self.pairs = gpu_pairs
        self._step("restore", pid, "checkpointed", "locked")

    def unlock(self, pid: int) -> None:
        self._step("unlock", pid, "locked", "running")

    def _step(self, step: cuda.Step, pid: int, before: cuda.State, after: cuda.State) -> None:
        with self.guard:
            self.steps.append((step, pid))
            if (step, pid) in self.refused or self.states[pid] != before:
                raise cuda.DriverRefused(pid, step, "by the table")
            self.states[pid] = after


def test_all_are_locked_before_the_first_is_checkpointed() -> None:
    driver = TableDriver()
    cuda.suspend([FIRST, SECOND], driver=driver)
    assert [step for step, _ in driver.steps] == ["lock", "lock", "checkpoint", "checkpoint"]
    assert set(driver.states.values()) == {"checkpointed"}


def test_all_are_restored_before_the_first_goes_on() -> None:
    driver = TableDriver()
    cuda.suspend([FIRST, SECOND], driver=driver)
    driver.steps.clear()
    cuda.resume([FIRST, SECOND], driver=driver)
    assert [step for step, _ in driver.steps] == ["restore", "restore", "unlock", "unlock"]
    assert set(driver.states.values()) == {"running"}


@pytest.mark.parametrize("step", ["lock", "checkpoint"])
@pytest.mark.parametrize("pid", [FIRST, SECOND], ids=["first", "second"])
def test_a_suspension_refused_half_way_leaves_all_running(step: cuda.Step, pid: int) -> None:
    driver = TableDriver((step, pid))
    with pytest.raises(cuda.SuspendFailed) as failure:
        cuda.suspend([FIRST, SECOND], driver=driver)
    assert set(driver.states.values()) == {"running"}
    assert (failure.value.pid, failure.value.step, failure.value.stuck) == (pid, step, ())
    assert str(failure.value) == (
        f"the NVIDIA driver refused to {step} process {pid}: by the table; the job runs on"
    )


def test_a_process_that_cannot_be_brought_back_is_named() -> None:
    driver = TableDriver(("checkpoint", SECOND), ("restore", FIRST))
    with pytest.raises(cuda.SuspendFailed, match="resume it, or end it") as failure:
        cuda.suspend([FIRST, SECOND], driver=driver)
    assert failure.value.stuck == (FIRST,)
    assert driver.states[SECOND] == "running"


def test_a_process_that_could_not_even_be_asked_is_not_said_to_be_stuck() -> None:
    driver = TableDriver(("state", SECOND))
    with pytest.raises(cuda.SuspendFailed) as failure:
        cuda.suspend([FIRST, SECOND], driver=driver)
    assert failure.value.stuck == ()
    assert driver.states[FIRST] == "running"


@pytest.mark.parametrize("left", ["running", "locked", "checkpointed"])
def test_what_a_killed_daemon_left_half_done_can_be_finished_either_way(left: cuda.State) -> None:
    driver = TableDriver()
    driver.states[FIRST] = left
    cuda.suspend([FIRST, SECOND], driver=driver)
    assert set(driver.states.values()) == {"checkpointed"}
    driver.states[FIRST] = left
    cuda.resume([FIRST, SECOND], driver=driver)
    assert set(driver.states.values()) == {"running"}


def test_if_one_cannot_be_restored_none_stays_on_the_gpu() -> None:
    driver = TableDriver(("restore", SECOND))
    cuda.suspend([FIRST, SECOND], driver=driver)
    with pytest.raises(cuda.ResumeFailed) as failure:
        cuda.resume([FIRST, SECOND], driver=driver)
    assert failure.value.pid == SECOND
    assert set(driver.states.values()) == {"checkpointed"}


def test_the_locks_share_one_time_limit_and_never_wait_for_ever() -> None:
    driver = TableDriver()
    cuda.suspend([FIRST, SECOND], timeout_ms=0, driver=driver)
    assert driver.timeouts == [1, 1]


def test_suspending_nothing_does_nothing() -> None:
    driver = TableDriver()
    cuda.suspend([], driver=driver)
    cuda.resume([], driver=driver)
    assert driver.steps == []


def test_holders_are_those_the_driver_knows() -> None:
    driver = TableDriver(("state", SECOND))
    assert cuda.holders([FIRST, SECOND], driver=driver) == [FIRST]


def test_new_gpus_reach_the_driver() -> None:
    driver = TableDriver()
    cuda.suspend([FIRST], driver=driver)
    cuda.resume([FIRST], {"GPU-a": "GPU-b"}, driver=driver)
    assert driver.pairs == {"GPU-a": "GPU-b"}


def test_the_arguments_are_laid_out_as_in_cuda_h() -> None:
    assert ctypes.sizeof(cuda.LockArgs) == 64
    assert ctypes.sizeof(cuda.RestoreArgs) == 64
    assert ctypes.sizeof(cuda.GpuPair) == 32
    assert (cuda.LockArgs.timeoutMs.offset, cuda.LockArgs.reserved1.offset) == (0, 8)
    places = [
        getattr(cuda.RestoreArgs, name).offset
        for name in ("gpuPairs", "gpuPairsCount", "reserved", "reserved1")
    ]
    assert places == [0, 8, 12, 56]


def test_uuids_become_sixteen_bytes() -> None:
    old, new = "GPU-3759ae26-e18e-5429-2332-e6672d901542", "GPU-" + "00" * 15 + "ff"
    arguments = cuda.restore_args({old: new})
    assert arguments.gpuPairsCount == 1
    pair = arguments.gpuPairs[0]
    assert bytes(pair.oldUuid).hex() == "3759ae26e18e54292332e6672d901542"
    assert bytes(pair.newUuid) == bytes(15) + b"\xff"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_a_stopped_process_is_refused_instead_of_waited_for(
    sleeper: subprocess.Popen[bytes],
) -> None:
    sleeper.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    with pytest.raises(cuda.SuspendFailed, match="it is stopped; continue it first"):
        cuda.suspend([sleeper.pid])
    assert cuda.holders([sleeper.pid]) == []  # it has no GPU open


def test_a_process_that_has_ended_is_told_from_one_that_lives(
    sleeper: subprocess.Popen[bytes],
) -> None:
    assert not cuda.has_ended(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert cuda.has_ended(sleeper.pid)  # a zombie
    sleeper.wait()
    assert cuda.has_ended(sleeper.pid)


@pytest.mark.skipif(bool(cuda.driver_version()), reason="there is an NVIDIA driver here")
def test_without_a_driver_one_line_says_so() -> None:
    assert cuda.can_suspend() == "no NVIDIA driver is loaded here"
    assert cuda.holders([FIRST]) == []
    with pytest.raises(cuda.SuspendFailed, match="no NVIDIA driver is loaded here"):
        cuda.suspend([FIRST])


needs_gpu = pytest.mark.skipif(
    bool(cuda.can_suspend()) or not machine.find_gpus(), reason=cuda.can_suspend() or "no GPU"
)


@needs_gpu
def test_asking_the_driver_makes_this_process_no_user_of_the_gpu() -> None:
    cuda.holders([FIRST])
    assert machine.gpu_memory_bytes([FIRST]) == {}


@needs_gpu
def test_a_process_without_cuda_is_refused_by_the_real_driver(
    sleeper: subprocess.Popen[bytes],
) -> None:
    assert cuda.holders([sleeper.pid, 2**22 - 1]) == []
    with pytest.raises(cuda.SuspendFailed, match="it does not use CUDA"):
        cuda.suspend([sleeper.pid])
    with pytest.raises(cuda.SuspendFailed, match="it has ended"):
        cuda.suspend([2**22 - 1])
