"""One policy that fails costs the others nothing, and is told with its reason."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from dovetail.experiments.parallel import WorkPace
from waiting import until

# A policy of somebody else, found by its entry point's name in the catalogue: as a module here.
BROKEN = """
import os, sys, time
from dovetail.policies import registry, queueing

class Breaks(queueing.Fifo):
    def decide(self, view):
        if view.now > 50:
            raise RuntimeError("out of ideas")
        return super().decide(view)

class Dies(queueing.Fifo):
    def decide(self, view):
        os._exit(7)

class Dawdles(queueing.Fifo):
    def decide(self, view):
        time.sleep(0.2)
        return queueing.Fifo(place=self.place).decide(view)

for kind in (Breaks, Dies, Dawdles):
    registry.BUILTIN[kind.__name__.lower()] = (__name__, kind.__name__)
from dovetail.cli.main import main
sys.modules["broken"] = sys.modules["__main__"]
if __name__ == "__main__":
    main()
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "broken.py").write_text(textwrap.dedent(BROKEN))
    rows = "".join(f"{10 * i},30,1\n" for i in range(40))
    (tmp_path / "jobs.csv").write_text("submit_s,duration_s,gpus\n" + rows)
    return tmp_path


def command(here: Path, *words: str) -> list[str]:
    return [sys.executable, str(here / "broken.py"), "compare", str(here / "jobs.csv"), *words]


def compared(here: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(here, "--cluster", "1x2", *words), capture_output=True, text=True, check=False
    )


def test_the_others_are_told_and_written_and_the_exit_code_says_so(here: Path) -> None:
    out = here / "out"
    done = compared(here, "--policies", "fifo,breaks,dies,srtf", "--out", str(out))
    assert done.returncode == 1, done.stderr
    assert (
        "breaks  failed: policy 'breaks' failed at t=60: RuntimeError: out of ideas" in done.stdout
    )
    page = (out / "report.html").read_text()
    assert "breaks failed: policy &#x27;breaks&#x27; failed at t=60: RuntimeError" in page
    assert "dies failed: " in page
    assert "dies  failed: the process that ran 'dies' died (exit code 7)" in done.stdout
    assert {line.split()[0] for line in done.stdout.splitlines() if " min " in line} >= {
        "fifo",
        "srtf",
    }
    rows = json.loads((out / "summary.json").read_text())
    assert [row["policy"] for row in rows] == ["fifo", "srtf", "breaks", "dies"]
    assert [bool(row.get("failure")) for row in rows] == [False, False, True, True]
    assert (out / "report.html").exists()
    assert (out / "fifo" / "journal.jsonl.gz").exists()
    assert not list((out / "breaks").iterdir())
    assert "Traceback" not in done.stderr


def test_in_json_too(here: Path) -> None:
    done = compared(here, "--policies", "breaks,fifo", "--json")
    assert done.returncode == 1
    assert [row["policy"] for row in json.loads(done.stdout)] == ["fifo", "breaks"]


def test_if_none_is_left_the_error_is_one_line(here: Path) -> None:
    done = compared(here, "--policies", "breaks,dies")
    assert done.returncode == 1
    assert "failed" in done.stderr or "died" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_a_comparison_that_is_stopped_keeps_what_is_done(here: Path, told: signal.Signals) -> None:
    out = here / "out"
    running = subprocess.Popen(
        command(here, "--cluster", "1x2", "--policies", "fifo,dawdles", "--out", str(out)),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        until((out / "fifo" / "journal.jsonl.gz").exists)
        until((out / "dawdles" / "journal.jsonl.gz.part").exists)
        time.sleep(2.0)  # what it found is on its way
        os.kill(running.pid, told)
        text, _ = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 128 + told
    assert "dawdles  failed: stopped before its end" in text
    assert [row["policy"] for row in json.loads((out / "summary.json").read_text())] == [
        "fifo", "dawdles",
    ]  # fmt: skip
    assert not list((out / "dawdles").iterdir())


# ------------------------------------------------------------------------------- what is left of it


def test_what_is_left_follows_what_each_has_shown_and_not_how_many_are_done() -> None:
    clock = [0.0]
    pace = WorkPace([100, 100, 100], at_once=2, clock=lambda: clock[0])
    assert pace.left_s() is None
    pace.begin(0)
    pace.begin(1)
    clock[0] = 1.0
    pace.end(0)  # the quick one
    pace.begin(2)
    pace.tell(1, 1)  # the slow one: a hundredth of it in a second
    assert pace.left_s() == pytest.approx(99.0)
    assert pace.part() == pytest.approx(0.01)
    clock[0] = 51.0
    pace.tell(1, 51)
    pace.tell(2, 10)  # slower still
    assert pace.left_s() == pytest.approx(450.0)


def test_those_that_wait_are_expected_to_take_what_the_others_do() -> None:
    clock = [0.0]
    pace = WorkPace([10] * 5, at_once=1, clock=lambda: clock[0])
    pace.begin(0)
    clock[0] = 8.0
    pace.end(0)
    assert pace.left_s() == pytest.approx(32.0)
