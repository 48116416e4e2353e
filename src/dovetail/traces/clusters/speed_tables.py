"""Tables of measured speeds: Gavel's (JSON or flat CSV), Pollux' placements, ElasticFlow's folders, and
our own CSV."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import inf
from os import PathLike, fspath
from os.path import exists, isdir
from pathlib import Path
from typing import NamedTuple, TypeGuard

from dovetail.core.errors import BadInput
from dovetail.models.speed_table import Hardware, ModelType, SpeedTable, model_type, plain
from dovetail.traces.clusters.speed_folders import folder_rows
from dovetail.traces.readers.cells import (
    CellError,
    Header,
    Read,
    Row,
    amount,
    blank_or,
    column,
    given,
    label,
    positive,
    shown,
    whole,
)
from dovetail.traces.readers.rows import each
from dovetail.traces.readers.text_files import opened

_APART = "_unconsolidated"  # Gavel's suffix for a gang that is spread over nodes
_GAVEL_KEY = re.compile(r"\('(?P<model>.*)', (?P<gpus>\d+)\)")
_OWN = "model,kind,gpus,steps_per_s"

Measured = tuple[ModelType, Hardware, float]


class MeasuredPair(NamedTuple):
    """Two models side by side on the same GPUs."""

    models: tuple[ModelType, ModelType]
    hardware: Hardware
    speeds: tuple[float, float]


def read_speed_table(path: str | PathLike[str], reference: str = "") -> SpeedTable:
    """`FILE` or, if a file holds several tables, `FILE#NAME`. Repeated measurements are averaged,
    except in our own CSV, where they are a mistake; 0 means not measured."""
    source = fspath(path)
    file, part = _file_and_part(source)
    sums: dict[ModelType, dict[Hardware, list[float]]] = {}
    pairs: dict[tuple[ModelType, ModelType], dict[Hardware, tuple[float, float]]] = {}
    for found in _rows(file, part):
        if isinstance(found, MeasuredPair):
            pairs.setdefault(found.models, {})[found.hardware] = found.speeds
        elif found[2] > 0:
            model, hardware, speed = found
            sums.setdefault(model, {}).setdefault(hardware, []).append(speed)
    speeds = {
        model: {hardware: sum(each) / len(each) for hardware, each in rows.items()}
        for model, rows in sums.items()
    }
    if not speeds:
        raise BadInput(_why_empty(file, part))
    return SpeedTable(speeds, reference, pairs)


def _why_empty(file: str, part: str) -> str:
    if not part:
        return f"{file}: the speed table has no speeds; give at least one row with more than 0"
    tables = dict.fromkeys(name for _, name in each(file, lambda own: column(own, "table", label)))
    return f"{file} has no table {part!r} with speeds; it has {shown(tables)}"


def _file_and_part(source: str) -> tuple[str, str]:
    if "#" not in source or exists(source):
        return source, ""
    file, _, part = source.rpartition("#")
    return file, part


def _rows(file: str, part: str) -> Iterator[Measured | MeasuredPair]:
    if isdir(file):
        _only_table(file, part)
        return folder_rows(Path(file))
    with opened(file) as text:
        is_json = text.read(1000).lstrip().startswith("{")
    if is_json:
        _only_table(file, part)
        return _gavel_json(file)
    return (found for _, found in each(file, lambda header: _reader(header, part)) if found)


def _only_table(file: str, part: str) -> None:
    if part:
        raise BadInput(f"{file} holds one table without a name; leave out #{part}")


def _reader(header: Header, part: str) -> Read[Measured | MeasuredPair | None]:
    if "table" not in header:
        _only_table(header.source, part)
    if "job_type" in header and "steps_per_s" in header:
        return _gavel_flat(header, part)
    if "placement" in header and "step_time" in header:
        return _pollux(header)
    if all(name in header for name in _OWN.split(",")):
        return _own(header)
    raise BadInput(
        f"{header.source} is no table of speeds (found: {shown(header.names)}); give the columns "
        f"{_OWN}, or a table of Gavel or Pollux"
    )


def _own(header: Header) -> Read[Measured | None]:
    """One row for each model, kind and number of GPUs; `batch` and `nodes` may be added."""
    model, kind = column(header, "model", _type), column(header, "kind", _kind)
    gpus, speed = column(header, "gpus", positive(whole)), column(header, "steps_per_s", amount)
    batch = column(header, "batch", blank_or(whole)) if "batch" in header else _nothing
    nodes = column(header, "nodes", blank_or(positive(whole))) if "nodes" in header else _nothing
    rows: dict[tuple[ModelType, Hardware], Row] = {}

    def measured(row: Row) -> Measured:
        own = model(row)
        own = own._replace(batch=batch(row) or own.batch)
        hardware = Hardware(kind(row), gpus(row), nodes(row) or 1)
        if hardware.nodes > hardware.gpus:
            raise CellError(f"column 'nodes': {hardware.nodes} is more than its GPUs")
        found = speed(row)
        first = rows.setdefault((own, hardware), row) if found else row
        if speed(first) != found:
            raise CellError(
                f"{shown(row)} says {found:g} steps a second, an earlier row {shown(first)} says "
                f"{speed(first):g}; keep one of them"
            )
        return own, hardware, found

    return measured


def _gavel_flat(header: Header, part: str) -> Read[Measured | MeasuredPair | None]:
    """Jobs alone on their GPUs or, where a row names a second one, beside it."""
    model, kind = column(header, "job_type", _type), column(header, "gpu", label)
    gpus, speed = (
        column(header, "scale_factor", positive(whole)),
        column(header, "steps_per_s", amount),
    )
    other = column(header, "co_job_type", label) if "co_job_type" in header else _no_text
    its_speed = (
        column(header, "co_steps_per_s", blank_or(amount)) if "co_job_type" in header else None
    )
    table = column(header, "table", label) if "table" in header else _no_text
    wanted = part

    def measured(row: Row) -> Measured | MeasuredPair | None:
        nonlocal wanted
        wanted = wanted or table(row)  # the first table of the file, unless one is named
        if table(row) != wanted:
            return None
        alone = _as_gavel(model(row), kind(row), gpus(row), speed(row))
        if not other(row) or alone is None or its_speed is None:
            return None if other(row) else alone
        both = alone[0], model_type(other(row))
        return MeasuredPair(both, alone[1], (alone[2], its_speed(row) or 0.0))

    return measured


def _gavel_json(file: str) -> Iterator[Measured | MeasuredPair]:
    with opened(file) as text:
        try:
            kinds = json.load(text)
        except ValueError as error:
            raise BadInput(f"{file} is no JSON: {error}") from None
    for kind, types in kinds.items():
        if not isinstance(types, dict):
            raise BadInput(
                f"{file}: {kind!r}: not as in Gavel's tables, where a kind has job types"
            )
        for key, speeds in types.items():
            found = _GAVEL_KEY.fullmatch(key)
            alone = speeds.get("null") if isinstance(speeds, dict) else None
            if found is None or not _is_speed(alone):
                raise BadInput(
                    f"{file}: {kind!r}, {key!r}: not as in Gavel's tables, where a key such as "
                    '"(\'A3C\', 1)" has steps a second under "null"'
                )
            measured = _as_gavel(model_type(found["model"]), kind, int(found["gpus"]), alone)
            if measured is not None:
                yield measured
                yield from _gavel_pairs(measured, speeds)


def _gavel_pairs(own: Measured, speeds: Mapping[str, object]) -> Iterator[MeasuredPair]:
    """As many GPUs each: Gavel's rows of other numbers are not for pairs."""
    for key, both in speeds.items():
        found = _GAVEL_KEY.fullmatch(key)
        if found is None or int(found["gpus"]) != own[1].gpus:
            continue
        if isinstance(both, list) and len(both) == 2 and all(map(_is_speed, both)):
            yield MeasuredPair((own[0], model_type(found["model"])), own[1], (both[0], both[1]))


def _is_speed(value: object) -> TypeGuard[float]:
    return type(value) in (int, float) and 0.0 <= value < inf  # type: ignore[operator]


def _as_gavel(model: ModelType, kind: str, gpus: int, speed: float) -> Measured | None:
    apart = kind.endswith(_APART)
    if gpus < 1 or (apart and gpus == 1):
        return None  # one GPU cannot be spread, whatever the table says
    return model, Hardware(plain(kind.removesuffix(_APART)), gpus, 2 if apart else 1), speed


def _pollux(header: Header) -> Read[Measured | None]:
    """`12` in `placement` is one GPU of a node and two of another."""
    model, batch = column(header, "model", _type), column(header, "local_bsz", whole)
    pieces, step_s = column(header, "placement", _pieces), column(header, "step_time", amount)
    cluster = column(header, "cluster", label) if "cluster" in header else _no_text

    def measured(row: Row) -> Measured | None:
        kind = cluster(row).partition("(")[0].rpartition("-")[2] or "gpu"
        where, seconds = pieces(row), step_s(row)
        if not seconds:
            return None
        own = model(row)._replace(batch=batch(row))
        return own, Hardware(plain(kind), sum(where), len(where)), 1.0 / seconds

    return measured


def _type(text: str) -> ModelType:
    found = model_type(given(text))
    if not found.model:
        raise CellError("names no model")
    return found


def _kind(text: str) -> str:
    return plain(given(text))


def _pieces(text: str) -> tuple[int, ...]:
    digits = given(text)
    if not digits.isdecimal() or "0" in digits:
        raise ValueError("is no placement; give a digit for the GPUs of each node, such as 12")
    return tuple(map(int, digits))


def _nothing(row: Row) -> int | None:
    return None


def _no_text(row: Row) -> str:
    return ""
