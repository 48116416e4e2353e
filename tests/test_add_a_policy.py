"""The how-to for policies of one's own, followed to the letter: its code is taken from the page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "howto" / "add-a-policy.md"
JOBS = "job_id,submit_s,duration_s,gpus\na,0,10,3\nb,1,10,2\nc,2,10,4\nd,3,10,2\n"

LAZY = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Lazy:
    \"\"\"Starts nothing.\"\"\"

    def decide(self, view):
        return ()
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like site-packages after the reader has installed the package."""
    site = tmp_path_factory.mktemp("site")
    policy, contract, preemptive, key = blocks("python")
    (project,) = (tomllib.loads(block) for block in blocks("toml"))
    (site / "widest_first.py").write_text(policy)
    (site / "test_widest_first.py").write_text(contract)
    (site / "least_served.py").write_text(preemptive)
    (site / "widest.py").write_text(key)
    about = project["project"]
    info = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n"
    )
    points = dict(about["entry-points"]["dovetail.policies"])
    points |= {"least-served": "least_served:LeastServed", "widest": "widest:Widest"}
    points["lazy"] = "lazy:Lazy"
    (site / "lazy.py").write_text(LAZY)
    lines = "".join(f"{name} = {where}\n" for name, where in points.items())
    (info / "entry_points.txt").write_text(f"[dovetail.policies]\n{lines}")
    (site / "jobs.csv").write_text(JOBS)
    return site


def python(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    # Relative entries of the path are meant from where the tests run.
    path = os.pathsep.join(str(Path(part).absolute()) for part in path.split(os.pathsep))
    return subprocess.run(
        [sys.executable, *words],
        cwd=site,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def dovetail(site: Path, *words: str) -> str:
    done = python(site, "-m", "dovetail.cli.main", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_policy_is_about_twenty_lines() -> None:
    code = blocks("python")[0].split("class WidestFirst")[0]
    rest = blocks("python")[0].removeprefix(code)
    assert len([line for line in rest.splitlines() if line.strip()]) <= 20


def test_every_command_of_the_page_works(installed: Path) -> None:
    commands = re.findall(r"^\$ dovetail (.+)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        assert "widest-first" in dovetail(installed, *command.split())


def test_the_added_policy_is_listed_with_its_parameters(installed: Path) -> None:
    listed = {one["name"]: one for one in json.loads(dovetail(installed, "policies", "--json"))}
    assert listed["widest-first"]["parameters"] == {"wide": "4"}
    assert listed["widest-first"]["summary"].startswith("Jobs of at least `wide` GPUs first")


def ends(site: Path, policy: str, out: Path) -> dict[str, float]:
    words = ("--cluster", "1x4", "--policy", policy, "--out", str(out), "--json")
    assert json.loads(dovetail(site, "simulate", "jobs.csv", *words))["finished"] == 4
    rows = [line.split(",") for line in (out / "jobs.csv").read_text().splitlines()[1:]]
    return {row[0]: float(row[6]) for row in sorted(rows)}


def test_parameters_reach_the_added_policy(installed: Path, tmp_path: Path) -> None:
    """At 10, when a ends, c goes first if 4 GPUs count as wide; otherwise b and d do."""
    assert ends(installed, "widest-first", tmp_path / "4") == {"a": 10, "b": 30, "c": 20, "d": 30}
    narrow = ends(installed, "widest-first:wide=9", tmp_path / "9")
    assert narrow == {"a": 10, "b": 20, "c": 30, "d": 20}


def test_a_wrong_parameter_of_an_added_policy_is_one_line(installed: Path) -> None:
    words = ("simulate", "jobs.csv", "--cluster", "1x4", "--policy", "widest-first:width=2")
    done = python(installed, "-m", "dovetail.cli.main", *words)
    assert done.returncode == 1
    assert done.stderr == (
        "dovetail: policy 'widest-first' has no parameter 'width'; it has place, wide\n"
    )


def test_a_near_miss_of_an_added_name_is_suggested(installed: Path) -> None:
    words = ("simulate", "jobs.csv", "--cluster", "1x4", "--policy", "widest-frist")
    done = python(installed, "-m", "dovetail.cli.main", *words)
    assert "did you mean 'widest-first'?" in done.stderr


@pytest.mark.parametrize("policy", ["least-served:quantum_s=2", "widest", "widest:preempt=true"])
def test_the_further_examples_of_the_page_run(installed: Path, tmp_path: Path, policy: str) -> None:
    assert len(ends(installed, policy, tmp_path)) == 4


def test_the_wide_job_pushes_the_narrow_ones_out_if_it_may(installed: Path, tmp_path: Path) -> None:
    assert ends(installed, "widest:preempt=true", tmp_path)["c"] == 12


def test_the_contract_test_of_the_page_passes(installed: Path) -> None:
    done = python(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_widest_first.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_policy_that_leaves_jobs_waiting_for_ever_is_told_in_one_line(installed: Path) -> None:
    words = ("simulate", "jobs.csv", "--cluster", "1x4", "--policy", "lazy")
    done = python(installed, "-m", "dovetail.cli.main", *words)
    assert done.returncode == 1
    assert done.stderr.startswith("dovetail: policy 'lazy' left 4 of 4 jobs unfinished")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("no_such_module:Policy", "cannot be loaded: No module named 'no_such_module'"),
        ("broken_policy:Missing", "cannot be loaded: module 'broken_policy' has no attribute"),
        ("broken_policy:NotADataclass", "is not a dataclass"),
    ],
)
def test_a_broken_package_spoils_only_its_own_policy(tmp_path: Path, where: str, told: str) -> None:
    (tmp_path / "broken_policy.py").write_text("class NotADataclass:\n    pass\n")
    info = tmp_path / "broken_policy-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken_policy\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[dovetail.policies]\nbroken = {where}\n")
    (tmp_path / "jobs.csv").write_text(JOBS)
    listed = python(tmp_path, "-m", "dovetail.cli.main", "policies")
    assert listed.returncode == 0
    assert "fifo-skip" in listed.stdout
    assert told in listed.stderr
    words = ("simulate", "jobs.csv", "--cluster", "1x4", "--policy")
    used = python(tmp_path, "-m", "dovetail.cli.main", *words, "broken")
    assert used.returncode == 1
    assert told in used.stderr
    assert used.stderr.count("\n") == 1
    assert python(tmp_path, "-m", "dovetail.cli.main", *words, "fifo").returncode == 0
