"""Twenty PyTorch trainings on one real GPU under `frugal`: predicted energy and cost against NVML's own
counter of energy. Its last output is in docs/energy_gpu.md.

    PYTHONPATH=$PWD/src:$PWD python3 -m benchmarks.energy_gpu [--out FILE]

Needs a GPU, PyTorch, and of Dovetail nothing but its sources and what they import. Four trainings are
profiled by the code of `dovetail profile`; twenty jobs of them, of different lengths, share the GPU one
after the other. Then the power limit of the card is lowered, if that is allowed, and speed and watts are
measured by limit. It takes eight minutes, with all limits (`--limits`: only those) twelve. `--dry`
tries it all on a processor slot.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.costing import Planned, Training, costs_in, lived, planned, predicted, profiled
from dovetail.core.model import Node
from dovetail.profiling.calibrating import CalibrationWay, NotCalibrated, Subject, calibrate
from dovetail.worlds.local import machine
from dovetail.worlds.local.gpus.power import Meter

SCRIPT = str(Path(__file__).parent / "energy_training.py")
MODELS = ("wide", "attention", "conv", "light")
PRICE = 0.25  # money per kWh
LATE_COST = "0.5/h"
PROFILE_S, LENGTHS_S, GAP_S = 12.0, (3.0, 9.0), 4.0
LIMIT_PARTS = (1.0, 0.8, 0.65, 0.5)  # of the largest power limit
LIMIT_S = 7.0
MOST_S = 460.0  # no further power limit is tried after that
ENDLESS = 1_000_000  # steps
DRY_WATTS = 50.0


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, help="write the answer there, too")
    options.add_argument("--dry", action="store_true", help="on a processor slot, to try it")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--limits", action="store_true", help="nothing but the power limits")
    chosen = options.parse_args()
    lines = []
    with TemporaryDirectory(prefix="dovetail-energy-gpu-") as name:
        for line in told(Path(name), chosen):
            print(line, flush=True)
            lines.append(line)
            if chosen.out is not None:  # what there is so far, should it be cut short
                chosen.out.write_text("\n".join(lines) + "\n")


def told(folder: Path, chosen: argparse.Namespace) -> Iterator[str]:
    began = time.monotonic()
    (node,) = one_gpu(chosen.dry)
    uuids = [uuid for _, uuid in node.labels]
    yield f"- On {machine_told(node)}."
    yield f"- Idle: {idle_watts(uuids, 1.0 if chosen.dry else 4.0)}."
    warm_up(node, folder)
    if chosen.limits:
        named = [Training(model, (sys.executable, SCRIPT, model)) for model in MODELS]
        yield from by_limit(named, node, folder, began)
        return
    trainings = []
    yield ""
    yield "| training | steps a second | start-up s | ending s | watts at work | watts in start-up |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for model in MODELS:
        training = Training(model, (sys.executable, SCRIPT, model))
        seconds = 3.0 if chosen.dry else PROFILE_S
        trainings.append(profiled(training, [node], folder, seconds, ENDLESS))
        yield profile_row(trainings[-1])
    yield ""
    plan = planned(trainings, LENGTHS_S, GAP_S, node.gpus, LATE_COST, chosen.seed)
    yield from compared(plan, node, uuids, folder, began)
    yield ""
    yield from by_limit(trainings, node, folder, began)
    yield f"- In all {time.monotonic() - began:.0f} s."


def one_gpu(dry: bool) -> list[Node]:
    nodes = machine.machine_nodes(1 if dry else None)
    if dry:
        return nodes
    trouble = machine.gpu_trouble()
    if trouble or not nodes[0].labels:
        raise SystemExit(trouble or "there is no GPU here; try --dry")
    return nodes[:1]


def machine_told(node: Node) -> str:
    with machine.nvml() as library:
        driver = "" if library is None else f", driver {library.nvmlSystemGetDriverVersion()}"
    limit = f", power limit {node.gpu_watts:.0f} W" if node.gpu_watts else ""
    return f"{node.gpus} × {node.kind}{limit}{driver}, Python {platform.python_version()}"


def idle_watts(uuids: Sequence[str], seconds: float) -> str:
    with closing(Meter(uuids)) as meter:
        if not meter.knows:
            return "nothing here tells its power"
        time.sleep(seconds)
        how = "the counter of energy" if meter.counts else "samples of power: there is no counter"
        return f"{meter.joules() / seconds:.0f} W, by {how}"


def warm_up(node: Node, folder: Path) -> None:
    """The first start of all reads gigabytes of libraries from the disk."""
    subject = Subject(
        (sys.executable, SCRIPT, "light", str(ENDLESS)), str(folder), dict(os.environ)
    )
    calibrate(subject, CalibrationWay(node, 1, 1), folder / "warm", 1.0)


def profile_row(training: Training) -> str:
    own = training.table.timings[0]
    watts = ["–" if one is None else f"{one:.0f}" for one in (own.watts, own.startup_watts)]
    cells = (
        training.name,
        f"{own.steps_per_s:.3f}",
        f"{own.startup_s:.2f}",
        f"{own.shutdown_s:.2f}",
    )
    return f"| {' | '.join((*cells, *watts))} |"


# -------------------------------------------------------------------------- predicted and measured


def compared(
    plan: Sequence[Planned], node: Node, uuids: Sequence[str], folder: Path, began: float
) -> Iterator[str]:
    watts = mean_watts(plan)
    costs = costs_in(folder / "costs.toml", [node], PRICE, {node.kind: [watts]})
    foreseen = predicted(plan, [node], costs)
    yield (
        f"- Twenty jobs, {sum(own.steps for own in plan):,} steps; by their profiles they draw "
        f"{watts:.0f} W in the mean. Price {PRICE} a kWh, late {LATE_COST}. "
        f"Ready to run after {time.monotonic() - began:.0f} s."
    )
    with closing(Meter(uuids)) as meter:
        found = lived(plan, folder / "home", folder / "costs.toml", None if uuids else 1)
        joules = meter.joules() if meter.knows else None
    yield ""
    yield "| | predicted | from the live journal | difference |"
    yield "| --- | ---: | ---: | ---: |"
    for name in ("energy_kwh", "energy_cost", "tardiness_cost", "total_cost"):
        yield compared_row(name, foreseen[name], found.figures[name])
    yield ""
    if joules is not None:
        kwh = joules / 3.6e6
        cost = foreseen["total_cost"], kwh * PRICE + found.figures["tardiness_cost"]
        yield "| | predicted | by NVML's counter | difference |"
        yield "| --- | ---: | ---: | ---: |"
        yield compared_row("energy_kwh", foreseen["energy_kwh"], kwh)
        yield compared_row("total_cost", *cost)
        yield ""
    yield from job_lines(plan, found)


def mean_watts(plan: Sequence[Planned]) -> float:
    """Over all the time that the jobs have the GPU."""
    timings = [(own.training.table.timings[0], own.steps) for own in plan]
    joules = sum(
        timing.joules(steps) or DRY_WATTS * timing.seconds(steps) for timing, steps in timings
    )
    return joules / sum(timing.seconds(steps) for timing, steps in timings)


def compared_row(name: str, foreseen: float, found: float) -> str:
    off = f"{found / foreseen - 1:+.1%}" if foreseen else "–"
    return f"| {name} | {foreseen:.6f} | {found:.6f} | {off} |"


def job_lines(plan: Sequence[Planned], found: Any) -> Iterator[str]:
    errors = []
    for own in plan:
        seconds = own.training.table.timings[0].seconds(own.steps)
        errors.append(found.took[own.spec.name][0] / seconds - 1)
    late = sum(lateness > 0 for _, lateness in found.took.values())
    mean = sum(map(abs, errors)) / len(errors)
    yield (
        f"- Time of a job against its profile: {mean:.1%} off in the mean, {min(errors):+.1%} to "
        f"{max(errors):+.1%}; {late} late; all done after {found.seconds:.0f} s."
    )


# ------------------------------------------------------------------------------------ power limits


def by_limit(
    trainings: Sequence[Training], node: Node, folder: Path, began: float
) -> Iterator[str]:
    """Speed and watts of the hungriest and of another training under lower and lower limits."""
    if not node.labels:
        yield "- Power limits: there is no GPU."
        return
    with machine.nvml() as library:
        handle = library.nvmlDeviceGetHandleByUUID(node.labels[0][1])
        try:
            usual = library.nvmlDeviceGetPowerManagementLimit(handle)
            low, high = library.nvmlDeviceGetPowerManagementLimitConstraints(handle)
            yield f"- The power limit may be {low / 1000:.0f} to {high / 1000:.0f} W."
            library.nvmlDeviceSetPowerManagementLimit(handle, max(low, int(high * LIMIT_PARTS[1])))
        except library.NVMLError as error:
            yield f"- The power limit may not be changed here: {error}."
            return
        try:
            yield from limit_rows(trainings, node, folder, began, (library, handle, low, high))
        finally:
            library.nvmlDeviceSetPowerManagementLimit(handle, usual)


def limit_rows(
    trainings: Sequence[Training],
    node: Node,
    folder: Path,
    began: float,
    card: tuple[Any, Any, int, int],
) -> Iterator[str]:
    library, handle, low, high = card
    yield ""
    yield "| training | limit W | steps a second | watts | joules a step | speed | energy |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for training in trainings[:2]:
        full = None
        for part in LIMIT_PARTS:
            if time.monotonic() - began > MOST_S:
                yield "| (no time left) | | | | | | |"
                return
            limit = max(low, int(high * part))
            library.nvmlDeviceSetPowerManagementLimit(handle, limit)
            subject = Subject((*training.command, str(ENDLESS)), str(folder), dict(os.environ))
            try:
                own = calibrate(
                    subject,
                    CalibrationWay(node, 1, 1),
                    folder / f"{training.name}-{limit}",
                    LIMIT_S,
                )
            except NotCalibrated as error:
                yield f"| {training.name} | {limit / 1000:.0f} | {error} | | | | |"
                continue
            own = replace(own, watts=own.watts or 0.0)
            assert own.watts is not None
            joules = own.watts / own.steps_per_s
            full = full or (own.steps_per_s, joules)
            yield (
                f"| {training.name} | {limit / 1000:.0f} | {own.steps_per_s:.3f} | {own.watts:.0f} "
                f"| {joules:.1f} | {own.steps_per_s / full[0]:.1%} | {joules / full[1]:.1%} |"
            )


if __name__ == "__main__":
    main()
