"""Policies simulated on the trace itself, with intervals from resampling its weeks."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat

import numpy as np

from dovetail.analysis.contenders import (
    BASELINE,
    COMPARED,
    REFERENCE,
    Contender,
    entries,
    not_tried,
)
from dovetail.analysis.question import Question
from dovetail.core.errors import DovetailError
from dovetail.core.model import Seconds
from dovetail.core.track import Track
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.insight.loading import fitting, too_large
from dovetail.insight.work import Map, Progress
from dovetail.models.workload import Arrival
from dovetail.predict.learner import HISTORY_MEAN
from dovetail.predict.rolling import kept
from dovetail.results.finished_jobs import FinishedJobs
from dovetail.traces.description import gpu_seconds

LENGTHS = (("week", 604_800.0), ("day", 86_400.0), ("hour", 3600.0))
ENOUGH = 4  # blocks; fewer say too little, so shorter ones are taken
WINDOWS = 40  # places at which a stretch may begin
MOST_JOBS, MOST_JOBS_QUICK = 100_000, 60_000
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class TimeBlocks:
    """Equal lengths of time from the first submission on."""

    start_s: Seconds
    length_s: Seconds
    number: int
    text: str

    def place(self, at: Seconds) -> int:
        """The block that a time lies in."""
        return min(max(int((at - self.start_s) // self.length_s), 0), self.number - 1)


class EndsByBlock:
    """Completion times of finished jobs, added up by the block of their submission."""

    def __init__(self, blocks: TimeBlocks) -> None:
        self._blocks = blocks
        self.sums = [0.0] * blocks.number
        self.counts = [0] * blocks.number

    def note(self, track: Track) -> None:
        place = self._blocks.place(track.submitted_at)
        self.sums[place] += track.ended_at - track.submitted_at
        self.counts[place] += 1


def blocks_of(arrivals: Sequence[Arrival]) -> TimeBlocks:
    """Weeks; days or hours if there are too few weeks; else equal parts of the trace."""
    first, last = arrivals[0].at, arrivals[-1].at
    span = last - first
    for noun, length in LENGTHS:
        number = int(span // length) + 1
        if number >= ENOUGH:
            return TimeBlocks(first, length, number, f"{number} {noun}s")
    if span <= 0:
        return TimeBlocks(first, 1.0, 1, "one moment")
    return TimeBlocks(first, span / ENOUGH, ENOUGH, f"{ENOUGH} equal parts of the trace")


def stretch(arrivals: list[Arrival], most: int) -> list[Arrival]:
    """At most so many consecutive jobs, where the load is closest to that of the whole trace."""
    if len(arrivals) <= most:
        return arrivals
    at = np.array([arrival.at for arrival in arrivals])
    service = np.cumsum([0.0, *(arrival.work_s * arrival.job.gpus for arrival in arrivals)])
    starts = np.unique(np.linspace(0, len(arrivals) - most, WINDOWS).astype(np.int64))
    spans = np.maximum(at[starts + most - 1] - at[starts], 1e-9)
    loads = (service[starts + most] - service[starts]) / spans
    usual = service[-1] / max(at[-1] - at[0], 1e-9)
    start = int(starts[np.argmin(np.abs(np.log(np.maximum(loads, 1e-12) / max(usual, 1e-12))))])
    return arrivals[start : start + most]


@dataclass(frozen=True, slots=True)
class Tried:
    """One policy's run. `gain` is the part of FIFO's mean completion time that it saves."""

    policy: str
    told: str  # the predictor it was given, "services", or nothing
    reference: bool  # knows the truth: shown for comparison, never recommended
    mean_jct_s: Seconds
    mean_low_s: Seconds | None  # 95 % interval
    mean_high_s: Seconds | None
    p50_jct_s: Seconds
    p99_jct_s: Seconds
    mean_wait_s: Seconds
    preemptions: int
    lost: float  # part of the GPU time held that went into saving, restoring and doing twice
    refused: int
    gain: float
    low: float | None
    high: float | None
    best: float  # part of the resamples in which no other that may be recommended is better


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """The part of an oracle's gain that remains with predictions, against one baseline."""

    policy: str
    predictor: str
    baseline: str
    baseline_s: Seconds
    predicted_s: Seconds
    oracle_s: Seconds
    share: float | None  # None: the oracle gains nothing
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Contest:
    jobs: int  # simulated
    whole: bool  # the trace, not a stretch of it
    start_s: Seconds  # of the stretch
    load: float
    blocks: str  # what was resampled, such as "8 weeks"
    predictor: str
    tried: tuple[Tried, ...]  # best mean first
    kept: tuple[KeptRuns, ...]
    not_measured: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """The result from the process that simulated."""

    summary: dict[str, float | int | str]
    sums: tuple[float, ...]  # completion times by block of submission
    counts: tuple[int, ...]
    problem: str = ""


def contest(question: Question, map: Map = map, progress: Progress | None = None) -> Contest:
    """Simulate every policy on the whole trace, or on a stretch of it with the usual load."""
    if question.trace.lacking:
        return _none(f"no simulation without {question.trace.lacking[0]}")
    arrivals = stretch(question.arrivals, MOST_JOBS_QUICK if question.quick else MOST_JOBS)
    experiment = question.experiment(arrivals)
    blocks = blocks_of(arrivals)
    entered, predictor = entries(question)
    ran: list[tuple[Contender, Ran]] = []
    packed = pickle.dumps(experiment, pickle.HIGHEST_PROTOCOL)
    results = map(simulated, repeat(packed), [e.policy for e in entered], repeat(blocks))
    for entry, result in zip(entered, results, strict=False):
        ran.append((entry, result))
        if progress is not None:
            progress(len(ran), len(entered))
    problems = [f"{entry.policy}: {own.problem}" for entry, own in ran if own.problem]
    good = [(entry, own) for entry, own in ran if not own.problem and any(own.counts)]
    if not any(entry.policy == BASELINE for entry, _ in good):
        why = "; ".join(too_large(arrivals, sum(node.gpus for node in question.nodes))).rstrip(".")
        return _none(*problems, f"no job finished under {BASELINE}{why and ': '}{why}")
    return Contest(
        jobs=len(arrivals),
        whole=len(arrivals) == len(question.arrivals),
        start_s=arrivals[0].at,
        load=_load(experiment),
        blocks=blocks.text,
        predictor=predictor,
        tried=_tried(good, question.seed),
        kept=_kept(good, question.seed),
        not_measured=(*problems, *not_tried(question), *_remarks(blocks)),
    )


def _none(*why: str) -> Contest:
    reasons = tuple(f"Policies to try: {reason}." for reason in why)
    return Contest(0, False, 0.0, 0.0, "", "", (), (), reasons)


def _remarks(blocks: TimeBlocks) -> list[str]:
    if blocks.number > 1:
        return []
    return [
        "Intervals of the gains: all jobs were submitted at one time, nothing can be resampled."
    ]


@lru_cache(maxsize=1)
def _opened(packed: bytes) -> Experiment:
    """A large trace is pickled once, and unpickled once by each worker process."""
    experiment: Experiment = pickle.loads(packed)
    return experiment


def simulated(packed: bytes, policy: str, blocks: TimeBlocks) -> Ran:
    """One policy to the end; an error in a policy, perhaps a third party's, costs only its row."""
    ends = EndsByBlock(blocks)
    try:
        record = simulate(_opened(packed), policy, watching=FinishedJobs(ends.note))
    except DovetailError as error:
        return Ran({}, (), (), str(error))
    return Ran(dict(record.summary), tuple(ends.sums), tuple(ends.counts))


def _load(experiment: Experiment) -> float:
    gpus = sum(node.gpus for node in experiment.nodes)
    first, last = experiment.arrivals[0].at, experiment.arrivals[-1].at
    service = sum(map(gpu_seconds, fitting(experiment.arrivals, gpus)))
    return service / (gpus * (last - first)) if gpus and last > first else 0.0


def _resampled(ran: Sequence[Ran], seed: int) -> np.ndarray:
    """Mean completion times by resample and run, all runs on the same blocks."""
    sums = np.array([own.sums for own in ran])
    counts = np.array([own.counts for own in ran])
    drawn = np.random.default_rng(seed).integers(sums.shape[1], size=(RESAMPLES, sums.shape[1]))
    total = sums[:, drawn].sum(axis=2)
    number = np.maximum(counts[:, drawn].sum(axis=2), 1)
    means: np.ndarray = (total / number).T
    return means


def _tried(ran: Sequence[tuple[Contender, Ran]], seed: int) -> tuple[Tried, ...]:
    means = _resampled([own for _, own in ran], seed)
    baseline = next(i for i, (entry, _) in enumerate(ran) if entry.policy == BASELINE)
    usual = float(ran[baseline][1].summary["mean_jct_s"])
    gains = 1.0 - means / np.maximum(means[:, [baseline]], 1e-9)
    fair = [i for i, (entry, _) in enumerate(ran) if entry.kind != REFERENCE]
    least = means[:, fair].min(axis=1)
    rows = [
        _row(entry, own, usual, means[:, i], gains[:, i], float(np.mean(means[:, i] <= least)))
        for i, (entry, own) in enumerate(ran)
    ]
    return tuple(sorted(rows, key=lambda row: row.mean_jct_s))


def _row(
    entry: Contender, own: Ran, usual: float, means: np.ndarray, gains: np.ndarray, best: float
) -> Tried:
    figures = {key: float(value) for key, value in own.summary.items() if key != "policy"}
    low, high = _interval(gains, len(own.sums))
    mean_low_s, mean_high_s = _interval(means, len(own.sums))
    used = figures["gpu_seconds_used"]
    return Tried(
        policy=entry.policy,
        told=entry.told,
        reference=entry.kind == REFERENCE,
        mean_jct_s=figures["mean_jct_s"],
        mean_low_s=mean_low_s,
        mean_high_s=mean_high_s,
        p50_jct_s=figures["p50_jct_s"],
        p99_jct_s=figures["p99_jct_s"],
        mean_wait_s=figures["mean_wait_s"],
        preemptions=int(figures["preemptions"]),
        lost=figures["gpu_seconds_lost"] / used if used else 0.0,
        refused=int(figures["refused"]),
        gain=1.0 - figures["mean_jct_s"] / usual if usual else 0.0,
        low=low,
        high=high,
        best=best if entry.kind != REFERENCE else 0.0,
    )


def _interval(values: np.ndarray, blocks: int) -> tuple[float | None, float | None]:
    if blocks < 2:
        return None, None
    return float(np.percentile(values, 2.5)), float(np.percentile(values, 97.5))


def _kept(ran: Sequence[tuple[Contender, Ran]], seed: int) -> tuple[KeptRuns, ...]:
    """For every policy that ran with predictions and with the truth."""
    place = {entry.policy: i for i, (entry, _) in enumerate(ran)}
    means = _resampled([own for _, own in ran], seed)
    found = []
    for text in place:
        policy, _, predictor = text.partition(":predictor=")
        if not predictor or predictor == "oracle" or f"{policy}:predictor=oracle" not in place:
            continue
        found += [
            _share_kept(ran, means, place, policy, predictor, baseline)
            for baseline in (BASELINE, "fifo-skip")
            if baseline in place
        ]
    return tuple(sorted(found, key=_kept_order))


def _kept_order(kept: KeptRuns) -> tuple[bool, bool, bool]:
    return kept.policy != COMPARED, kept.baseline != BASELINE, kept.predictor == HISTORY_MEAN


def _share_kept(
    ran: Sequence[tuple[Contender, Ran]],
    means: np.ndarray,
    place: dict[str, int],
    policy: str,
    predictor: str,
    baseline: str,
) -> KeptRuns:
    names = (baseline, f"{policy}:predictor={predictor}", f"{policy}:predictor=oracle")
    columns = [place[name] for name in names]
    usual, predicted, oracle = (float(ran[i][1].summary["mean_jct_s"]) for i in columns)
    base, guess, truth = (means[:, i] for i in columns)
    shares = (base - guess) / np.where(base - truth > 1e-9, base - truth, np.nan)
    known = shares[np.isfinite(shares)]
    low, high = _interval(known, len(ran[0][1].sums) if len(known) else 0)
    share = kept(usual, predicted, oracle)
    return KeptRuns(policy, predictor, baseline, usual, predicted, oracle, share, low, high)
