"""Speeds as jobs report them: of the job itself, else of jobs like it, else as others believe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from dovetail.core.entries import Reported
from dovetail.core.model import Job, JobId
from dovetail.core.paces import Pace
from dovetail.core.track import Track
from dovetail.core.view import ENDS, RECALLS, REPORTS, RUNS, WAITS, View
from dovetail.predict.scaling import Point, ScalingLaw, fitted
from dovetail.predict.speed import SpeedPredictor, beside

NEWS: Final = 0.05  # a smaller change of speed is none
MOST_JOBS: Final = 10_000  # that are learned from


def likenesses(job: Job) -> tuple[str, ...]:
    """What it has in common with jobs that are as fast: the very command, or the same with another
    number of epochs."""
    return tuple([f"command {own}" for own in job.alike[:2]])


def kinships(job: Job) -> tuple[str, ...]:
    """What it has in common with jobs that gain as much by more GPUs: the script, or the model."""
    scripts = [f"script {own}" for own in job.alike[3:]]
    return (*scripts, *([f"model {job.model}"] if job.model else []))


@final
class MeasuredPaces:
    """An index of the state: the paces of all jobs, by what they have in common."""

    def __init__(self) -> None:
        self.watches = WAITS | RUNS | ENDS | RECALLS | REPORTS
        self._paces: Final[dict[str, dict[JobId, Sequence[Pace]]]] = {}
        self._keys: Final[dict[JobId, tuple[str, ...]]] = {}  # the job learned of last is the last
        self._told: Final[dict[JobId, Pace]] = {}

    def waits(self, track: Track) -> None:
        self.recall(track)

    def runs(self, track: Track) -> None:
        self.recall(track)

    def ends(self, track: Track) -> None:
        self.recall(track)
        self._told.pop(track.job.id, None)

    def recall(self, track: Track) -> None:
        job_id = track.job.id
        if not track.paces:
            return
        self._keys.pop(job_id, None)
        self._keys[job_id] = keys = (*likenesses(track.job), *kinships(track.job))
        for key in keys:
            self._paces.setdefault(key, {})[job_id] = track.paces
        if len(self._keys) > MOST_JOBS:
            self._forget(next(iter(self._keys)))

    def _forget(self, job_id: JobId) -> None:
        for key in self._keys.pop(job_id):
            del self._paces[key][job_id]
            if not self._paces[key]:
                del self._paces[key]

    def reports(self, track: Track, entry: Reported) -> bool:
        """Whether it is news how fast the job is."""
        if not track.paces:
            return False
        latest = max(track.paces, key=lambda pace: pace.at)
        told = self._told.get(track.job.id)
        if told is not None and told[:3] == latest[:3] and not _is_news(latest, told):
            return False
        self._told[track.job.id] = latest
        self.recall(track)
        return True

    def of(self, keys: Iterable[str]) -> list[Pace]:
        """Of all jobs that have the first of these in common with somebody."""
        for key in keys:
            if found := self._paces.get(key):
                return [pace for paces in found.values() for pace in paces]
        return []

    def by_command(self, keys: Iterable[str]) -> Iterator[list[Pace]]:
        """Of jobs that have one of these in common with somebody, those of each command together:
        with other arguments a step is more work or less."""
        for key in keys:
            groups: dict[object, list[Pace]] = {}
            for job_id, paces in self._paces.get(key, {}).items():
                groups.setdefault(self._keys[job_id][0], []).extend(paces)
            yield from sorted(groups.values(), key=len, reverse=True)


@final
@dataclass(frozen=True, eq=False)
class AsReported:
    """The speed that a job has reported itself. For a number of GPUs that it never had: by a law
    through those it had, by jobs of the same command, or grown as for the same script or model;
    else in proportion to what `otherwise` believes."""

    view: View
    otherwise: SpeedPredictor

    @staticmethod
    def source() -> str:
        return "steps a second as measured"

    def build(self, view: View) -> MeasuredPaces:
        return MeasuredPaces()

    def speed(self, job: Job, kind: str, gpus: int, nodes: int) -> float:
        known = self.steps_per_s(job, kind, gpus, nodes)
        first = self._first_way(job)
        if known is None or first is None:
            return self.otherwise.speed(job, kind, gpus, nodes)
        usual = self.steps_per_s(job, *first)
        believed = self.otherwise.speed(job, *first)
        return believed if usual is None else believed * known / usual

    def beside(self, job: Job, other: Job, kind: str) -> tuple[float, float]:
        return beside(self.otherwise, job, other, kind)

    def _first_way(self, job: Job) -> tuple[str, int, int] | None:
        """Where its speed is 1: as many GPUs as it asks for, of the kind that it was first seen on."""
        if job.options:
            return job.options[0].kind, job.options[0].gpus, 1
        paces = self._paces(job)
        return (paces[0].kind, job.gpus, 1) if paces else None

    def steps_per_s(self, job: Job, kind: str, gpus: int, nodes: int) -> float | None:
        """None: nobody knows."""
        own = self._own(job)
        for pace in own:
            if pace[:3] == (kind, gpus, nodes):
                return pace.steps_per_s
        law = self._law(job, kind, nodes)
        return (
            self._from_elsewhere(job, kind, gpus, nodes) if law is None else law.steps_per_s(gpus)
        )

    def _own(self, job: Job) -> Sequence[Pace]:
        track = self.view.tracks.get(job.id)
        return () if track is None else track.paces

    def _paces(self, job: Job) -> Sequence[Pace]:
        return self._own(job) or self._index().of(likenesses(job))

    def _index(self) -> MeasuredPaces:
        index = self.view.index(self)
        assert isinstance(index, MeasuredPaces)
        return index

    def _law(self, job: Job, kind: str, nodes: int) -> ScalingLaw | None:
        points = _points(self._paces(job), kind, nodes)
        return fitted(points) or _grown_as(points, self._index(), job, kind, nodes)

    def _from_elsewhere(self, job: Job, kind: str, gpus: int, nodes: int) -> float | None:
        """As fast as where it was seen, times what others believe of the two places."""
        paces = self._paces(job)
        if not paces:
            return None
        seen = next((pace for pace in paces if pace.kind == kind), paces[0])
        there = self.otherwise.speed(job, *seen[:3])
        here = self.otherwise.speed(job, kind, gpus, nodes)
        return seen.steps_per_s * here / there if there > 0 else None


def _points(paces: Iterable[Pace], kind: str, nodes: int) -> list[Point]:
    """Of that kind, spread over nodes as it would be, if any was."""
    of_kind = [pace for pace in paces if pace.kind == kind]
    spread = [pace for pace in of_kind if (pace.nodes > 1) == (nodes > 1)]
    return [(pace.gpus, pace.steps_per_s) for pace in spread or of_kind]


def _grown_as(
    points: Sequence[Point], index: MeasuredPaces, job: Job, kind: str, nodes: int
) -> ScalingLaw | None:
    """One number of GPUs was measured: the law of jobs like it, through that point."""
    if not points:
        return None
    for paces in index.by_command((*likenesses(job), *kinships(job))):
        others = _points(paces, kind, nodes)
        law = fitted(others)
        if law is not None:
            slower = law.steps_per_s(points[0][0]) / points[0][1]
            return ScalingLaw(law.fixed_s * slower, law.shared_s * slower)
    return None


def _is_news(pace: Pace, told: Pace) -> bool:
    return abs(pace.steps_per_s - told.steps_per_s) > NEWS * told.steps_per_s
