"""The compiled core and the plain Python it is made from do the same, to the last byte."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.compile_core import MODULES

from dovetail import traces

SOURCE = Path(__file__).parents[1] / "src"
WHERE = "import dovetail.core.state as s; print(s.__file__)"


def environment(pure: bool) -> dict[str, str]:
    rest = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**rest, "PYTHONPATH": str(SOURCE)} if pure else rest


def python(*words: str, pure: bool) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        env=environment(pure),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def why_not() -> str:
    """Why there is nothing to compare: no compiled package, or one of another source than this."""
    done = subprocess.run(
        [sys.executable, "-c", WHERE],
        env=environment(pure=False),
        capture_output=True,
        text=True,
        check=False,
        cwd=SOURCE.parent,
    )
    state = Path(done.stdout.strip())
    if done.returncode or state.suffix == ".py":
        return "the installed core is plain Python"
    for file in (SOURCE / "dovetail").rglob("*.py"):
        installed = state.parents[1] / file.relative_to(SOURCE / "dovetail")
        if not installed.exists() or installed.read_bytes() != file.read_bytes():
            return f"{file.name} has changed since the package was installed; run make test"
    return ""


def test_the_entries_of_every_kind_of_workload_are_compiled() -> None:
    """As those of the core are: only a compiled class inherits from a compiled class."""
    kinds = (SOURCE / "dovetail" / "workloads").glob("*/entries.py")
    assert {f"workloads/{file.parent.name}/entries.py" for file in kinds} <= set(MODULES)


WHY_NOT = why_not()
needs_compiled = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    recipe = traces.Recipe(jobs=200, gpus=32, load=1.1, c2=8, deadline_factor=3.0, seed=4)
    traces.write(path, traces.generate(recipe))
    return path


def journal(trace: Path, policy: str, out: Path, pure: bool) -> bytes:
    words = ["simulate", str(trace), "--cluster", "4x8", "--policy", policy, "--out", str(out)]
    more = ["--interruption-cost", "5/20", "--node-failures", "200/2", "--json"]
    python("-m", "dovetail.cli.main", *words, *more, pure=pure)
    with gzip.open(out / "journal.jsonl.gz") as file:
        return file.read()


def test_the_source_runs_without_being_compiled() -> None:
    assert python("-c", WHERE, pure=True).strip() == str(SOURCE / "dovetail/core/state.py")


@needs_compiled
@pytest.mark.parametrize(
    "policy",
    [
        "fifo",
        "fifo-skip",
        "easy",
        "conservative",
        "srtf",
        "srsf",
        "las",
        "tiresias:promote=3",
        "gittins",
        "round-robin",
        "edf",
        "least-laxity",
        "fair-share",
        "drf",
        "gandiva",
    ],
)
def test_compiled_and_plain_write_the_same_journal(
    trace: Path, policy: str, tmp_path: Path
) -> None:
    plain = journal(trace, policy, tmp_path / "plain", pure=True)
    compiled = journal(trace, policy, tmp_path / "compiled", pure=False)
    assert plain
    assert plain == compiled
