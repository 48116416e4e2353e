"""An analysis from its question to its report: its parts, in which order, and how long each takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from dovetail.analysis.conclusions import Verdict, verdict
from dovetail.analysis.contenders import MANY
from dovetail.analysis.measurements import Measurements
from dovetail.analysis.policy_contest import Contest, contest
from dovetail.analysis.question import Question
from dovetail.analysis.result_cache import ResultCache
from dovetail.core.model import Node, Seconds
from dovetail.experiments.progress_bar import ProgressBar
from dovetail.experiments.workers import workers
from dovetail.insight.decision import decision
from dovetail.insight.factors import Factors, factors
from dovetail.insight.feature_catalogue import FeatureCatalogue, catalogue
from dovetail.insight.features import features_of
from dovetail.insight.predictive import Predictive, predictive
from dovetail.insight.work import Map, Progress
from dovetail.insight.workload_figures import WorkloadFigures, workload
from dovetail.insight.worth import DecisionWorth
from dovetail.predict.learner import LEVEL
from dovetail.predict.rolling import Rolling, evaluate
from dovetail.reports.page import describe_cluster
from dovetail.text.counting import counted

Measure = Callable[[Question, Map, Progress], Any]
UNASKED = "not asked for"
ALWAYS = ("workload", "catalogue")  # they take no time, and the page needs them


@dataclass(frozen=True, slots=True)
class AnalysisPart:
    name: str
    title: str
    weight: float  # of all the time it takes
    measure: Measure


def _workload(question: Question, map: Map, progress: Progress) -> Any:
    return workload(question.trace, question.nodes)


def _catalogue(question: Question, map: Map, progress: Progress) -> Any:
    return catalogue(question.trace, question.nodes, len(question.tenants))


def _contest(question: Question, map: Map, progress: Progress) -> Any:
    return contest(question, map, progress)


def _predictive(question: Question, map: Map, progress: Progress) -> Any:
    features = features_of(question.arrivals)
    return predictive(
        features, quick=question.quick, seed=question.seed, map=map, progress=progress
    )


def _rolling(question: Question, map: Map, progress: Progress) -> Any:
    if question.quick and len(question.arrivals) > MANY:
        why = "duration predictors, week by week: it takes too long for --quick"
        return Rolling(LEVEL, None, (), (), (why,))
    return next(iter(map(partial(evaluate, seed=question.seed), [question.arrivals])))


def _decision(question: Question, map: Map, progress: Progress) -> Any:
    return decision(
        question.arrivals,
        question.nodes,
        tenants=question.tenants,
        quick=question.quick,
        seed=question.seed,
        map=map,
        progress=progress,
    )


def _factors(question: Question, map: Map, progress: Progress) -> Any:
    return factors(quick=question.quick, seed=question.seed, map=map, progress=progress)


NEED_EVERYTHING = ("rolling", "predictive", "decision")  # submissions and durations
PARTS = (
    AnalysisPart("workload", "the workload", 1, _workload),
    AnalysisPart("catalogue", "features and factors", 1, _catalogue),
    AnalysisPart("rolling", "duration predictors, week by week", 8, _rolling),
    AnalysisPart("contest", "policies on this trace", 15, _contest),
    AnalysisPart("predictive", "what predicts durations", 25, _predictive),
    AnalysisPart("decision", "what knowing it is worth", 25, _decision),
    AnalysisPart("factors", "what moves the gain", 25, _factors),
)
ALL = tuple(part.name for part in PARTS)


@dataclass(frozen=True)
class Analysis:
    """All measurements. A part that could not be measured is None, and `problems` says why."""

    source: str
    format: str
    cluster: str
    quick: bool
    seed: int
    interruption_s: tuple[Seconds, Seconds]  # to save and to restore, where the trace names none
    notes: tuple[str, ...]  # what the reader of the trace assumed, skipped or set right
    workload: WorkloadFigures
    catalogue: FeatureCatalogue
    contest: Contest | None
    predictive: Predictive | None
    rolling: Rolling | None
    decision: DecisionWorth | None
    factors: Factors | None
    verdict: Verdict
    problems: Mapping[str, str]  # parts that could not be measured at all
    seconds: Mapping[str, float]  # from the beginning to the end of each part; they overlap


def analyze(
    trace: str | Path,
    cluster: str | Sequence[Node],
    *,
    out: str | Path | None = None,
    policies: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    executor: Executor | None = None,
    parts: Collection[str] = ALL,
) -> Analysis:
    """Measure what drives scheduling of the jobs of a trace on a cluster.

    With `out`, report.html and analysis.json are written there, and measurements are cached there, so
    that an interrupted analysis continues. `executor` is any of `concurrent.futures`, such as Dask's;
    without one there are as many processes as processors. `parts` names the parts to measure.
    """
    from dovetail.analysis.question import read_trace
    from dovetail.traces.clusters.cluster_text import read_cluster, read_cluster_tenants

    text = cluster if isinstance(cluster, str) else ""
    nodes = read_cluster(cluster) if isinstance(cluster, str) else tuple(cluster)
    question = Question(
        read_trace(str(trace)),
        nodes,
        read_cluster_tenants(text),
        policies=tuple(policies),
        quick=quick,
        seed=seed,
    )
    return answer(question, trace, Path(out) if out else None, executor=executor, parts=parts)


def answer(
    question: Question,
    path: str | Path,
    out: Path | None,
    *,
    executor: Executor | None = None,
    parts: Collection[str] = ALL,
    quiet: bool = True,
) -> Analysis:
    """Measure every part that is not in the cache, and write the report."""
    from dovetail.analysis.page import write

    question.check_policies()
    memory = ResultCache(out, question.key(path)) if out else None
    wanted = [part for part in PARTS if part.name in {*parts, *ALWAYS}]
    weights = {part.name: part.weight for part in wanted}
    with workers(executor) as pool, ProgressBar(quiet) as bar:
        found = Measuring(question, pool, memory, PartsProgress(weights, bar))
        found.run(wanted)
    found.problems |= {name: UNASKED for name in ALL if name not in {*parts, *ALWAYS}}
    analysis = _analysis(question, found)
    if out:
        write(out, analysis)
    return analysis


@dataclass
class Measuring:
    """The parts while they are measured."""

    question: Question
    pool: Executor
    memory: ResultCache | None
    progress: PartsProgress
    results: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, parts: Sequence[AnalysisPart]) -> None:
        """All parts at once, so that no processor waits for the last task of a part."""
        threads = ThreadPoolExecutor(max(1, len(parts)))
        try:
            for done in [threads.submit(self._part, part) for part in parts]:
                done.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _part(self, part: AnalysisPart) -> None:
        tell = self.progress.within(part.name, part.title)
        known = self.memory.recall(part.name) if self.memory else None
        if known is not None:
            self.results[part.name], self.seconds[part.name] = known
        else:
            since = time.monotonic()
            self._measure(part, tell)
            self.seconds[part.name] = time.monotonic() - since
            if self.memory and part.name in self.results:
                self.memory.keep(part.name, (self.results[part.name], self.seconds[part.name]))
        self.progress.finish(part.name)

    def _why_not(self, part: AnalysisPart) -> str:
        lacking = self.question.trace.lacking
        if lacking and part.name in NEED_EVERYTHING:
            return f"it needs {lacking[0]}, which the trace lacks"
        return ""

    def _measure(self, part: AnalysisPart, tell: Progress) -> None:
        why = self._why_not(part)
        if why:
            self.problems[part.name] = why
            return
        run = self.pool.map
        mapped = self.memory.remembering(part.name, run) if self.memory else run
        try:
            self.results[part.name] = part.measure(self.question, mapped, tell)
        except Exception as error:  # one part that breaks must not cost the others' hours
            what = " ".join(str(error).split())
            self.problems[part.name] = f"{type(error).__name__}: {what}".rstrip(": ")


def _analysis(question: Question, found: Measuring) -> Analysis:
    trace = question.trace
    results: dict[str, Any] = {part.name: found.results.get(part.name) for part in PARTS}
    measured = Measurements(**results)
    return Analysis(
        source=trace.source,
        format=trace.format,
        cluster=describe_cluster(question.nodes),
        quick=question.quick,
        seed=question.seed,
        interruption_s=(question.save_s, question.restore_s),
        notes=tuple(_notes(question)),
        **results,
        verdict=verdict(question, measured),
        problems=found.problems,
        seconds=found.seconds,
    )


def _notes(question: Question) -> list[str]:
    trace = question.trace
    said = list(trace.notes)
    if trace.bad_rows:
        said.append(
            f"left out {counted(len(trace.bad_rows), 'row')} that could not be used; the first: "
            f"{trace.bad_rows[0]}"
        )
    if trace.steps_back:
        said.append(
            f"{trace.steps_back:,} rows were submitted before the row above them, so the file is "
            "not in order of submission or a clock ran backwards; the jobs were put in order."
        )
    return said


class PartsProgress:
    """The part of each measurement that is done, shown with its title."""

    def __init__(self, weights: Mapping[str, float], bar: ProgressBar) -> None:
        self._weights, self._bar = weights, bar
        self._done = dict.fromkeys(weights, 0.0)  # of each part
        self._lock = Lock()  # parts tell from threads of their own

    def within(self, part: str, title: str) -> Progress:
        """The callback of a part: so many tasks done, of so many."""

        def tell(done: int, total: int) -> None:
            self._show(part, done / max(total, 1), f"{title} ({done:,} of {total:,})")

        return tell

    def finish(self, part: str) -> None:
        self._show(part, 1.0, "")

    def _show(self, part: str, done: float, text: str) -> None:
        with self._lock:
            self._done[part] = min(1.0, done)
            made = sum(self._weights[name] * own for name, own in self._done.items())
            self._bar.show(made / sum(self._weights.values()), text)
