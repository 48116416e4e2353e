"""The training scripts among the examples, and the code on the page about the SDK, do as they say."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[2]
NUMPY = str(HERE / "examples" / "train_numpy.py")
PAGE = (HERE / "docs" / "howto" / "report-from-a-training-script.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_numpy_example_learns_outside_dovetail(tmp_path: Path) -> None:
    words = [sys.executable, NUMPY, "--steps", "1000"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    right = re.search(r"(\d+)% of the points", done.stdout)
    assert right is not None
    assert int(right[1]) >= 80


def test_the_numpy_example_interrupted_at_any_moment_has_the_same_loss_curve(desk: Any) -> None:
    alone = type(desk)(desk.folder / "alone")
    alone.folder.mkdir()
    alone.run(NUMPY, "--steps", "3000")
    desk.stop.touch()
    for _ in range(3):
        desk.run(NUMPY, "--steps", "3000", code=85)  # asked from the beginning: one step each
    desk.stop.unlink()
    for wanted in (300, 600, 900):
        if ended_by_sigterm_after(wanted, desk) == 0:
            break  # on a busy machine it may be done before the signal comes
    else:
        desk.run(NUMPY, "--steps", "3000")
    assert len(alone.reported()) == 3000
    assert desk.reported() == alone.reported()


def ended_by_sigterm_after(lines: int, desk: Any) -> int:
    job = desk.start(NUMPY, "--steps", "3000")
    while desk.reports.read_bytes().count(b"\n") < lines and job.poll() is None:
        time.sleep(0.002)
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=120)
    assert job.returncode in (0, 85)
    return int(job.returncode)


def test_the_python_of_the_page_is_python() -> None:
    assert len(blocks("python")) >= 5
    for block in blocks("python"):
        compile(block, "page", "exec")


def test_the_first_script_of_the_page_resumes(desk: Any) -> None:
    script = desk.folder / "script.py"
    script.write_text(blocks("python")[0])
    desk.stop.touch()
    desk.run(str(script), code=85)
    desk.stop.unlink()
    desk.run(str(script))
    assert [line["step"] for line in desk.reported()] == list(range(100))


def test_the_shell_lines_of_the_page_report_and_stop(desk: Any) -> None:
    shell = shutil.which("bash") or pytest.skip("no bash here")
    script = blocks("bash")[0]
    desk.stop.touch()
    subprocess.run([shell, "-c", script], env=desk.environment, cwd=desk.folder, check=False)
    assert desk.reported() == [{"step": 1, "loss": 0.5}]


def test_the_c_of_the_page_reports(desk: Any) -> None:
    compiler = shutil.which("c++") or shutil.which("cc") or pytest.skip("no C compiler here")
    main = "int main() { report(12, 0.5); report(13, 0.25); }\n"
    (desk.folder / "main.cpp").write_text(blocks("cpp")[0] + main)
    subprocess.run([compiler, "main.cpp", "-o", "main"], cwd=desk.folder, check=True)
    subprocess.run([desk.folder / "main"], env=desk.environment, check=True)
    assert desk.reported() == [{"step": 12, "loss": 0.5}, {"step": 13, "loss": 0.25}]
