"""What is known of each job of a trace, as a table: columns, their groups and when they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dovetail.models.workload import Arrival

if TYPE_CHECKING:
    import numpy as np

SUBMIT, HISTORY, PROFILE, RUN = LEVELS = ("submit", "history", "profile", "run")


@dataclass(frozen=True)
class Features:
    """Rows are jobs by time of submission. A column of text is kept as codes, missing as NaN."""

    names: tuple[str, ...]  # of the columns that vary
    groups: Mapping[str, tuple[str, ...]]  # columns that say the same thing: user, size, …
    levels: Mapping[str, str]  # of each column: when it is known, one of LEVELS
    categorical: frozenset[str]
    columns: Mapping[str, np.ndarray]
    submitted: np.ndarray
    duration: np.ndarray
    gpus: np.ndarray
    left_out: Mapping[str, str]  # groups that say nothing here, and why


def features_of(arrivals: Sequence[Arrival]) -> Features:
    raise NotImplementedError
