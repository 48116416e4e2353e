"""The digits study as pods on two nodes with two seats each: how much sooner is the target reached than
first come, first served on the same cluster, how often are pods suspended, and is any epoch lost?

    python -m benchmarks tune_kubernetes                  one order of the settings, a quarter of an hour
    python -m benchmarks.tune_kubernetes --orders 0 1 2   more of them

Needs what `make test-kubernetes` needs. Seats stand for GPUs, and what one does must not slow the others
down; but the nodes share the few processors of this machine. So epochs have half as many digits as in
study.yaml, and last longer by a pause (--pause 0: without). With it an epoch takes as long, beside the
start of a pod, as one of `tune_live` beside the start of a process: two starts.

First come, first served is stopped at the target; ours goes on until all trials are done, so that every
epoch of the study is compared, and every suspension counted. Seconds are wall clock and hold for a
machine that is idle otherwise; epochs do not depend on that. Beside it: the epochs of the same
decisions where a suspended trial is deleted and starts over, as Kubernetes' own Jobs do when a queue
suspends them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from math import exp, fsum, log
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.kubernetes import needs
from tools.kubernetes.ready import ReadyCluster, ready_cluster

from benchmarks import digits, tune_live
from benchmarks.lines import Line
from benchmarks.tune_live import FACTOR, FIFO, OURS, Outcome, Place

ORDERS = (0,)
SEATS_PER_NODE, EXAMPLES, PAUSE_S = 2, 24_000, 2.0
SUSPENSIONS = 50


def measured(
    orders: Sequence[int] = ORDERS, examples: int = EXAMPLES, pause_s: float = PAUSE_S
) -> Iterator[Line]:
    """The digits study as pods on two nodes: time to target against fifo, and the same bits as alone."""
    if trouble := needs.trouble():
        print(f"     not measured: {trouble}")
        return
    more = ("--examples", str(examples))
    with TemporaryDirectory(prefix="dovetail-tune-") as name, ready_cluster(_say) as cluster:
        folder = Path(name)
        commands = [digits.command(chosen, *more) for chosen in digits.settings()]
        curves = tune_live.alone(commands, folder)
        longer = [(*words, "--pause", str(pause_s)) for words in commands]
        outcomes = tune_live.compared(_pods(cluster, longer), orders, curves, folder)
    yield from tune_live.judged(outcomes)
    yield from _beside(outcomes)


def _say(text: str) -> None:
    print(f"     {text}", flush=True)


def _pods(cluster: ReadyCluster, commands: Sequence[Sequence[str]]) -> Place:
    """The image has Python under another path, and the examples under the same."""
    lines = [" ".join(("exec", "python3", *words[1:])) for words in commands]
    image = {"image": cluster.image}
    return Place(SEATS_PER_NODE, lines, "exec sh -c {script}", cluster.world, image, is_whole=True)


def _beside(outcomes: Sequence[Outcome]) -> Iterator[Line]:
    ours = [one for one in outcomes if one.rule == OURS]
    suspended = min(one.suspended for one in ours)
    yield Line(
        "times that pods were suspended, in one study",
        str(suspended),
        f"at least {SUSPENSIONS}",
        suspended >= SUSPENSIONS,
    )
    epochs = {(one.rule, one.order): one.epochs for one in outcomes}
    ratios = [epochs[FIFO, one.order] / one.epochs for one in ours]
    mean = exp(fsum(map(log, ratios)) / len(ratios))
    yield Line(
        "epochs to target, fifo / default",
        f"{mean:.2f}",
        f"at least {FACTOR:g}",
        mean >= FACTOR,
    )
    over, made = sum(one.started_over for one in ours), sum(one.compared for one in ours)
    yield Line(
        "epochs had suspended pods started over / ours",
        f"{over / made:.2f} ({over} / {made})",
        "a figure",
        True,
    )


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--orders", type=int, nargs="+", default=ORDERS)
    options.add_argument("--examples", type=int, default=EXAMPLES, help="of an epoch")
    options.add_argument("--pause", type=float, default=PAUSE_S, help="seconds, in each epoch")
    chosen, missed = options.parse_args(), 0
    for line in measured(chosen.orders, chosen.examples, chosen.pause):
        print(line, flush=True)
        missed += not line.holds
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
