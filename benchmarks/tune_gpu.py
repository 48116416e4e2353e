"""The digits study with PyTorch on one real GPU, four trials at a time, each on a quarter of it; who
has to wait is suspended by the NVIDIA driver. Its last output is in docs/tune_gpu.md.

    PYTHONPATH=$PWD/src:$PWD python -m benchmarks.tune_gpu [--out FILE]

Needs a GPU, PyTorch, and of Dovetail nothing but its sources and what they import. First as many
examples an epoch are chosen that an epoch takes about a second with four trials at work; then
all 27 settings are trained alone (eight at a time: a process more on the GPU changes no bits), then
the study is run first come, first served, and by the rule `default`, both stopped at the target:
best + 0.01 x (median - best) of the lowest losses. It takes seven to nine minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import digits, studies
from benchmarks.digits import Curve
from benchmarks.studies import Studied
from dovetail.tune.space import Settings

SCRIPT = str(digits.FOLDER / "train_torch.py")
TRIALS_AT_ONCE, SHARE = 4, 0.25
ALONE_AT_ONCE = 8
EPOCH_S = 1.0  # about what a suspension takes
FIRST_GUESS = 20_000  # examples
ORDERS = (0, 1)
MOST_S = 420.0  # no further order is begun in the second half of that


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, help="write the answer there, too")
    options.add_argument("--examples", type=int, help="an epoch; measured if nothing is said")
    options.add_argument("--slots", type=int, help="processor slots instead of a GPU, to try it")
    options.add_argument("--trials", type=int, default=27)
    chosen = options.parse_args()
    lines = []
    with TemporaryDirectory(prefix="dovetail-tune-gpu-") as name:
        for line in told(Path(name), chosen):
            print(line, flush=True)
            lines.append(line)
    if chosen.out is not None:
        chosen.out.write_text("\n".join(lines) + "\n")


def told(folder: Path, chosen: argparse.Namespace) -> Iterator[str]:
    began = time.monotonic()
    yield f"- On {machine()}."
    settings = digits.settings()[: chosen.trials]
    examples = chosen.examples or fitting_examples(settings, folder)
    commands = [digits.command(own, "--examples", str(examples), script=SCRIPT) for own in settings]
    curves = digits.alone(commands, folder, ALONE_AT_ONCE)
    target = digits.target(curves)
    near = sum(min(curve) <= target for curve in curves)
    yield (
        f"- {len(curves)} settings alone, {examples:,} digits an epoch: "
        f"{time.monotonic() - began:.0f} s with the choice of that number; best loss "
        f"{min(map(min, curves)):.6f}, target {target:.6f}, reached by {near}."
    )
    yield ""
    yield (
        "| order | rule | s to target | epochs to target | switches | suspended, s each "
        "| resumed, s each | trials | same bits as alone |"
    )
    yield "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    scripts = digits.write_scripts(commands, folder)
    ratios: list[float] = []
    for order in ORDERS:
        if time.monotonic() - began > MOST_S / 2 and ratios:
            break
        seconds = {}
        for rule in ("fifo", "default"):
            numbers = digits.order(order, len(settings))
            found, switching = run(rule, numbers, scripts, target, folder, chosen.slots)
            seconds[rule], epochs = found.to_target(target)
            yield row(order, rule, found, epochs, seconds[rule], switching, numbers, curves)
        ratios.append(seconds["fifo"] / seconds["default"])
    yield ""
    yield f"- fifo / default: {', '.join(f'{ratio:.2f}' for ratio in ratios)} times."
    yield f"- In all {time.monotonic() - began:.0f} s."


def row(
    order: int,
    rule: str,
    found: Studied,
    epochs: int,
    seconds: float,
    switching: tuple[list[float], list[float]],
    numbers: Sequence[int],
    curves: Sequence[Curve],
) -> str:
    other = [
        number
        for number, curve in found.curves().items()
        if tuple(curve) != curves[numbers[number]][: len(curve)]
    ]
    same = f"yes, {len(found.points)} epochs" if not other else f"NO: trials {other}"
    away, back = (f"{len(all_s)}, {fmean(all_s):.2f}" if all_s else "0" for all_s in switching)
    cells = (
        order, rule, f"{seconds:.1f}", epochs, found.switches, away, back,
        len(found.curves()), same,
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def run(
    rule: str,
    numbers: Sequence[int],
    scripts: Sequence[str],
    target: float,
    folder: Path,
    slots: int | None,
) -> tuple[Studied, tuple[list[float], list[float]]]:
    """The study, and the seconds of each giving way and of each coming back."""
    share: dict[str, Any] = {} if slots else {"resources": {"share": SHARE}}
    spec = digits.as_study(rule, scripts, numbers, target=target, **share)
    home = folder / f"{rule}-{len(list(folder.glob(f'{rule}-*')))}"
    with studies.daemon(home, slots) as client:
        found = studies.study(client, spec, digits.as_we_run())
        return found, studies.switching_s(home)


def fitting_examples(settings: Sequence[Settings], folder: Path) -> int:
    """So many that an epoch takes a second in the mean, with four trials at work."""
    some = [digits.command(own, "--examples", str(FIRST_GUESS), script=SCRIPT) for own in settings]
    digits.alone([[*some[0], "--epochs", "1"]], folder, 1)  # the first start of all is slow
    (folder / "alone-0.jsonl").unlink()
    times = []
    for epochs in ("1", "4"):
        began = time.monotonic()
        digits.alone([[*words, "--epochs", epochs] for words in some[:8]], folder, TRIALS_AT_ONCE)
        times.append(time.monotonic() - began)
        for path in folder.glob("alone-*.jsonl"):
            path.unlink()
    epoch_s = max((times[1] - times[0]) / (3 * 8 / TRIALS_AT_ONCE), 0.01)
    return max(int(FIRST_GUESS * EPOCH_S / epoch_s) // 1000, 1) * 1000


def machine() -> str:
    try:
        import torch
    except ModuleNotFoundError:
        sys.exit("PyTorch is needed: this benchmark trains with it")
    if not torch.cuda.is_available():
        return f"processors alone, PyTorch {torch.__version__}"
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return f"{torch.cuda.get_device_name()}, driver {' '.join(driver[:1])}, PyTorch {torch.__version__}"


if __name__ == "__main__":
    main()
