"""InferLine (Crankshaw et al., SoCC 2020): the cheapest setting of every stage that keeps a pipeline's
tail within its SLO, and more replicas at once when traffic goes beyond what was planned."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, sqrt
from typing import Final, NamedTuple

from dovetail.core.model import Seconds
from dovetail.serving.planners.stages import PipelineStage, StageSetting, tail_s

Settings = dict[str, StageSetting]
CALM_S: Final = 15.0  # after the last change, before replicas are taken away
_ROUNDING: Final = 1e-9
_CHANCE: Final = 3.0


class PipelineQuestion(NamedTuple):
    """A pipeline, a sample of its traffic, and what is to hold."""

    stages: Sequence[PipelineStage]
    arrivals: Sequence[Seconds]
    slo_s: Seconds
    percentile: float = 99.0
    most: int = 64  # replicas of a stage

    @property
    def rate(self) -> float:
        length = self.arrivals[-1] - self.arrivals[0]
        return (len(self.arrivals) - 1) / length if length > 0.0 else float(len(self.arrivals))

    def holds(self, settings: Mapping[str, StageSetting]) -> bool:
        """Does it keep up for ever, and is the tail of the sample within the SLO?"""
        for stage in self.stages:
            own = settings[stage.name]
            if own.throughput * own.replicas < self.rate * stage.part * (1.0 - _ROUNDING):
                return False
        return tail_s(self.stages, settings, self.arrivals, self.percentile) <= self.slo_s


def planned(question: PipelineQuestion) -> Settings | None:
    """From the fastest setting, the change of one stage that saves most, as long as one does; None: not
    even the fastest is fast enough."""
    now = fastest(question)
    while now is not None:
        best = min(_changes(question, now), key=usd_per_hour, default=now)
        if usd_per_hour(best) >= usd_per_hour(now) - _ROUNDING:
            return now
        now = best
    return None


def usd_per_hour(settings: Mapping[str, StageSetting]) -> float:
    return sum(setting.usd_per_hour for setting in settings.values())


def fastest(question: PipelineQuestion) -> Settings | None:
    """Every stage alone on its fastest hardware without batches; then one replica more for the stage
    that is busiest, until it holds."""
    settings: Settings = {}
    for stage in question.stages:
        best = min(stage.hardware, key=lambda own: (own.latency(1), own.usd_per_hour))
        enough = ceil(question.rate * stage.part * best.latency(1) - _ROUNDING)
        settings[stage.name] = StageSetting(best, 1, min(max(enough, 1), question.most))
    while not question.holds(settings):
        able = [own for own in question.stages if settings[own.name].replicas < question.most]
        if not able:
            return None
        busiest = max(able, key=lambda own: _load(question, own, settings[own.name]))
        now = settings[busiest.name]
        settings[busiest.name] = now._replace(replicas=now.replicas + 1)
    return settings


def _load(question: PipelineQuestion, stage: PipelineStage, setting: StageSetting) -> float:
    return question.rate * stage.part / (setting.throughput * setting.replicas)


def _changes(question: PipelineQuestion, now: Settings) -> Iterator[Settings]:
    """One stage with another batch or on other hardware, and as few replicas as hold."""
    budget = usd_per_hour(now)
    for stage in question.stages:
        others = budget - now[stage.name].usd_per_hour
        for hardware in stage.hardware:
            batch = 1
            while batch <= stage.max_batch:
                own = StageSetting(hardware, batch)
                found = _fewest(question, now, stage, own, budget - others)
                if found is not None:
                    yield found
                batch *= 2


def _fewest(
    question: PipelineQuestion,
    now: Settings,
    stage: PipelineStage,
    own: StageSetting,
    budget: float,
) -> Settings | None:
    """With the fewest replicas that hold and cost less than now."""
    needed = ceil(question.rate * stage.part / own.throughput - _ROUNDING)
    price = own.hardware.usd_per_hour
    cap = question.most if price <= 0.0 else ceil(budget / price - _ROUNDING) - 1
    for replicas in range(max(needed, 1), min(cap, question.most) + 1):
        settings = {**now, stage.name: own._replace(replicas=replicas)}
        if question.holds(settings):
            return settings
    return None


# ------------------------------------------------------------------------------------ while it runs


class Envelope(NamedTuple):
    """The most requests that came within any window of each length: what bursts there are."""

    windows: Sequence[Seconds]
    counts: Sequence[int]

    def rates(self) -> list[float]:
        return [n / window for n, window in zip(self.counts, self.windows, strict=True)]


def envelope(
    arrivals: Sequence[Seconds], shortest_s: Seconds, longest_s: Seconds = 60.0
) -> Envelope:
    """Windows double from the time that one request takes to a minute."""
    windows = [shortest_s]
    while windows[-1] * 2.0 <= longest_s:
        windows.append(windows[-1] * 2.0)
    counts = [
        max([bisect_left(arrivals, at + window) - i for i, at in enumerate(arrivals)], default=0)
        for window in windows
    ]
    return Envelope(windows, counts)


def grown(
    question: PipelineQuestion, planned_for: Envelope, seen: Envelope, settings: Settings
) -> dict[str, int]:
    """Replicas of each stage where traffic goes beyond the plan in any window: enough for the highest
    of these rates at the load that each stage was planned for. Never fewer than now.

    Beyond is more than chance makes of the same traffic: three times the root of the count. And windows
    longer than the sample of the plan say nothing."""
    length = question.arrivals[-1] - question.arrivals[0]
    rows = zip(seen.windows, seen.counts, planned_for.counts, strict=True)
    beyond = [
        count / window
        for window, count, known in rows
        if window <= max(length, seen.windows[0]) and count > known + _CHANCE * sqrt(known)
    ]
    if not beyond:
        return {name: own.replicas for name, own in settings.items()}
    needed = replicas_at(question, settings, max(beyond))
    return {name: max(needed[name], own.replicas) for name, own in settings.items()}


def replicas_at(question: PipelineQuestion, settings: Settings, rate: float) -> dict[str, int]:
    """Of each stage, so that it is as busy as it was planned to be."""
    found = {}
    for stage in question.stages:
        setting = settings[stage.name]
        each = setting.throughput * _load(question, stage, setting)  # a replica, as busy as that
        found[stage.name] = max(ceil(rate * stage.part / each - _ROUNDING), 1) if each else 1
    return found


def shrunk(
    question: PipelineQuestion,
    settings: Settings,
    now: Mapping[str, int],
    seen: Envelope,
    calm_s: Seconds,
) -> dict[str, int]:
    """After some calm, as many as the highest rate of late needs, but only one fewer at a time."""
    if calm_s < CALM_S:
        return dict(now)
    needed = replicas_at(question, settings, max(seen.rates(), default=0.0))
    return {
        name: max(needed[name], count - 1, 1) if count > needed[name] else count
        for name, count in now.items()
    }
