"""Dovetail from Python: the page's examples, the notebook, simulations and a real daemon."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dovetail as dt
from dovetail.core.entries import Submitted
from dovetail.core.errors import BadInput
from dovetail.results.intervals import figure_interval, interval
from typed_box import Box

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "use-it-from-python.md").read_text()
SMALL: dict[str, Any] = {"jobs": 60, "gpus": 16, "load": 0.9, "seed": 3}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    box = Box(tmp_path_factory.mktemp("home"))
    box.well("up", "--slots", 2)
    yield box
    box.well("down", "--cancel")


def test_the_import_alone_loads_nothing() -> None:
    script = (
        "import sys; before = set(sys.modules); import dovetail; dir(dovetail)\n"
        "print(*sorted({own for own in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["__future__", "dovetail"]


def test_every_name_that_is_promised_is_there() -> None:
    for name in dt.__all__:
        assert getattr(dt, name).__doc__
    assert set(dt.__all__) <= set(dir(dt))
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = dt.simulat


def _module(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    return vars(module)


def test_the_examples_of_the_page_run(
    box: Box, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DOVETAIL_HOME", str(box.home))
    names = _module("page", monkeypatch)
    for example in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(example, "page", "exec", dont_inherit=True), names)
    said = capsys.readouterr().out
    for expected in (
        "widest-first",
        "hello\n",
        "[6, 24, 120]",
        "1024\n",
        "['finished', 'finished'",
    ):
        assert expected in said


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a notebook does it: the last expression of a cell is shown."""
    cells = json.loads((ROOT / "examples" / "compare_policies.ipynb").read_text())["cells"]
    names = _module("notebook", monkeypatch)
    shown: list[Any] = []
    for cell in [own for own in cells if own["cell_type"] == "code"]:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec", dont_inherit=True), names)
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    assert shown[0] == 500
    assert shown[-1]._repr_html_().startswith("<iframe srcdoc=")
    assert "narrowest-first" in capsys.readouterr().out


def test_a_simulation_is_the_same_as_by_the_command(tmp_path: Path) -> None:
    words = ["compare", str(ROOT / "examples" / "jobs.csv"), "--cluster", "2x8", "--json"]
    typed = [sys.executable, "-m", "dovetail.cli.main", *words, "--policies", "srtf,las"]
    told = json.loads(subprocess.run(typed, capture_output=True, check=True).stdout)
    for own in told if isinstance(told, list) else told["policies"]:
        run = dt.simulate(ROOT / "examples" / "jobs.csv", "2x8", own["policy"])
        clocks = ("cpu_seconds", "jobs_per_cpu_second")
        assert {k: v for k, v in run.figures.items() if k not in clocks} == {
            k: v for k, v in own.items() if k not in clocks
        }


def test_jobs_groups_and_the_journal_tell_of_the_same_run() -> None:
    run = dt.simulate(dt.generate_trace(**SMALL), "2x8", "las")
    rows = list(run.rows)
    assert len(rows) == run["finished"] == 60
    groups = run.by("gpus", None)
    assert sum(own["jobs"] for own in _dictionaries(groups)) == 60
    assert sum(isinstance(entry, Submitted) for entry in run.journal()) == 60
    assert all(own["slowdown"] >= 1.0 for own in _dictionaries(run.jobs()))
    with pytest.raises(BadInput, match="there is no figure 'jct'"):
        _ = run["jct"]


def _dictionaries(table: Any) -> list[dict[str, Any]]:
    """Whatever is installed here."""
    if isinstance(table, list):
        return table
    return list(table.to_dict("records") if hasattr(table, "iloc") else table.to_dicts())


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_rows_are_frames_of_the_package_that_is_there(kind: str) -> None:
    package = pytest.importorskip(kind)
    run = dt.simulate(dt.read_trace(ROOT / "examples" / "jobs.csv"), "2x8", "srtf")
    frame = run.jobs(kind)
    assert isinstance(frame, package.DataFrame)
    assert frame.shape == (10, 17)
    assert run.by("user", kind).shape[0] == 5


def test_seeds_give_intervals_and_the_first_is_the_trace_itself() -> None:
    trace = dt.generate_trace(**SMALL)
    found = dt.compare(trace, "2x8", ["fifo", "srtf"], seeds=4)
    assert [len(own) for own in found.runs.values()] == [4, 4]
    plain = dt.simulate(trace, "2x8", "fifo")
    assert found.runs["fifo"][0]["mean_jct_s"] == plain["mean_jct_s"]
    assert len({own["mean_jct_s"] for own in found.runs["fifo"]}) == 4
    own = found.figure("fifo", "mean_jct_s")
    assert own.low < own.mean < own.high
    assert found.difference("srtf", "fifo").mean < 0
    assert found.best() == "srtf"
    made = dt.compare(lambda seed: dt.generate_trace(**{**SMALL, "seed": seed}), "2x8", ["fifo"])
    assert made.policies == ("fifo",)


def test_intervals_are_students() -> None:
    assert interval([1.0]).high == 1.0
    found = interval([1.0, 2.0, 3.0])  # 2 ± 4.30 / √3
    assert found.high - found.mean == pytest.approx(4.30 / 3**0.5)


def test_an_interval_of_what_cannot_be_negative_begins_at_0_at_least() -> None:
    found = figure_interval("p50_jct_s", [1.0, 900.0])
    assert (found.low, found.mean) == (0.0, 450.5)
    assert (
        figure_interval("energy_cost", [1.0, 900.0]).low < 0
    )  # prices of electricity fall below 0
    runs = [dt.simulate(dt.generate_trace(**SMALL), "2x8", policy) for policy in ("fifo", "srtf")]
    own = dt.Comparison({"both": runs})
    assert own.figure("both", "p50_jct_s").low == 0.0
    assert _dictionaries(own.table())[0]["p50_jct_s_low"] == 0.0


def test_mistakes_are_one_line() -> None:
    trace = dt.generate_trace(**SMALL)
    with pytest.raises(BadInput, match="one policy and one seed"):
        dt.compare(trace, "2x8", [])
    assert list(dt.compare(trace, "2x8", "fifo").runs) == ["fifo"]  # one text is one policy
    with pytest.raises(BadInput, match="unexpected keyword argument 'sed'"):
        dt.simulate(trace, "2x8", "fifo", sed=1)
    with pytest.raises(BadInput, match="by 'nose'"):
        dt.simulate(trace, "2x8", "fifo").by("nose")


class _Deciding:
    def __init__(self, decided: Any) -> None:
        self.decided = decided

    def decide(self, view: object) -> Any:
        return self.decided


@pytest.mark.parametrize("given", [_Deciding, None, object(), [_Deciding([])]])
def test_what_is_no_policy_is_told_what_one_is(given: Any) -> None:
    with pytest.raises(BadInput, match=r"is no policy; give an object with decide\(view\)"):
        dt.simulate(dt.generate_trace(**SMALL), "2x8", given)


@pytest.mark.parametrize("decided", [None, ["start"], 5])
def test_a_policy_that_decides_no_actions_is_told(decided: Any) -> None:
    expected = re.escape("policy '_deciding': decide must return actions")
    with pytest.raises(BadInput, match=expected):
        dt.compare(dt.generate_trace(**SMALL), "2x8", [_Deciding(decided)])


def test_an_error_of_a_function_is_raised_where_its_result_is_asked_for(
    box: Box, tmp_path: Path
) -> None:
    script = tmp_path / "work.py"
    script.write_text(
        "import sys\nimport dovetail as dt\n\n"
        "def half(n):\n    if n % 2:\n        raise ValueError(f'{n} is odd')\n    return n // 2\n\n"
        "def quits(n):\n    print('last words')\n    sys.exit(n)\n\n"
        "if __name__ == '__main__':\n"
        f"    with dt.connect({str(box.home)!r}).executor(gpus=1) as calls:\n"
        "        good, bad = calls.submit(half, 8), calls.submit(half, 7)\n"
        "        gone = calls.submit(quits, 5)\n"
        "        print(good.result(), repr(bad.exception()))\n"
        "        print('in job' in str(bad.exception().__cause__))\n"
        "        print(type(gone.exception()).__name__, 'last words' in str(gone.exception()))\n"
    )
    typed = [sys.executable, str(script)]
    done = subprocess.run(typed, check=False, capture_output=True, text=True, timeout=120)
    assert done.stdout == "4 ValueError('7 is odd')\nTrue\nRemoteError True\n", done.stderr


def _typed(box: Box, script: Path, lines: str) -> subprocess.CompletedProcess[str]:
    script.write_text(f"import dovetail as dt\n\nHOME = {str(box.home)!r}\n\n{lines}")
    typed = [sys.executable, str(script)]
    return subprocess.run(typed, check=False, capture_output=True, text=True, timeout=60)


def test_calls_of_an_imported_function_need_no_guard(box: Box, tmp_path: Path) -> None:
    lines = (
        "from math import factorial\n\n"
        "print(list(dt.connect(HOME).map(factorial, [3, 4, 5], gpus=0, cpus=1)))\n"
    )
    done = _typed(box, tmp_path / "plain.py", lines)
    assert done.stdout == "[6, 24, 120]\n", done.stderr


def test_calls_of_a_function_of_a_script_without_a_guard_are_told(box: Box, tmp_path: Path) -> None:
    lines = (
        "def half(n):\n    return n // 2\n\n"
        "print(list(dt.connect(HOME).map(half, [8, 6], gpus=0, cpus=1)))\n"
    )
    done = _typed(box, tmp_path / "unguarded.py", lines)
    assert "BadInput: a job imports this file, and must not submit jobs itself" in done.stderr
    assert "below: if __name__ == '__main__':" in done.stderr.splitlines()[-1]
    with dt.connect(box.home) as session:
        assert session.queue() == []


@pytest.mark.parametrize("pickler", ["cloudpickle", "pickle"])
def test_a_job_may_call_functions_of_its_script_as_jobs(
    box: Box, tmp_path: Path, pickler: str
) -> None:
    pytest.importorskip(pickler)
    lines = (
        f"import {pickler}\n"
        "from dovetail.library import calls\n\n"
        f"calls._pickler = lambda: {pickler}\n\n"
        "def half(n):\n    return n // 2\n\n"
        "def quarter(n):\n"
        "    return [half(own) for own in dt.connect(HOME).map(half, [n], gpus=0, cpus=1)]\n\n"
        "if __name__ == '__main__':\n"
        "    print(list(dt.connect(HOME).map(quarter, [8], gpus=0, cpus=1)))\n"
    )
    done = _typed(box, tmp_path / "nested.py", lines)
    assert done.stdout == "[[2]]\n", done.stderr


@pytest.mark.parametrize("begin", ["dt.connect(HOME)", "dt.Session(HOME).submit(['true'])"])
def test_a_process_that_imports_a_script_begins_no_jobs(
    box: Box, tmp_path: Path, begin: str
) -> None:
    lines = (
        "import multiprocessing\n\n"
        f"if __name__ == '__mp_main__':\n    {begin}\n"
        "if __name__ == '__main__':\n"
        "    spawned = multiprocessing.get_context('spawn').Process(target=print)\n"
        "    spawned.start()\n    spawned.join()\n"
    )
    assert "must not submit jobs itself" in _typed(box, tmp_path / "spawns.py", lines).stderr
