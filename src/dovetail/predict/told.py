"""What jobs of one model have told of their goodput, put together: a new job begins with what is known.

A job tells the law of its step times on each GPU kind it has been on, and the noise of its gradients
(`models.goodput_agent`), or its very steps. The law is the model's: the one of all steps that were
told, else the one that rests on most GPUs. The noise is the job's own; before it has told any, that
with which another job of the model began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from dovetail.core.entries import Reported
from dovetail.core.model import Job
from dovetail.core.track import Track
from dovetail.core.view import ENDS, RECALLS, REPORTS, RUNS, WAITS, View
from dovetail.models.speed_table import model_type

if TYPE_CHECKING:  # numpy is loaded only where a job tells of its goodput
    from dovetail.models.goodput import GradientNoise
    from dovetail.models.goodput_agent import KindLaw, ToldGoodput
    from dovetail.models.shared_steps import SharedSteps


@final
class ToldByModel:
    """An index of the state: the laws of each model, and the noise with which its jobs began."""

    def __init__(self) -> None:
        self.watches = WAITS | RUNS | ENDS | RECALLS | REPORTS
        self._laws: Final[dict[str, dict[str, KindLaw]]] = {}
        self._noise: Final[dict[str, GradientNoise]] = {}
        self._steps: Final[dict[str, SharedSteps]] = {}

    def waits(self, track: Track) -> None:
        self.recall(track)

    def runs(self, track: Track) -> None:
        self.recall(track)

    def ends(self, track: Track) -> None:
        self.recall(track)

    def reports(self, track: Track, entry: Reported) -> bool:
        """Shares are looked at again in the next round: no decision is wanted for a report."""
        self.recall(track)
        return False

    def recall(self, track: Track) -> None:
        told = _told(track.metrics)
        if told is None:
            return
        model = _model(track.job)
        self._noise.setdefault(model, told.noise)
        known = self._laws.setdefault(model, {})
        if model not in self._steps:
            self._steps[model] = _shared()
        for kind, law in told.laws.items():
            if kind not in known or known[kind].most_gpus <= law.most_gpus:
                known[kind] = law
        for kind, steps in told.steps.items():
            self._steps[model].saw(kind, steps, told.noise)

    def of(self, track: Track) -> ToldGoodput | None:
        """What is believed of the job; None: no job of its model has told anything."""
        model = _model(track.job)
        laws = self._laws.get(model)
        if not laws:
            return None
        from dovetail.models.goodput_agent import ToldGoodput

        own = _told(track.metrics)
        steps = self._steps[model]
        known = {
            kind: law._replace(times=steps.times(kind) or law.times) for kind, law in laws.items()
        }
        return ToldGoodput(self._noise[model] if own is None else own.noise, known)


def _told(metrics: Mapping[str, float | str]) -> ToldGoodput | None:
    if not metrics or not any(name.startswith("goodput") for name in metrics):
        return None
    from dovetail.models.goodput_agent import read_goodput

    return read_goodput(metrics)


def _shared() -> SharedSteps:
    from dovetail.models.shared_steps import SharedSteps

    return SharedSteps()


def _model(job: Job) -> str:
    """Jobs of a model go alike, whatever their batch; one that names none is alone."""
    return model_type(job.model).model if job.model else f"job {job.id}"


@final
@dataclass(frozen=True, eq=False)
class GoodputByModel:
    """Kept by a policy as a field, so that it is always the same object."""

    def build(self, view: View) -> ToldByModel:
        return ToldByModel()

    def told(self, track: Track, view: View) -> ToldGoodput | None:
        index = view.index(self)
        assert isinstance(index, ToldByModel)
        return index.of(track)
