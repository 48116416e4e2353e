"""Power tables: time and watts of a model under each power limit, measured per GPU kind.

One row for each model and limit. Our own columns are `model,power_limit,time,watts` and, if one
file is for several kinds of GPU, `kind`; the tables of Zeus are understood as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dovetail.core.errors import BadInput
from dovetail.models.power import Limited, PowerTable
from dovetail.traces.readers.cells import (
    Header,
    Read,
    Row,
    amount,
    column,
    given,
    positive,
    shown,
    whole,
)
from dovetail.traces.readers.rows import each

ZEUS = ("dataset", "network", "batch_size", "optimizer")  # together they name a model
TIMES = ("time", "time_s", "time_per_epoch", "seconds")
WATTS = ("watts", "average_power")


class _Measured(NamedTuple):
    kind: str
    model: str
    limit: int
    time: float
    watts: float


def read_power_tables(texts: Sequence[str], kinds: Sequence[str] | None = None) -> PowerTable:
    """From texts such as `V100=zeus.csv`, or a file alone that has a column `kind`. Every GPU kind
    must be one of those given, if any are."""
    found: dict[tuple[str, str], dict[int, _Measured]] = {}
    for text in texts:
        for where, row in _rows(text, kinds):
            steps = found.setdefault((row.model, row.kind), {})
            if row.limit in steps:
                raise BadInput(
                    f"{where}: model {row.model!r} has two rows for {row.limit} W on {row.kind!r}; "
                    "keep one"
                )
            steps[row.limit] = row
    return PowerTable({key: _steps(list(steps.values())) for key, steps in found.items()})


def _rows(text: str, kinds: Sequence[str] | None) -> Iterator[tuple[str, _Measured]]:
    kind, _, path = text.rpartition("=")
    empty = True
    for line, row in each(path, lambda header: _reader(header, kind)):
        empty = False
        if kinds is not None and row.kind not in kinds:
            raise BadInput(
                f"{path}:{line}: no node has GPUs of kind {row.kind!r}; there is {', '.join(kinds)}"
            )
        yield f"{path}:{line}", row
    if empty:
        raise BadInput(f"{path} has no rows below its header; give one for each model and limit")


def _reader(header: Header, kind: str) -> Read[_Measured]:
    if not kind and "kind" not in header:
        raise BadInput(
            f"{header.source}: there is no column 'kind' ({shown(header.names)}); add one, or say "
            f"which GPUs it is for: KIND={header.source}"
        )
    kinds = column(header, "kind", given) if not kind else lambda row: kind
    model = _model(header)
    limit = column(header, "power_limit", positive(whole))
    time = column(header, _present(header, TIMES), positive(amount))
    watts = column(header, _present(header, WATTS), positive(amount))
    return lambda row: _Measured(kinds(row), model(row), limit(row), time(row), watts(row))


def _model(header: Header) -> Read[str]:
    """The model's name, or its columns in the tables of Zeus: `cifar100/shufflenetv2/1024/adam`."""
    if "model" in header:
        return column(header, "model", given)
    parts = [column(header, name, given) for name in ZEUS if name in header]
    if not parts:
        raise BadInput(f"{header.source}: there is no column 'model' ({shown(header.names)})")

    def joined(row: Row) -> str:
        return "/".join([part(row) for part in parts])

    return joined


def _present(header: Header, names: Sequence[str]) -> str:
    return next((name for name in names if name in header), names[0])


def _steps(rows: Sequence[_Measured]) -> list[Limited]:
    """Ordered by their limits; the highest limit counts as none."""
    highest = max(rows, key=lambda row: row.limit)
    return [
        Limited(0 if row is highest else row.limit, row.time / highest.time, row.watts)
        for row in sorted(rows, key=lambda row: -row.limit)
    ]
