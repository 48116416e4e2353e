"""The same decisions live and simulated, for a job that grows and shrinks while others come and go.

The long form, with PyTorch, is `python -m benchmarks elastic_live`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.elastic_live import SIZES, completions, cost_of_resize, decided, played, simulated

# Three parts of a step are shared out over the slots, and one is not; what is done is in its checkpoint.
COUNTS = """
import os, sys, time
from dovetail import sdk
done = sdk.checkpoint_dir() / "done"
step = int(done.read_text()) if done.exists() else 0
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01 + 0.03 / int(os.environ["DOVETAIL_GPUS"]))
    sdk.report(step)
    step += 1
    sdk.stop_if_asked(lambda: done.write_text(str(step)))
"""


@pytest.mark.parametrize("policy", ["flex"])
def test_a_job_grows_and_shrinks_and_the_simulator_says_the_same(
    tmp_path: Path, policy: str
) -> None:
    (tmp_path / "counts.py").write_text(COUNTS)
    enough = tmp_path / "enough"
    argv = [sys.executable, str(tmp_path / "counts.py"), str(enough)]
    real = played(argv, measured_s=0.5, policy=policy, enough=enough)
    sizes = [gpus for job_id, gpus in real.decisions if job_id == real.elastic]
    assert sizes == SIZES
    again = simulated(real, policy)
    # On a busy machine the end may come later, simulated, than that of the last job beside it.
    assert decided([entry for _, entry in again])[: len(real.decisions)] == real.decisions
    save_s, restore_s = cost_of_resize(real)
    assert save_s > 0 < restore_s
    # How close the times are is a matter of a quiet machine: that all of them end is not.
    assert completions(again).keys() == completions(real.entries).keys()
