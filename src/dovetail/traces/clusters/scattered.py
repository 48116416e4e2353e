"""Times of steps between scattered measurements, by a Delaunay triangulation (scipy)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import LinearNDInterpolator

from dovetail.models.applications import Point, ScatteredSteps, StepTime


def between(steps: ScatteredSteps) -> Callable[[Point], StepTime | None]:
    """Linear inside the simplex around a point; None outside of all that was measured."""
    if not steps.points:
        return lambda point: None
    found = LinearNDInterpolator(np.array(steps.points, float), np.array(steps.times, float))

    def at(point: Point) -> StepTime | None:
        step_s, sync_s = found(*point).reshape(-1)
        return None if np.isnan(step_s) else StepTime(float(step_s), float(sync_s))

    return at
