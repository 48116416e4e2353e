"""Simulation needs two packages. Every other command says in one line which extra it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from dovetail.extras import install

ROOT = Path(__file__).parents[2]
JOBS = "submit_s,duration_s,gpus,user\n0,7200,4,ann\n60,14400,8,bob\n300,600,1,cleo\n"
CURVES = "config,step,value\n" + "".join(f"{c},{s},{c + 1 / s}\n" for c in range(4) for s in (1, 2))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages as `pip install dovetail` makes it: what pyproject names, and ours."""
    folder = tmp_path_factory.mktemp("packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [text.partition(">")[0] for text in project["dependencies"]]
    for name in (*names, "dovetail"):
        spec = find_spec(name)
        assert spec
        assert spec.origin
        place = Path(spec.origin).parent
        (folder / name).symlink_to(place)
    for compiled in place.parent.glob("*__mypyc*.so"):  # beside the package, where it is compiled
        (folder / compiled.name).symlink_to(compiled)
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "curves.csv").write_text(CURVES)
    (tmp_path / "job.yaml").write_text("run: python train.py\n")
    return tmp_path


def typed(packages: Path, here: Path, words: str) -> subprocess.CompletedProcess[str]:
    """In a Python that sees no packages but those."""
    return subprocess.run(
        [sys.executable, "-S", "-m", "dovetail.cli.main", "--home", "home", *words.split()],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(packages)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "simulate jobs.csv --cluster 1x8 --policy srtf --out results",
        "compare jobs.csv --cluster 1x8 --policies fifo,las,frugal --out results",
        "trace describe jobs.csv",
        "trace generate --jobs 20 --load 0.9 --cluster 8x8 --out made.csv",
        "policies",
        "bound --help",
        "study replay curves.csv --policies fifo,asha-promote --trials 4 --slots 2",
    ],
)
def test_simulation_needs_no_extra(packages: Path, files: Path, words: str) -> None:
    done = typed(packages, files, words)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("up", "live"),
        ("demo", "live"),
        ("predict job.yaml", "live"),
        ("submit job.yaml", "live"),
        ("tune job.yaml", "live"),
        ("analyze jobs.csv --cluster 1x8 --out analysis", "analyze"),
        ("study replay curves.csv --policies default,fifo --trials 4", "analyze"),
        ("compare jobs.csv --cluster 1x8 --policies srtf --predictor boosted", "predict"),
        ("simulate jobs.csv --cluster 1x8 --policy pollux", "solve"),
        ("simulate jobs.csv --cluster 1x8 --policy sia", "solve"),
    ],
)
def test_who_needs_more_is_told_which_extra(
    packages: Path, files: Path, words: str, extra: str
) -> None:
    done = typed(packages, files, words)
    assert done.returncode == 1
    assert install(extra) in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_all_is_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (everything,) = extras.pop("all")
    assert everything == f"dovetail[{','.join(sorted(extras))}]"
