"""How pressing the jobs are that are not planned with the others: see `special`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, final

from dovetail.core.model import WHOLE_GPU, Seconds, Shape
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.models.hourly import HOUR_S
from dovetail.policies.andreas.paces import SeenPaces
from dovetail.policies.frugal.draft import BLINK_S
from dovetail.policies.frugal.ladder import Rates
from dovetail.policies.frugal.special import LEAD, Special
from dovetail.predict.duration import Predictor

# The deadline of a job, and the cost of a second after it: by its usual duration, and by the money for
# an hour in its most expensive way.
Due = Callable[[Track, Seconds, float], tuple[Seconds, float]]


class _Terms(NamedTuple):
    """What jobs of one shape and model have in common."""

    pace: float  # the best that was seen
    gpus: float
    dearest: float  # money for an hour


@final
class Urgency:
    """At one moment, for thousands of jobs: what they have in common is worked out once."""

    def __init__(
        self,
        view: View,
        predictor: Predictor,
        paces: SeenPaces,
        rates: Rates,
        due: Due,
        margin: float,
    ) -> None:
        self._view: Final = view
        self._predictor: Final = predictor
        self._paces: Final = paces
        self._rates: Final = rates
        self._due: Final = due
        self._margin: Final = 1 + margin
        self._terms: Final[dict[tuple[Shape, str], _Terms]] = {}

    def of(self, track: Track, keeps: bool = True) -> Special:
        job, now = track.job, self._view.now
        terms = self._terms.get((track.shape, job.model))
        if terms is None:
            terms = self._terms[track.shape, job.model] = self._terms_of(track.shape, job.model)
        seconds = self._predictor.duration_s(job, self._view) - track.executed_by(now)
        usual = max(seconds / terms.pace, BLINK_S)
        deadline, late_per_s = self._due(track, usual, terms.dearest)
        slack = deadline - now - usual * self._margin
        lead = slack - LEAD * usual if keeps else slack
        return Special(track, slack, lead, late_per_s / (terms.gpus * usual), keeps)

    def _terms_of(self, shape: Shape, model: str) -> _Terms:
        pools, paces, rates = self._view.room.eligible(shape), self._paces, self._rates
        pace = max([paces.of(model, p.kind, shape.gpus > p.width) for p in pools], default=1.0)
        gpus = max(shape.gpus * shape.share / WHOLE_GPU, BLINK_S / HOUR_S)
        dearest = max([rates[p.index][-1] / max(p.width, 1) for p in pools], default=0.0) * gpus
        return _Terms(pace, gpus, dearest)
