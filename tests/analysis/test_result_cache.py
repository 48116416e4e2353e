"""An analysis that is broken off goes on where it was; nothing old is taken for new."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dovetail.analysis import analyze
from dovetail.analysis.result_cache import ResultCache
from dovetail.experiments.workers import workers
from dovetail.insight.workload_figures import SubmissionWeek
from dovetail.traces import Recipe, generate, write
from waiting import until

ONE = """
import sys
sys.modules["sklearn"] = None  # importing it takes longer than all that is tested here
from dovetail.analysis import analyze
analyze(sys.argv[1], "4x8", out=sys.argv[2], parts=("contest",))
"""


def double(number: int) -> int:
    return 2 * number


def started(trace: Path, out: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", ONE, str(trace), str(out)])


def kept_in(out: Path) -> dict[str, int]:
    """The tasks that were done, and when each was written."""
    return {
        path.name: path.stat().st_mtime_ns
        for path in out.glob("cache/*/*.simulated.*")
        if not path.name.endswith(".part")
    }


def told(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "analysis.json").read_text())
    del found["seconds"]
    return found


def children_of(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_killed_outright_it_goes_on_and_ends_with_the_same_figures(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    write(trace, generate(Recipe(jobs=300, gpus=32, load=0.9)))
    process = started(trace, tmp_path / "killed")
    until(lambda: len(kept_in(tmp_path / "killed")) >= 3)
    assert process.poll() is None, "it was done before it could be killed"
    helpers = children_of(process.pid)
    process.kill()
    process.wait()
    before = kept_in(tmp_path / "killed")
    assert not (tmp_path / "killed" / "report.html").exists()

    assert started(trace, tmp_path / "killed").wait() == 0
    after = kept_in(tmp_path / "killed")
    assert len(after) > len(before)
    assert {name: after[name] for name in before} == before  # not done again

    assert started(trace, tmp_path / "whole").wait() == 0
    assert told(tmp_path / "killed") == told(tmp_path / "whole")
    assert helpers
    until(lambda: not any(is_there(pid) for pid in helpers))


def test_a_second_time_nothing_is_measured_again(tmp_path: Path) -> None:
    trace = tmp_path / "jobs.csv"
    write(trace, generate(Recipe(jobs=40, gpus=8)))
    with ThreadPoolExecutor(1) as pool:
        first = analyze(trace, "1x8", out=tmp_path, executor=pool, parts=("contest",))
    second = analyze(trace, "1x8", out=tmp_path, executor=None, parts=("contest",))
    assert second == first


def test_another_trace_seed_or_cluster_is_another_question(tmp_path: Path) -> None:
    from dovetail.analysis.question import Question
    from dovetail.testing import nodes
    from dovetail.traces import read

    path, other = tmp_path / "a.csv", tmp_path / "b.csv"
    write(path, generate(Recipe(jobs=5)))
    write(other, generate(Recipe(jobs=6)))
    trace = read(path)
    keys = [
        Question(trace, nodes(1, 8)).key(path),
        Question(trace, nodes(1, 8), seed=1).key(path),
        Question(trace, nodes(2, 8)).key(path),
        Question(trace, nodes(1, 8), quick=True).key(path),
        Question(trace, nodes(1, 8), policies=("edf",)).key(path),
        Question(read(other), nodes(1, 8)).key(other),
    ]
    assert len(set(keys)) == len(keys)
    assert Question(trace, nodes(1, 8)).key(path) == keys[0]


def test_what_else_changes_the_answer_changes_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dovetail.analysis import question as module
    from dovetail.testing import arrival, nodes
    from dovetail.traces import Trace

    path = tmp_path / "jobs.csv"
    path.write_text("the same bytes")

    def key(work_s: float = 60.0) -> str:
        return module.Question(Trace([arrival("a", work_s=work_s)]), nodes(1, 8)).key(path)

    usual = key()
    assert key(work_s=61.0) != usual  # another file of --durations
    monkeypatch.setattr(module, "_learners", lambda: "another scikit-learn, or none")
    assert key() != usual


def test_a_map_that_remembers_does_each_task_once_and_keeps_the_order(tmp_path: Path) -> None:
    asked: list[int] = []

    def counted(task: Any, numbers: Any) -> Any:
        for number in numbers:
            asked.append(number)
            yield task(number)

    memory = ResultCache(tmp_path, "k")
    half = iter(memory.remembering("part", counted)(double, [1, 2, 3]))
    assert [next(half), next(half)] == [2, 4]  # and then it is broken off
    again = ResultCache(tmp_path, "k").remembering("part", counted)
    assert list(again(double, [1, 2, 3])) == [2, 4, 6]
    assert asked.count(1) == asked.count(2) == 1


def test_what_cannot_be_read_is_measured_again(tmp_path: Path) -> None:
    memory = ResultCache(tmp_path, "k")
    memory.keep("part", SubmissionWeek(0.0, 1, 2.0, 3.0, 4.0, 5.0))
    assert memory.recall("part") == SubmissionWeek(0.0, 1, 2.0, 3.0, 4.0, 5.0)
    whole = (memory.folder / "part").read_bytes()
    for place in range(len(whole)):  # a disk that lost a bit, or the rest
        changed = bytes([*whole[:place], whole[place] ^ 1, *whole[place + 1 :]])
        for bad in (changed, whole[:place]):
            (memory.folder / "part").write_bytes(bad)
            assert memory.recall("part") is None
    assert memory.recall("never kept") is None
    (memory.folder / "folder").mkdir()
    assert memory.recall("folder") is None


def test_a_folder_from_somebody_else_runs_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path / 'pwned'}",)

    memory = ResultCache(tmp_path, "k")
    memory.keep("part", Evil())
    assert memory.recall("part") is None
    assert not (tmp_path / "pwned").exists()


def test_any_executor_can_be_handed_in() -> None:
    with ThreadPoolExecutor(1) as given, workers(given) as pool:
        assert pool is given
    with workers() as pool:
        assert list(pool.map(double, [1, 2])) == [2, 4]


def test_stopped_by_hand_its_processes_end_at_once() -> None:
    since = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        stopped_while_busy()
    assert time.monotonic() - since < 120


def stopped_while_busy() -> None:
    with workers() as pool:
        pool.submit(time.sleep, 600)
        time.sleep(0.3)
        raise KeyboardInterrupt
