"""The how-tos for what packages may add, followed to the letter: files, package and commands are taken
from the pages and typed on a real command line."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import added_packages
from added_packages import dovetail

PAGES = Path(__file__).parents[1] / "docs" / "howto"
FILE = re.compile(r"^`([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMES = {
    "add-a-predictor": "from-name",
    "add-a-trace-reader": "sacct",
    "add-a-sampler": "halton",
    "add-a-placement": "from-the-end",
    "add-a-study-policy": "best-first",
    "add-a-world": "pretend",
}


class Follower:
    """Somebody who does what a page says."""

    def __init__(self, page: str, site: Path) -> None:
        self.site = site
        self.text = (PAGES / f"{page}.md").read_text()
        for name, content in FILE.findall(self.text):
            (site / name).write_text(content)
        added_packages.install_text(site, (site / "pyproject.toml").read_text())

    def commands(self) -> list[str]:
        return re.findall(r"^\$ dovetail (.+)$", self.text, re.MULTILINE)

    def well(self, command: str, **environment: str) -> str:
        done = dovetail(self.site, *command.split(), **environment)
        assert (done.returncode, done.stderr) == (0, ""), command
        return done.stdout


def follow(page: str, site: Path) -> list[str]:
    """What each command of the page prints."""
    follower = Follower(page, site)
    found = [follower.well(command) for command in follower.commands()]
    assert len(found) >= 2
    return found


def test_the_predictor_of_the_page_decides_who_is_short(tmp_path: Path) -> None:
    manual, by_option, by_parameter = follow("add-a-predictor", tmp_path)
    assert "guess_s=3600" in manual
    for printed in (by_option, by_parameter):
        told = "durations: from-name:guess_s=600 (the hours in the names of jobs) for sjf"
        assert told in " ".join(printed.split())
    out = tmp_path / "out"
    words = "simulate jobs.csv --cluster 1x1 --policy sjf --out out --predictor from-name"
    assert dovetail(tmp_path, *words.split()).returncode == 0
    rows = [line.split(",") for line in (out / "jobs.csv").read_text().splitlines()[1:]]
    by_start = sorted(rows, key=lambda row: float(row[5]))
    assert [row[0] for row in by_start] == ["a", "c", "b"]  # by the oracle b would be second


def test_the_reader_of_the_page_is_recognised_and_takes_parameters(tmp_path: Path) -> None:
    _, described, compared = follow("add-a-trace-reader", tmp_path)
    assert "slurm.csv (sacct)" in described
    assert re.search(r"^jobs +2 submitted", described, re.MULTILINE)
    assert re.search(r"^fifo +1 ", compared, re.MULTILINE)


def test_the_placement_of_the_page_fills_the_last_nodes_first(tmp_path: Path) -> None:
    follow("add-a-placement", tmp_path)
    lines = gzip.decompress((tmp_path / "there" / "journal.jsonl.gz").read_bytes()).splitlines()
    on = {row["start"]: row["on"][1][0] for row in map(json.loads, lines) if "start" in row}
    assert on == {"a": 2, "b": 2, "c": 1}


def test_the_study_policy_of_the_page_is_compared_on_curves(tmp_path: Path) -> None:
    manual, replayed = follow("add-a-study-policy", tmp_path)
    assert "hopeless=4" in manual
    assert "best-first:first=1" in replayed


@pytest.fixture
def home() -> Iterator[Path]:
    """Short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="dt-") as folder:
        yield Path(folder)


def test_the_sampler_of_the_page_chooses_the_trials_of_a_live_study(
    tmp_path: Path, home: Path
) -> None:
    follower = Follower("add-a-sampler", tmp_path)
    there = {"DOVETAIL_HOME": str(home)}
    assert dovetail(tmp_path, "up", "--slots", "2", **there).returncode == 0
    try:
        manual, followed = [follower.well(command, **there) for command in follower.commands()]
        assert "first=20" in manual
        assert "all trials are done" in followed
        shown = json.loads(follower.well("study show spread --json", **there))
        drawn = [trial["settings"]["lr"] for trial in shown["trials"]]
        gaps = [right - left for left, right in zip(sorted(drawn), sorted(drawn)[1:], strict=False)]
        assert min(gaps) > 0.1  # spread evenly
    finally:
        dovetail(tmp_path, "down", "--cancel", **there)


def test_the_world_of_the_page_is_where_a_daemon_runs_its_jobs(tmp_path: Path, home: Path) -> None:
    follower = Follower("add-a-world", tmp_path)
    there = {"DOVETAIL_HOME": str(home)}
    manual, up, nodes, ran, _ = [
        dovetail(tmp_path, *command.split(), **there) for command in follower.commands()
    ]
    try:
        assert "seconds=1" in manual.stdout
        assert (up.returncode, ran.returncode) == (0, 0), up.stderr + ran.stderr
        assert nodes.stdout.count("pretended-") == 3 * 8
        again = dovetail(tmp_path, "up", **there)  # in the world of last time
        assert again.returncode == 0, again.stderr
        shown = json.loads(follower.well("show 1 --json", **there))
        assert shown["phase"] == "finished"
        assert follower.well("nodes", **there).count("pretended-") == 3 * 8
        ids = [follower.well("submit -q --gpus 8 -- x", **there).strip() for _ in range(4)]
        follower.well(f"wait {' '.join(ids)}", **there)
    finally:
        dovetail(tmp_path, "down", "--cancel", **there)


def test_a_world_that_cannot_be_made_is_one_line(tmp_path: Path, home: Path) -> None:
    (tmp_path / "nowhere.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Nowhere:\n"
        "    def make(self):\n        return {}['here']\n"
    )
    added_packages.add(tmp_path, "nowhere", "dovetail.worlds", nowhere="nowhere:Nowhere")
    done = dovetail(tmp_path, "up", "--world", "nowhere", DOVETAIL_HOME=str(home))
    assert done.returncode != 0
    assert "the world 'nowhere' cannot be made: KeyError: 'here'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_added_is_listed_and_offered_like_ours(tmp_path: Path) -> None:
    for page in NAMES:
        Follower(page, tmp_path)
    listed = dovetail(tmp_path, "catalogue")
    assert (listed.returncode, listed.stderr) == (0, "")
    added = re.findall(r"^.* of ours, and added: (.+)$", listed.stdout, re.MULTILINE)
    assert sorted(added) == sorted(NAMES.values())
    offered = dovetail(tmp_path, "simulate", "--help").stdout
    assert "|mixture|from-name]" in offered
    assert "|dovetail|sacct]" in offered
    assert "|topology|from-the-end]" in offered
