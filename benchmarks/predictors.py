"""What predictors are worth on the Philly months, rolled through week by week."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import process_time

from benchmarks.lines import Line
from dovetail import traces
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.predict.learner import BOOSTED, HISTORY_MEAN, MIXTURE, RECENT_MEAN
from dovetail.predict.rolling import Gain, Rolling, Week, evaluate, kept
from dovetail.traces.clusters.cluster_text import read_cluster

MONTHS = Path(__file__).parent.parent.parent / "shared/data/philly"
CLUSTER = "64x8"
PARTS = (RECENT_MEAN, BOOSTED)
MARGIN = (
    0.005  # "as well" is shown to half a pair in a hundred, since no interval excludes 0 for equals
)
_WAYS = (HISTORY_MEAN, *PARTS, MIXTURE)


def measured() -> Iterator[Line]:
    """Order, coverage and what `qssf` makes of it, for every file of months in ../shared."""
    files = sorted(MONTHS.glob("philly_jobs_*.csv*"))
    if not files:
        print("     the Philly trace is not here: left out")
    for file in files:
        print(f"     {file.name}")
        yield from _of(traces.read(file))


def _of(trace: traces.Trace) -> Iterator[Line]:
    began = process_time()
    found = evaluate(trace.arrivals)
    if found.whole is None:
        print(f"     {'; '.join(found.not_measured)}")
        return
    _show(found)
    yield from _order(found)
    covered = found.whole.coverage[MIXTURE]
    yield Line(
        f"the {found.level:.0%} interval covers", f"{covered:.1%}", "75 to 85 %", 0.75 <= covered <= 0.85
    )  # fmt: skip
    print(f"     rolled through in {process_time() - began:.0f} CPU-s")
    yield from _qssf(trace)


def _show(found: Rolling) -> None:
    print(f"     {'week':>6} {'jobs':>7}  " + "".join(f"{way:>14}" for way in _WAYS) + "   covered")
    for week in found.weeks:
        _show_week(str(week.number), week)
    assert found.whole is not None
    _show_week("all", found.whole)


def _show_week(name: str, week: Week) -> None:
    order = "".join(f"{week.order[way]:>14.3f}" if week.order else f"{'':>14}" for way in _WAYS)
    print(f"     {name:>6} {week.jobs:>7,}  {order}   {week.coverage[MIXTURE]:.1%}")


def _order(found: Rolling) -> Iterator[Line]:
    assert found.whole is not None
    better = max(PARTS, key=lambda way: found.whole.order[way])  # type: ignore[union-attr]
    for gain in found.gains:
        what = f"pairs in order, mixture over {gain.over}"
        if gain.over == HISTORY_MEAN:
            yield Line(what, _told(gain), "more: the interval above 0", gain.low > 0)
        elif gain.over == better:
            enough = gain.mean >= 0 and gain.low > -MARGIN
            yield Line(what, _told(gain), f"no fewer: 0 or more, from -{MARGIN} up", enough)


def _told(gain: Gain) -> str:
    return f"{gain.mean:+.4f} ({gain.low:+.4f} to {gain.high:+.4f})"


def _qssf(trace: traces.Trace) -> Iterator[Line]:
    """Between the oracle and FIFO; the share of the oracle's gain that a predictor kept."""
    experiment = Experiment(trace.arrivals, read_cluster(CLUSTER))
    mean_s, cpu_s = {}, {}
    for policy in ("fifo", "qssf", *(f"qssf:predictor={way}" for way in _WAYS)):
        began = process_time()
        mean_s[policy] = float(simulate(experiment, policy).summary["mean_jct_s"])
        cpu_s[policy] = process_time() - began
    fifo, oracle = mean_s["fifo"], mean_s["qssf"]
    for way in _WAYS:
        share = kept(fifo, mean_s[f"qssf:predictor={way}"], oracle)
        print(f"     qssf with {way} keeps {share or 0:.1%} of the oracle's gain over fifo")
    own, took = mean_s[f"qssf:predictor={MIXTURE}"], cpu_s[f"qssf:predictor={MIXTURE}"]
    yield Line(
        f"mean completion, qssf with {MIXTURE}",
        f"{own / 3600:.2f} h",
        f"between {oracle / 3600:.2f} h (oracle) and {fifo / 3600:.2f} h (fifo)",
        oracle <= own <= fifo,
    )
    yield Line(f"simulated with {MIXTURE}", f"{took:.0f} CPU-s", "under 120", took < 120)
