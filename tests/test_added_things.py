"""What strangers add is treated as ours is: listed, explained, told in one line when it breaks."""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from added_packages import add, dovetail
from dovetail.catalogue import Catalogue, unwrapped, within
from dovetail.cli.named import KINDS, catalogue_of
from dovetail.core.errors import BadInput
from dovetail.policies import registry as policies
from dovetail.policies.catalogue import CATALOGUE
from dovetail.tune import rules
from waiting import until

SOURCE = Path(__file__).parents[1] / "src" / "dovetail"
JOBS = "job_id,submit_s,duration_s,gpus\na,0,10,1\n"


# ------------------------------------------------------------------------------------- those that break


def test_packages_that_cannot_be_loaded_cost_a_line_each_and_never_the_list(tmp_path: Path) -> None:
    (tmp_path / "gone_wrong.py").write_text("raise RuntimeError('no luck\\ntoday')\n")
    for kind in KINDS:
        add(tmp_path, f"unlucky-{kind}", catalogue_of(kind).group, broken="gone_wrong:Thing")
    listed = dovetail(tmp_path, "catalogue")
    assert listed.returncode == 0
    assert listed.stderr.splitlines() == [
        f"dovetail: {catalogue_of(kind).noun} 'broken' of the package unlucky-{kind} "
        "(gone_wrong:Thing) cannot be loaded: no luck today"
        for kind in KINDS
    ]
    policies = dovetail(tmp_path, "policies")
    assert policies.returncode == 0
    assert re.search(r"^fifo-skip +\S", policies.stdout, re.MULTILINE)
    assert policies.stderr == listed.stderr.splitlines(keepends=True)[0]


@pytest.mark.parametrize(
    "words",
    ["fifo:place=broken", "srtf --predictor broken", "fifo --format broken"],
)
def test_naming_what_cannot_be_loaded_is_one_line(words: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    for group in ("placements", "predictors", "readers"):
        add(tmp_path, f"unlucky-{group}", f"dovetail.{group}", broken="nowhere:Thing")
    typed = ("simulate", "jobs.csv", "--cluster", "1x1", "--policy", *words.split())
    done = dovetail(tmp_path, *typed)
    assert done.returncode != 0
    assert "cannot be loaded: No module named 'nowhere'" in done.stderr
    assert done.stderr.count("\n") == 1


READER = """
from dataclasses import dataclass
from typing import ClassVar

@dataclass(frozen=True)
class Reader:
    columns: ClassVar = ("a", "b")

    def read(self, header, context):
        return lambda row, number: {}["boom"]
"""


def test_a_reader_that_breaks_is_named_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    add(tmp_path, "strange", "dovetail.readers", strange="reader:Reader")
    done = dovetail(tmp_path, "trace", "describe", "rows.csv")
    assert done.returncode == 1
    assert (
        done.stderr == "dovetail: rows.csv: the trace format 'strange' failed: KeyError: 'boom'\n"
    )


def test_nobody_takes_a_name_of_ours(tmp_path: Path) -> None:
    add(tmp_path, "greedy", "dovetail.predictors", oracle="nowhere:Thing")
    (tmp_path / "jobs.csv").write_text(JOBS)
    words = "simulate jobs.csv --cluster 1x1 --policy srtf --predictor oracle"
    assert dovetail(tmp_path, *words.split()).returncode == 0


# -------------------------------------------------------------------------------------- one catalogue


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_ours_are_found_and_described(kind: str) -> None:
    own = catalogue_of(kind)
    told: list[str] = []
    assert [one.name for one in own.all(told.append)] == list(own.builtin)
    assert told == []
    for one in own.all(told.append):
        assert one.summary.endswith("."), one


def test_a_text_inside_another_is_the_same_text() -> None:
    for text in ("mine", "mine:window=3", "mine:window=3:limits=1/2/3:name=x"):
        assert unwrapped(within(text)) == text


def test_what_is_filled_in_cannot_be_written() -> None:
    from dovetail.predict.registry import PREDICTORS

    with pytest.raises(BadInput, match="'oracle' has no parameter 'durations'; it has none"):
        PREDICTORS.make("oracle:durations=3")
    with pytest.raises(BadInput, match="'oracle' needs the true durations, which only a simul"):
        PREDICTORS.make("oracle")


def test_every_kind_has_a_group_of_its_own() -> None:
    found: list[Catalogue] = [catalogue_of(kind) for kind in KINDS]
    assert len({own.group for own in found}) == len(found)
    assert all(own.group.startswith("dovetail.") for own in found)


# ------------------------------------------------------------------------------ who goes first, and why

STRANGE = """
from dataclasses import dataclass

from dovetail.core.plan import Place, Plan
from dovetail.policies.placement import consolidated
from dovetail.policies.precedence import Ahead

@dataclass(frozen=True, kw_only=True)
class ByName:
    \"\"\"In the order of their names.\"\"\"

    place: Place = consolidated

    def decide(self, view):
        plan = Plan(view, self.place)
        waiting = [track for track in view.tracks.values() if track.waiting]
        for track in sorted(waiting, key=lambda t: t.job.name):
            plan.start(track)
        return plan.actions

    def ahead(self, view, track, waiting):
        before = [t for t in waiting if t.job.name < track.job.name]
        before.sort(key=lambda t: t.job.name)
        names = " ".join(t.job.name for t in [*before, track])
        return [Ahead(before, "whose names come earlier", names)]

@dataclass(frozen=True, kw_only=True)
class Confused(ByName):
    \"\"\"Cannot say.\"\"\"

    def ahead(self, view, track, waiting):
        return waiting.nothing
"""


@pytest.fixture(scope="module")
def stranger() -> Iterator[tuple[Path, dict[str, str]]]:
    """A daemon of one slot under somebody's policy; b runs, d and c wait."""
    with tempfile.TemporaryDirectory(prefix="dt-") as folder:
        site = Path(folder)
        (site / "strange.py").write_text(STRANGE)
        points = {"by_name": "strange:ByName", "confused": "strange:Confused"}
        add(site, "strange", "dovetail.policies", **points)
        there = {"DOVETAIL_HOME": str(site / "home")}
        up = dovetail(site, "up", "--slots", "1", "--policy", "by-name", **there)
        assert up.returncode == 0, up.stderr
        try:
            for name in "bdc":
                words = ("submit", "-q", "--estimate", "5m", "--name", name, "--", "sleep", "300")
                assert dovetail(site, *words, **there).returncode == 0
            until(lambda: asked(site, there, "1")["phase"] == "running")
            yield site, there
        finally:
            dovetail(site, "down", "--cancel", **there)


def asked(site: Path, there: dict[str, str], job_id: str) -> dict[str, object]:
    done = dovetail(site, "why", "--json", job_id, **there)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_strangers_policy_says_who_goes_first_in_its_own_words(
    stranger: tuple[Path, dict[str, str]],
) -> None:
    found = asked(*stranger, "2")
    assert found["ahead"] == {
        "number": 1,
        "first": ["3"],
        "why": "1 job whose names come earlier (c d)",
        "at_least": False,
    }
    assert "1 job whose names come earlier" in str(found["text"])


def test_a_policy_that_cannot_say_is_explained_by_what_it_does(
    stranger: tuple[Path, dict[str, str]],
) -> None:
    site, there = stranger
    assert dovetail(site, "policy", "set", "confused", **there).returncode == 0
    found = asked(site, there, "2")
    assert found["ahead"] == {
        "number": 1,
        "first": ["3"],
        "why": "1 job that the policy is expected to start before",
        "at_least": False,
    }
    assert dovetail(site, "policy", "set", "by-name", **there).returncode == 0


# ------------------------------------------------------------------------------ nobody asks who it is

ROOMS = (
    "daemon",
    "cli",
    "experiments",
    "analysis",
    "planning",
    "jobfiles",
    "tune",
    "client",
    "core",
)


def classes_of(*catalogues: Catalogue) -> set[str]:
    return {attribute for own in catalogues for _, attribute in own.builtin.values()}


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_asks_which_policy_or_rule_it_has(room: str) -> None:
    """Neither by its class nor by its name: a stranger's would get less."""
    classes = classes_of(CATALOGUE, rules.CATALOGUE)
    names = {*policies.BUILTIN, *rules.BUILTIN} - {"fifo", "default", "priority"}
    found = []
    for path in sorted((SOURCE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                asked_for = {getattr(one, "id", "") for one in ast.walk(node.args[1])}
                if asked_for & classes:
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                if {one.value for one in sides if isinstance(one, ast.Constant)} & names:
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert found == []
