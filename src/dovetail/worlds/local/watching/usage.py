"""What jobs use: processor time, memory, GPUs. Looked at now and then, and kept beside their runs.

Exact is what the kernel says of processes that have ended (`exit.json`). The peak of the memory of a
whole job is its control group's where it has one of its own, else the largest that was seen; that of
its largest process is exact again.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final

from dovetail.core.model import JobId
from dovetail.worlds.local import keeper, machine
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.keeper import files
from dovetail.worlds.local.keeper.proc import Stat, all_processes, descendants
from dovetail.worlds.local.runs import processes
from dovetail.worlds.local.runs.processes import Tree
from dovetail.worlds.local.runs.run import ProcessRun
from dovetail.worlds.world import UsedByJob

EVERY_S: Final = 10.0
_NOTE: Final = "usage.json"  # in the folder of a job
_MANY: Final = 100_000  # notes that are remembered

log = logging.getLogger("dovetail.local")


class UsageMeter:
    """Looks on a thread of its own, which only works while jobs run; asked from any."""

    def __init__(self, folders: Folders, gpus_of: Callable[[JobId], Sequence[str]]) -> None:
        self._folders: Final = folders
        self._gpus_of: Final = gpus_of
        self._notes: Final[dict[JobId, dict[str, Any]]] = {}
        self._looked_at = monotonic()
        self._over: Final = threading.Event()

    def start(self, every_s: float = EVERY_S) -> None:
        threading.Thread(target=self._work, args=(every_s,), name="usage", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _work(self, every_s: float) -> None:
        while not self._over.wait(every_s):
            try:
                self.look()
            except Exception:
                log.exception("what jobs use could not be seen")

    # --------------------------------------------------------------------------------- looking

    def look(self) -> None:
        now = monotonic()
        passed_s, self._looked_at = now - self._looked_at, now
        live = self._folders.live()
        for job_id in [own for own in self._notes if own not in live]:
            del self._notes[job_id]  # what it used is on disk
        if not live:
            return
        table, busy = all_processes(), gpu_busy()
        for job_id in live:
            with suppress(OSError, ValueError):  # it is just ending
                self._look_at(job_id, table, busy, passed_s)

    def _look_at(
        self, job_id: JobId, table: dict[int, Stat], busy: Mapping[str, float], passed_s: float
    ) -> None:
        run = self._folders.run(*self._folders.live_run(job_id))
        pid = run.keeper_pid()
        if pid is None:
            return
        stats = _processes_of(run, pid, table)
        noted = self._noted(job_id)
        ended_s = table[pid].waited_cpu_s if pid in table else 0.0
        noted["cpu"][run.folder.name] = ended_s + sum(own.cpu_s + own.waited_cpu_s for own in stats)
        noted["peak"] = _peak(pid, stats, noted["peak"])
        gpus = [busy[uuid] for uuid in self._gpus_of(job_id) if uuid in busy]
        if gpus and stats:
            noted["gpu_s"] += passed_s * len(gpus)
            noted["busy_s"] += passed_s * sum(gpus)
            held = machine.gpu_memory_bytes({own.pid for own in stats}).values()
            noted["gpu_peak"] = max(noted["gpu_peak"], sum(held))
        _write(self._folders.folder(job_id) / _NOTE, noted)

    def _noted(self, job_id: JobId) -> dict[str, Any]:
        if job_id not in self._notes:
            self._notes[job_id] = _read(self._folders.folder(job_id) / _NOTE)
        return self._notes[job_id]

    # ---------------------------------------------------------------------------------- asking

    def used_by(self, job_id: JobId) -> UsedByJob | None:
        """Over all its runs; None: nothing is known."""
        folder = self._folders.folder(job_id)
        noted = self._notes.get(job_id) or _read(folder / _NOTE)
        cpu, peak = dict(noted["cpu"]), noted["peak"]
        for run in _runs_in(folder):
            with suppress(OSError, ValueError, KeyError):
                ending = files.read_json(str(run / keeper.EXIT))
                cpu[run.name] = max(ending["cpu_s"], cpu.get(run.name, 0.0))
                peak = max(peak, ending["max_rss_bytes"])
        if not cpu:
            return None
        has_gpus = noted["gpu_s"] > 0
        return UsedByJob(
            cpu_s=sum(cpu.values()),
            peak_memory_bytes=peak,
            gpu_busy=noted["busy_s"] / noted["gpu_s"] if has_gpus else None,
            peak_gpu_memory_bytes=noted["gpu_peak"] if has_gpus else None,
        )


def gpu_busy() -> dict[str, float]:
    """By UUID the part of the last moment in which it computed; those that do not say are absent."""
    with machine.nvml() as library:
        told = {
            library.nvmlDeviceGetUUID(handle): machine.told(
                library, "nvmlDeviceGetUtilizationRates", handle
            )
            for handle in machine.whole_gpus(library)
        }
    return {uuid: rates.gpu / 100 for uuid, rates in told.items() if rates is not None}


def _processes_of(run: ProcessRun, keeper_pid: int, table: dict[int, Stat]) -> list[Stat]:
    group = run.process_group()
    if group is None or isinstance(group, Tree):
        return [own for own in descendants(keeper_pid, table) if not own.has_ended]
    return [table[pid] for pid in group.pids() if pid in table]


def _peak(keeper_pid: int, stats: Iterable[Stat], before: int) -> int:
    """What processes share counts once; that is only looked at where it may be a new peak."""
    if (of_group := processes.peak_of_own_cgroup(keeper_pid, list(stats))) is not None:
        return max(before, of_group)
    resident = sum(own.resident_bytes for own in stats)
    if resident <= before:
        return before
    return max(before, sum(map(processes.proportional_bytes, stats)))


def _runs_in(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.name.isdigit()]
    except OSError:
        return []


def _read(note: Path) -> dict[str, Any]:
    found = {"cpu": {}, "peak": 0, "gpu_s": 0.0, "busy_s": 0.0, "gpu_peak": 0}
    with suppress(OSError, ValueError):
        found |= files.read_json(str(note))
    return found


def _write(note: Path, content: Mapping[str, Any]) -> None:
    with suppress(OSError):  # the disk is full: the next time
        temporary = note.with_suffix(".part")
        temporary.write_text(json.dumps(content))
        os.replace(temporary, note)
