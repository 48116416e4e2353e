"""The digits study on two processor slots: how much sooner is the target reached than first come,
first served, in measured time; and is every trial's curve the one that it has when run alone?

    python -m benchmarks tune_live                                     all of it, some 20 minutes
    python -m benchmarks.tune_live --orders 0 1 2 --keep FILE          a part of it; what is kept
    python -m benchmarks.tune_live --orders 3 4 --keep FILE            there counts the next time

The target is best + 0.01 x (median - best) of the lowest losses of the 27 settings, trained alone
beforehand (and kept in .benchmarks). A study is stopped at its target. Five random orders.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, fsum, log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import digits, studies
from benchmarks.digits import Curve
from benchmarks.lines import Line

ORDERS = tuple(range(5))
FIFO, OURS = "fifo", "default"
SHORTEST_EPOCH_S, FACTOR = 0.5, 3.0
LIMIT_S = 1800.0  # of one study


@dataclass(frozen=True)
class Place:
    """Where the trials of a study run, and how each is begun there: its setting says `script`."""

    slots: int
    scripts: Sequence[str]  # by setting
    run: str = digits.RUN_SCRIPT
    world: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)  # of the study's description
    is_whole: bool = False  # ours goes on after its target, until all trials are done


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one study. Seconds are from its submission on."""

    rule: str
    order: int
    seconds: float  # to the target
    epochs: int  # of all trials together
    startup_s: float
    switches: int
    compared: int  # epochs
    different: int  # trials whose curve is not the one that they have alone
    started_over: int = 0  # epochs, had every interrupted trial begun anew each time
    suspended: int = 0  # times that a trial was, with its processes

    def __str__(self) -> str:
        return (
            f"order {self.order}, {self.rule}: target after {self.seconds:.1f} s and {self.epochs} "
            f"epochs; in all {self.compared} epochs, {self.switches} turns, "
            f"{self.suspended} suspensions; first trial after {self.startup_s:.2f} s"
        )


def measured(orders: Sequence[int] = ORDERS, keep: Path | None = None) -> Iterator[Line]:
    """The digits study, live on two slots: time to target against fifo, and the same bits as alone."""
    outcomes = _kept(keep)
    with TemporaryDirectory(prefix="dovetail-tune-") as name:
        folder = Path(name)
        yield _epoch(folder)
        commands = [digits.command(chosen) for chosen in digits.settings()]
        curves = alone(commands, folder)
        place = Place(2, digits.write_scripts(commands, folder))
        outcomes += compared(place, orders, curves, folder, keep, outcomes)
    if outcomes:
        yield from judged(outcomes)


def compared(
    place: Place,
    orders: Sequence[int],
    curves: Sequence[Curve],
    folder: Path,
    keep: Path | None = None,
    before: Sequence[Outcome] = (),
) -> list[Outcome]:
    """Each order of the settings under both rules."""
    outcomes: list[Outcome] = []
    for order in orders:
        for rule in (FIFO, OURS):
            outcomes.append(_run(rule, order, place, curves, folder))
            print(f"     {outcomes[-1]}", flush=True)
            if keep is not None:
                keep.write_text(json.dumps([asdict(one) for one in (*before, *outcomes)]))
    return outcomes


def _kept(keep: Path | None) -> list[Outcome]:
    if keep is None or not keep.exists():
        return []
    return [Outcome(**one) for one in json.loads(keep.read_text())]


def _epoch(folder: Path) -> Line:
    """What the quickest setting takes for an epoch, its start left out: five epochs less two."""
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


def alone(commands: Sequence[Sequence[str]], folder: Path) -> list[Curve]:
    began = time.monotonic()
    curves = digits.alone_or_known(commands, folder)
    target = digits.target(curves)
    near = sum(min(curve) <= target for curve in curves)
    print(
        f"     {len(curves)} settings alone in {time.monotonic() - began:.0f} s: best "
        f"{min(map(min, curves)):.6f}, target {target:.6f}, reached by {near} of them",
        flush=True,
    )
    return curves


def _run(rule: str, order: int, place: Place, curves: Sequence[Curve], folder: Path) -> Outcome:
    target, numbers = digits.target(curves), digits.order(order)
    fields = {"run": place.run, **place.more}
    if place.is_whole and rule == OURS:
        fields["stop_at_target"] = False
    spec = digits.as_study(rule, place.scripts, numbers, target=target, **fields)
    home = folder / f"{rule}-{order}"
    with studies.daemon(home, place.slots, place.world) as client:
        found = studies.study(client, spec, digits.as_we_run(), LIMIT_S)
    seconds, epochs = found.to_target(target)
    different = [
        number
        for number, curve in found.curves().items()
        if tuple(curve) != curves[numbers[number]][: len(curve)]
    ]
    return Outcome(
        rule, order, seconds, epochs, found.startup_s, found.switches, len(found.points),
        len(different), found.started_over(), studies.suspensions(home),
    )  # fmt: skip


def judged(outcomes: Sequence[Outcome]) -> Iterator[Line]:
    took = {(one.rule, one.order): one.seconds for one in outcomes}
    orders = sorted({one.order for one in outcomes})
    ratios = [took[FIFO, order] / took[OURS, order] for order in orders]
    mean = exp(fsum(map(log, ratios)) / len(ratios))
    told = " ".join(f"{ratio:.1f}" for ratio in ratios)
    yield Line(
        f"time to target, fifo / default, {len(ratios)} orders",
        f"{mean:.2f} ({told})",
        f"at least {FACTOR:g}",
        mean >= FACTOR,
    )
    different = sum(one.different for one in outcomes)
    yield Line(
        "trials that differ from themselves run alone",
        f"{different} ({sum(one.compared for one in outcomes)} epochs)",
        "none, to the last bit",
        different == 0,
    )


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--orders", type=int, nargs="*", default=ORDERS, help="none: only alone")
    options.add_argument("--keep", type=Path, help="a file for what was measured")
    chosen = options.parse_args()
    missed = 0
    for line in measured(chosen.orders, chosen.keep):
        print(line, flush=True)
        missed += not line.holds
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
