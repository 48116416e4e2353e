"""The digits study on two processor slots: how much sooner is the target reached than first come,
first served, in measured time; and is every trial's curve the one that it has when run alone?

    python -m benchmarks tune_live

The target is best + 0.01 x (median - best) of the lowest losses of the 27 settings, trained alone
beforehand. A study is stopped at its target. Five random orders of the settings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from math import exp, fsum, log
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import digits, studies
from benchmarks.digits import Curve
from benchmarks.lines import Line
from benchmarks.studies import Studied

ORDERS = 5
RULES = ("fifo", "default")
SHORTEST_EPOCH_S, FACTOR = 0.5, 3.0


def measured(orders: int = ORDERS) -> Iterator[Line]:
    """The digits study, live on two slots: time to target against fifo, and the same bits as alone."""
    with TemporaryDirectory(prefix="dovetail-tune-") as name:
        folder = Path(name)
        commands = [digits.command(chosen) for chosen in digits.settings()]
        yield _epoch(folder)
        began = time.monotonic()
        curves = digits.alone_or_known(commands, folder)
        target = digits.target(curves)
        near = sum(min(curve) <= target for curve in curves)
        print(
            f"     {len(curves)} settings alone in {time.monotonic() - began:.0f} s: best "
            f"{min(map(min, curves)):.6f}, target {target:.6f}, reached by {near} of them"
        )
        scripts = digits.write_scripts(commands, folder)
        runs = {
            (rule, order): _run(rule, order, scripts, target, folder)
            for order in range(orders)
            for rule in RULES
        }
        yield from _judged(runs, curves, target, orders)


def _epoch(folder: Path) -> Line:
    """What the quickest setting takes for an epoch of its own: five epochs less two."""
    quickest = max(digits.settings(), key=lambda chosen: (chosen["batch"], -float(chosen["units"])))
    took = []
    for epochs in ("2", "5"):
        before = time.monotonic()
        digits.alone([digits.command(quickest, "--epochs", epochs)], folder)
        took.append(time.monotonic() - before)
        (folder / "alone-0.jsonl").unlink()
    seconds = (took[1] - took[0]) / 3
    return Line(
        "seconds of an epoch, quickest setting",
        f"{seconds:.2f}",
        f"at least {SHORTEST_EPOCH_S}",
        seconds >= SHORTEST_EPOCH_S,
    )


def _run(rule: str, order: int, scripts: Sequence[str], target: float, folder: Path) -> Studied:
    spec = digits.as_study(rule, scripts, digits.order(order), target=target)
    with studies.daemon(folder / f"{rule}-{order}", slots=2) as client:
        found = studies.study(client, spec, digits.as_we_run())
    seconds, epochs = found.to_target(target)
    print(
        f"     order {order}, {rule}: target after {seconds:.1f} s and {epochs} epochs, "
        f"{found.switches} switches, first trial after {found.startup_s:.2f} s",
        flush=True,
    )
    return found


def _judged(
    runs: Mapping[tuple[str, int], Studied], curves: Sequence[Curve], target: float, orders: int
) -> Iterator[Line]:
    ratios = [
        runs["fifo", order].to_target(target)[0] / runs["default", order].to_target(target)[0]
        for order in range(orders)
    ]
    mean = exp(fsum(map(log, ratios)) / len(ratios))
    told = " ".join(f"{ratio:.1f}" for ratio in ratios)
    yield Line(
        "time to target, fifo / default", f"{mean:.2f} ({told})", "at least 3", mean >= FACTOR
    )
    other = [
        (rule, order, number)
        for (rule, order), run in runs.items()
        for number, curve in run.curves().items()
        if tuple(curve) != curves[digits.order(order)[number]][: len(curve)]
    ]
    compared = sum(len(run.points) for run in runs.values())
    yield Line(
        "epochs that differ from the trial run alone",
        f"{len(other)} trials of {compared} epochs",
        "none, to the last bit",
        not other,
    )
