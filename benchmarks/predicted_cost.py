"""Twenty real trainings on two processor slots under `frugal`: predicted against measured cost.

    python -m benchmarks predicted_cost
    python -m benchmarks.predicted_cost --runs 1

Three trainings are profiled by the code of `dovetail profile`, on one slot with the other one as busy,
and on both. Twenty jobs of them come in the course of a minute, with deadlines, so that both slots are
busy most of the time, as they were for the profile; what the machine draws is a table by busy slots.
Each of five runs has other jobs at other times.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.costing import Training, costs_in, lived, planned, predicted, profiled
from benchmarks.lines import Line
from dovetail.worlds.local.machine import machine_nodes

SCRIPT = str(Path(__file__).parent / "cost_training.py")
MODELS = ("narrow", "middle", "wide")
RUNS = 5
SLOTS, WATTS, PRICE = 2, (60.0, 90.0), 0.25
LATE_COST = "0.05/h"  # twice what the machine costs with both slots busy
PROFILE_S, LENGTHS_S, GAP_S = 8.0, (3.0, 10.0), 2.5
MEDIAN, WORST = 0.05, 0.13
ENDLESS = 1_000_000  # steps


def measured(runs: int = RUNS) -> Iterator[Line]:
    """Twenty real jobs live under frugal: predicted against measured total cost."""
    (node,) = machine_nodes(SLOTS)
    errors = []
    with TemporaryDirectory(prefix="dovetail-cost-") as name:
        folder = Path(name)
        costs = costs_in(folder / "costs.toml", [node], PRICE, {node.kind: WATTS})
        trainings = []
        for model in MODELS:
            training = Training(model, (sys.executable, SCRIPT, model))
            trainings.append(profiled(training, [node], folder, PROFILE_S, ENDLESS))
            told = ", ".join(
                f"{own.gpus} slots {own.steps_per_s:.2f} steps/s after {own.startup_s:.2f} s"
                for own in trainings[-1].table.timings
            )
            print(f"     {model}: {told}", flush=True)
        for run in range(runs):
            plan = planned(trainings, LENGTHS_S, GAP_S, SLOTS, LATE_COST, seed=run)
            foreseen = predicted(plan, [node], costs)
            found = lived(plan, folder / f"home-{run}", folder / "costs.toml", SLOTS)
            cost = found.figures["total_cost"]
            errors.append(abs(cost / foreseen["total_cost"] - 1))
            print(
                f"     run {run}: predicted {foreseen['total_cost']:.3e} (late "
                f"{foreseen['tardiness_cost']:.1e}), measured {cost:.3e} (late "
                f"{found.figures['tardiness_cost']:.1e}) in {found.seconds:.0f} s: "
                f"{cost / foreseen['total_cost'] - 1:+.1%}",
                flush=True,
            )
    yield Line(
        f"predicted against measured cost, median of {runs}",
        f"{median(errors):.1%}",
        f"under {MEDIAN:.0%}",
        median(errors) < MEDIAN,
    )
    yield Line("and the worst", f"{max(errors):.1%}", f"under {WORST:.0%}", max(errors) < WORST)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=RUNS)
    missed = 0
    for line in measured(options.parse_args().runs):
        print(line, flush=True)
        missed += not line.holds
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
