"""What a job learns on a number of slots that changes, beside what it learns on a fixed number; and how
fast it is by `dovetail profile`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.lines import Line
from dovetail.core.paces import Pace
from dovetail.jobfiles.profile_table import read_table

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "elastic_ddp" / "train.py"
_ROUNDING = 16.0  # times the difference between two fixed numbers is as good as none
_LEFT = 85

Curve = Mapping[float, float]  # losses by step


def learned(sizes: Sequence[int], *words: str, stop_after: int = 20) -> Curve:
    """Outside a daemon: so many steps on each number of slots, the rest on the last."""
    with tempfile.TemporaryDirectory(prefix="dovetail-losses-") as folder:
        for i, size in enumerate(sizes):
            is_last = i == len(sizes) - 1
            code = _run(Path(folder), size, words, None if is_last else (i + 1) * stop_after)
            assert code == (0 if is_last else _LEFT), code
        rows = [json.loads(line) for line in (Path(folder) / "reports").read_text().splitlines()]
    return {row["step"]: row["loss"] for row in rows if "step" in row}


def _run(folder: Path, size: int, words: Sequence[str], until: int | None) -> int:
    reports, stop = folder / "reports", folder / f"stop-{until}"
    env = {
        **os.environ,
        "DOVETAIL_GPUS": str(size),
        "DOVETAIL_REPORT": str(reports),
        "DOVETAIL_STOP": str(stop),
        "DOVETAIL_CHECKPOINT_DIR": str(folder / "checkpoints"),
    }
    process = subprocess.Popen([sys.executable, str(EXAMPLE), *words], env=env)
    while until is not None and process.poll() is None:
        if reports.exists() and reports.read_text().count('"step"') >= until:
            stop.touch()
            break
        time.sleep(0.02)
    return process.wait(300)


def apart(one: Curve, other: Curve) -> float:
    """The largest difference of two curves, in proportion."""
    assert one.keys() == other.keys(), "the same steps are told"
    return max(abs(one[step] - other[step]) / abs(other[step]) for step in one)


def curve_lines(live: Curve, epochs: int, samples: int, batch: int) -> Iterator[Line]:
    """Reduction order alone: fixed numbers of slots differ as much, and in 64 bits next to nothing is
    left of it."""
    words = ["--epochs", str(epochs), "--samples", str(samples), "--batch", str(batch)]
    words += ["--sample-s", "0"]
    one, four = learned([1], *words), learned([4], *words)
    usual, found = apart(four, one), apart(live, one)
    yield Line(
        "loss apart from that on one slot, on four, live", f"{usual:.1e}, {found:.1e}",
        f"at most {_ROUNDING:g} times", found <= _ROUNDING * usual,
    )  # fmt: skip
    double = [*words, "--double"]
    exact = apart(learned([1, 4, 2, 3], *double, stop_after=epochs), learned([1], *double))
    yield Line("the same in 64 bits, 1, 4, 2, 3 slots", f"{exact:.1e}", "under 1e-9", exact < 1e-9)


def within_5_percent_of_profile(words: Sequence[str], paces: Sequence[Pace]) -> Iterator[Line]:
    """What the daemon has measured, beside what `dovetail profile` measures."""
    with tempfile.TemporaryDirectory(prefix="dovetail-profile-") as folder:
        out = f"{folder}/table.yaml"
        command = [str(Path(sys.executable).parent / "dovetail"), "profile", "--slots", "4"]
        command += ["--gpus", "1,2,4", "--alone", "--seconds", "10", "--out", out, "--"]
        subprocess.run([*command, sys.executable, *words], check=True, capture_output=True)
        table = {timing.gpus: timing.steps_per_s for timing in read_table(out).timings}
    for pace in sorted(paces, key=lambda own: own.gpus):
        if pace.gpus in table:
            off = pace.steps_per_s / table[pace.gpus] - 1
            yield Line(
                f"steps a second on {pace.gpus}, live and by profile",
                f"{pace.steps_per_s:.2f}, {table[pace.gpus]:.2f}", "within 5 %", abs(off) <= 0.05,
            )  # fmt: skip
