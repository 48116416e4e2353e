"""How long a batch takes: by its size, the kind of GPU and the share of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU
from dovetail.traces.readers import cells
from dovetail.traces.readers.rows import each

ANY_KIND = ""  # of a table: holds for kinds that it does not name


class Latency(Protocol):
    """How long a batch takes on a server, in seconds."""

    def seconds(self, batch: int, kind: str, share: int) -> float: ...


def by_batch(latency: Latency, most: int, kind: str, share: int) -> list[float]:
    """The seconds of every batch from 0 to `most`: rules and servers look them up."""
    return [0.0, *(latency.seconds(batch, kind, share) for batch in range(1, most + 1))]


@dataclass(frozen=True, slots=True)
class AffineLatency:
    """So long for any batch, and so long for each request in it; on half a GPU twice as long."""

    fixed_s: float = 0.0
    per_item_s: float = 0.0

    def __post_init__(self) -> None:
        if not (self.fixed_s >= 0 and self.per_item_s >= 0 and self.fixed_s + self.per_item_s > 0):
            raise BadInput("latency: fixed_ms and per_item_ms are at least 0, and not both 0")

    def seconds(self, batch: int, kind: str, share: int) -> float:
        return (self.fixed_s + self.per_item_s * batch) * WHOLE_GPU / share


class LatencyPoint(NamedTuple):
    """One measurement."""

    batch: int
    seconds: float
    kind: str = ANY_KIND
    share: int = WHOLE_GPU


class LatencyTable:
    """Measured at some sizes and shares; linear between them, and beyond the largest size, where it
    never falls."""

    def __init__(self, points: Sequence[LatencyPoint]) -> None:
        if not points:
            raise BadInput("latency: the table is empty; give batch and ms in each row")
        for point in points:
            if point.batch < 1 or not point.seconds > 0 or not 1 <= point.share <= WHOLE_GPU:
                raise BadInput(
                    f"latency: batch {point.batch} in {point.seconds * 1e3:g} ms on {point.share} "
                    "thousandths of a GPU cannot be"
                )
        self.points = tuple(points)
        self._curves: dict[str, dict[int, dict[int, float]]] = {}
        for point in points:
            sizes = self._curves.setdefault(point.kind, {}).setdefault(point.share, {})
            if point.batch in sizes:
                raise BadInput(f"latency: {_named(point)} is there twice; keep one of them")
            sizes[point.batch] = point.seconds

    def seconds(self, batch: int, kind: str, share: int) -> float:
        shares = self._curves.get(kind) or self._curves.get(ANY_KIND)
        if shares is None:
            known = ", ".join(sorted(self._curves))
            raise BadInput(f"latency: nothing is known for GPUs of kind {kind!r}; there is {known}")
        by_share = {own: _at(sizes, batch) for own, sizes in shares.items()}
        if share in by_share:
            return by_share[share]
        if share < min(by_share):  # in proportion: no better is known
            return by_share[min(by_share)] * min(by_share) / share
        if share > max(by_share):
            return by_share[max(by_share)]
        return _at(by_share, share)


def read_profile(path: str) -> LatencyTable:
    """A CSV with the columns batch,ms[,kind,share]."""

    def reader(header: cells.Header) -> cells.Read[LatencyPoint]:
        batch = cells.column(header, "batch", cells.positive(cells.whole))
        ms = cells.column(header, "ms", cells.positive(cells.amount))
        kind = cells.column(header, "kind", cells.label) if "kind" in header else _any_kind
        share = cells.column(header, "share", cells.whole) if "share" in header else _whole_gpu
        return lambda row: LatencyPoint(batch(row), ms(row) / 1e3, kind(row), share(row))

    return LatencyTable([point for _, point in each(path, reader)])


def _named(point: LatencyPoint) -> str:
    kind = f" on {point.kind}" if point.kind else ""
    share = f" at share {point.share}" if point.share != WHOLE_GPU else ""
    return f"batch {point.batch}{kind}{share}"


def _any_kind(row: cells.Row) -> str:
    return ANY_KIND


def _whole_gpu(row: cells.Row) -> int:
    return WHOLE_GPU


def _at(values: Mapping[int, float], place: int) -> float:
    """On the line between the neighbours, or through the last two."""
    if place in values:
        return values[place]
    known = sorted(values)
    if place < known[0]:
        return values[known[0]]  # a smaller batch takes no longer
    above = next((one for one in known if one > place), known[-1])
    below = known[known.index(above) - 1] if len(known) > 1 else 0
    start, end = values.get(below, 0.0), values[above]
    if place > above and end < start:
        return end
    return start + (end - start) * (place - below) / (above - below)
