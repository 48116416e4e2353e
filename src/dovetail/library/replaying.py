"""A program of its own: a trace under several policies, with its progress in a file, then the report.

`python -m dovetail.library.replaying FOLDER` reads `asked.json` and `trace.jsonl` there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dovetail.core.entries import NodeJoined
from dovetail.core.errors import DovetailError
from dovetail.core.journal import decode
from dovetail.core.model import Node
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.library.trace_files import read_trace
from dovetail.results.record import RunRecord
from dovetail.worlds.shortage import bound_this_process

ASKED, TRACE, PROGRESS, REPORT = "asked.json", "trace.jsonl", "progress.json", "report.html"
_MOST_CPU_S = 3600.0
_MOST_BYTES = 8 << 30
_TELL_EVERY = 200  # jobs


def main(folder: Path) -> None:
    bound_this_process(_MOST_CPU_S, _MOST_BYTES)
    asked = json.loads((folder / ASKED).read_text())
    tell = _teller(folder)
    try:
        nodes = [_node(line) for line in asked["nodes"]]
        trace = read_trace(folder / TRACE, "dovetail")
        experiment = Experiment(trace.arrivals, nodes, predictor=asked["predictor"])
        _replay(folder, experiment, asked["policies"], asked["title"], tell)
    except DovetailError as error:
        tell(part=1.0, state="failed", text=" ".join(str(error).split()))


def _replay(
    folder: Path,
    experiment: Experiment,
    policies: Sequence[str],
    title: str,
    tell: Callable[..., None],
) -> None:
    runs, failed = list[RunRecord](), dict[str, str]()
    for number, policy in enumerate(policies):
        progress = _Share(tell, policy, number, len(policies), len(experiment.arrivals))
        progress(0)
        try:
            runs.append(simulate(experiment, policy, rows=True, progress=progress))
        except DovetailError as error:
            failed[policy] = " ".join(str(error).split())
    if not runs:
        tell(part=1.0, state="failed", text="; ".join(failed.values()))
        return
    from dovetail.reports import write_report

    write_report(folder / REPORT, runs, title, failed=failed)
    tell(part=1.0, state="done", text="")


class _Share:
    """One policy's part of the progress."""

    def __init__(
        self, tell: Callable[..., None], policy: str, number: int, policies: int, jobs: int
    ) -> None:
        self._tell, self._policy = tell, policy
        self._number, self._policies, self._jobs = number, policies, max(jobs, 1)
        self._told = -_TELL_EVERY

    def __call__(self, done: int) -> None:
        if done - self._told >= _TELL_EVERY or not done:
            self._told = done
            part = (self._number + min(done / self._jobs, 1.0)) / self._policies
            self._tell(part=part, state="running", text=f"{self._policy}: {done:,} jobs")


def _teller(folder: Path) -> Callable[..., None]:
    def tell(**told: Any) -> None:
        beside = folder / f"{PROGRESS}.part"
        beside.write_text(json.dumps(told))
        beside.replace(folder / PROGRESS)

    return tell


def _node(line: str) -> Node:
    entry = decode(line)
    assert isinstance(entry, NodeJoined)
    return entry.node


if __name__ == "__main__":
    main(Path(sys.argv[1]))
