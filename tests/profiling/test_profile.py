"""`dovetail profile`, with real processes on two slots; and the table it writes, named by jobs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Option
from dovetail.jobfiles.profile_table import ProfileTable, Timing, read_table, text_of, with_options
from dovetail.profiling.calibrating import CalibrationWay, Subject, calibrate, ways
from typed_here import Type, typing

NODE = Node("here", 2, "cpu")
STEPPING = """
import json, os, sys, time
time.sleep(0.3)
for step in range(1, int(sys.argv[1]) + 1):
    time.sleep(0.2 / int(os.environ["DOVETAIL_GPUS"]) ** 3)
    print(json.dumps({"step": step, "loss": 1 / step}), flush=True)
"""
REPORTING = """
import time
from dovetail import sdk
for step in range(1, 1000):
    time.sleep(0.05)
    sdk.report(step, loss=1.0)
"""
TALKING = """
import time
for epoch in range(1000):
    time.sleep(0.05)
    print(f"epoch {epoch}: loss 0.5", flush=True)
"""
PYTHON = (sys.executable, "-c")


@pytest.fixture
def type_(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    return typing(monkeypatch, capsys)


def subject(tmp_path: Path, *command: str, pattern: str = "") -> Subject:
    return Subject((*PYTHON, *command), str(tmp_path), {"PATH": "/usr/bin:/bin"}, pattern)


def test_the_machine_is_filled_with_copies() -> None:
    found = ways(Node("box", 8, "H100"))
    assert [(way.gpus, way.copies) for way in found] == [(1, 8), (2, 4), (4, 2), (8, 1)]
    assert [way.copies for way in ways(NODE, alone=True)] == [1, 1]
    assert [way.gpus for way in ways(Node("box", 6, "H100"), [3, 7])] == [3]


def test_every_copy_has_gpus_of_its_own() -> None:
    labels = tuple((f"gpu{i}", f"GPU-{i}") for i in range(4))
    way = CalibrationWay(Node("box", 4, "H100", labels=labels), 2, 2)
    assert [way.uuids(number) for number in range(2)] == [("GPU-0", "GPU-1"), ("GPU-2", "GPU-3")]


def test_speed_and_start_up_are_measured_by_way(tmp_path: Path) -> None:
    one, two = (
        calibrate(subject(tmp_path, STEPPING, "1000"), way, tmp_path, seconds=1.5)
        for way in ways(NODE)
    )
    assert (one.kind, one.gpus, two.gpus) == ("cpu", 1, 2)
    # A busy machine makes steps longer, and tells several of them at once: eight times is clear.
    assert 0 < one.steps_per_s < two.steps_per_s < 100
    assert one.startup_s > 0.3
    assert one.watts is None


def test_a_job_that_ends_by_itself_is_enough_if_it_told_enough(tmp_path: Path) -> None:
    found = calibrate(
        subject(tmp_path, STEPPING, "9"), CalibrationWay(NODE, 1, 1), tmp_path, seconds=60
    )
    assert 0 < found.steps_per_s < 20
    assert found.seconds(100) == pytest.approx(
        found.startup_s + 100 / found.steps_per_s + found.shutdown_s
    )


def test_the_sdk_and_a_pattern_are_heard(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    by_sdk = Subject((*PYTHON, REPORTING), str(tmp_path), environment)
    pattern = r"epoch (?P<step>\d+): loss (?P<loss>\S+)"
    by_pattern = subject(tmp_path, TALKING, pattern=pattern)
    for number, own in enumerate((by_sdk, by_pattern)):
        found = calibrate(own, CalibrationWay(NODE, 1, 1), tmp_path / str(number), seconds=1.0)
        assert 0 < found.steps_per_s < 100


@pytest.mark.parametrize(
    ("script", "patience_s", "told"),
    [
        ("import time; time.sleep(600)", 1, "reported nothing in 1 s; let it call sdk.report"),
        ("print('hello')", 100, "reported nothing before it ended"),
        ("raise SystemExit('no such data')", 100, "the command failed: exit code 1 (no such data)"),
        ('print(\'{"step": 1, "loss": 2}\')', 100, "ended after 1 report, too early"),
    ],
)
def test_a_job_that_shows_no_speed_is_told_why(
    type_: Type, tmp_path: Path, script: str, patience_s: float, told: str
) -> None:
    out = tmp_path / "x.yaml"
    words = ["--slots", 1, "--patience", patience_s, "--out", out]
    said = type_("profile", *words, "--", *PYTHON, script)
    assert said.code == 1
    assert told in said.err
    assert said.err.count("\n") == 1
    assert not out.exists()


def test_the_command_writes_a_table_that_a_job_can_name(type_: Type, tmp_path: Path) -> None:
    out = tmp_path / "train.profile.yaml"
    words = ["--slots", 1, "--seconds", 0.5, "--steps", 100, "--out", out]
    said = type_("profile", *words, "--", *PYTHON, STEPPING, "1000")
    assert said.code == 0, said.err
    assert f"profile: {out}" in said.out
    assert "1 slot: " in said.err
    table = read_table(str(out))
    (option,) = table.options()
    spec = with_options({"run": "x", "profile": str(out)})
    assert spec == {"run": "x", "options": {"cpu": {1: option.seconds}}}


def test_bad_usage_is_told(type_: Type, tmp_path: Path) -> None:
    assert "give numbers, such as 1,2,4" in type_("profile", "--gpus", "x", "--", "true").err
    said = type_("profile", "--slots", 2, "--gpus", "4", "--out", tmp_path / "x", "--", "true")
    assert "this machine has 2 at most" in said.err
    assert "is not a regular expression" in type_("profile", "--pattern", "(", "--", "true").err
    assert type_("profile").code == 2


TABLE = ProfileTable(
    (Timing("H100", 1, 3.0, 10.0, 0.5, 600.0, 80.0), Timing("H100", 2, 5.5)), 300.0
)


def test_a_table_reads_back_as_written(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text_of(TABLE))
    assert read_table(str(path)) == TABLE
    assert TABLE.options() == [Option("H100", 1, 110.5), Option("H100", 2, 300 / 5.5)]
    assert TABLE.options(3)[0].seconds == 11.5


def test_energy_is_that_of_start_up_and_of_work() -> None:
    assert TABLE.timings[0].joules(300) == pytest.approx(80 * 10.5 + 600 * 100)
    assert TABLE.timings[1].joules(300) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("steps: 3", "there is nothing under measured"),
        ("measured: [{kind: x}]", "row 1: kind, gpus and steps_per_s are needed"),
        (
            "measured: [{kind: x, gpus: 1, steps_per_s: fast}]",
            "steps_per_s: 'fast' is not a number",
        ),
        ("measured: [{kind: x, gpus: 0, steps_per_s: 1}]", "give at least 1 GPU"),
        ("measured: [{kind: x, gpus: 1, steps_per_s: 1}]", "how many steps the whole job has"),
    ],
)
def test_a_profile_that_cannot_be_used_is_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(BadInput) as error:
        with_options({"profile": {"file": str(path)}})
    assert told in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        (["x"], "name the file"),
        ({"file": "x", "step": 3}, "profile.step: there is no such field"),
        ("/nowhere/x.yaml", "/nowhere/x.yaml"),
    ],
)
def test_a_job_that_names_no_profile_is_told(profile: object, told: str) -> None:
    with pytest.raises(BadInput) as error:
        with_options({"profile": profile})
    assert told in str(error.value)


def test_json_has_the_figures(type_: Type, tmp_path: Path) -> None:
    words = ["--slots", 1, "--seconds", 0.5, "--json", "--out", tmp_path / "x.yaml"]
    said = type_("profile", *words, "--", *PYTHON, STEPPING, "1000")
    (row,) = json.loads(said.out)["measured"]
    assert row["kind"] == "cpu"
    assert row["steps_per_s"] > 0


def test_a_folder_to_write_to_is_refused_before_anything_is_measured(
    type_: Type, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    said = type_("profile", "--slots", 1, "--out", tmp_path, "--", "touch", mark)
    assert (said.code, said.out) == (1, "")
    assert said.err == f"dovetail: cannot write {tmp_path}: it is a folder; name a file\n"
    assert not mark.exists()
