"""Recorded requests: ours (arrival_s,service[,slo_s,prompt_tokens,output_tokens,adapter,input]),
and Azure's traces of language models as they are (TIMESTAMP,ContextTokens,GeneratedTokens)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Protocol, TypeAlias

from dovetail.core.errors import BadInput
from dovetail.serving.request import Request
from dovetail.traces.readers.cells import header_of
from dovetail.traces.readers.rows import dates, first_line
from dovetail.traces.readers.text_files import opened

OURS = ("arrival_s", "service")
AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MORE = ("slo_s", "prompt_tokens", "output_tokens", "adapter", "input")
LONGEST_S = 1e12
MOST_TOKENS = 10**8
MOST_DIGITS = 20  # of a number of tokens, zeros in front included

Row: TypeAlias = list[str]


class _Rows(Protocol):
    """What `csv.reader` returns."""

    @property
    def line_num(self) -> int: ...

    def __iter__(self) -> Iterator[Row]: ...


Make = Callable[[Row], Request]


def read_requests(path: str, slos: Mapping[str, float]) -> Iterator[Request]:
    """One by one. `slos`: seconds by service, for requests that name none; in Azure's traces all are
    to the only service."""
    with opened(path) as text:
        line, skipped = first_line(path, text)
        rows = csv.reader(chain([line], text), strict=True)
        header = [cell.strip() for cell in next(rows)]
        yield from _checked(path, rows, skipped, _maker(path, header, slos))


def _maker(path: str, header: Row, slos: Mapping[str, float]) -> Make:
    header_of(path, header)  # no column stands twice
    if set(AZURE) <= set(header):
        return _azure(path, header, slos)
    missing = [name for name in OURS if name not in header]
    if missing:
        raise BadInput(
            f"{path}: a table of requests has the columns {','.join(OURS)}[,{','.join(MORE)}], or "
            f"Azure's {','.join(AZURE)}; {missing[0]} is missing"
        )
    return _ours(header, slos)


def _checked(path: str, rows: _Rows, skipped: int, make: Make) -> Iterator[Request]:
    """None earlier than the one before; anything else is one line that names the line."""
    before = -inf
    try:
        for row in rows:
            if not row:
                continue
            request = make(row)
            if not max(before, -LONGEST_S) <= request[0] <= LONGEST_S:
                raise ValueError(_out_of_order(request[0], before))
            before = request[0]
            yield request
    except (ValueError, IndexError, csv.Error) as error:
        why = "the row has too few cells" if isinstance(error, IndexError) else error
        raise BadInput(f"{path}:{skipped + rows.line_num}: {why}") from None
    if before == -inf:
        raise BadInput(f"{path} has no requests below its header")


def _out_of_order(at: float, before: float) -> str:
    if -LONGEST_S <= at < before:
        return f"the request comes at {at:.10g} s, before the one above it; sort the file by time"
    return f"the request comes at {at:g} s, which is no time"


def _ours(header: Sequence[str], slos: Mapping[str, float]) -> Make:
    at, service = header.index("arrival_s"), header.index("service")
    if not set(MORE) & set(header):

        def plain(row: Row) -> Request:
            name = row[service]
            try:
                slo = slos[name]
            except KeyError:
                raise ValueError(_unknown(name, slos)) from None
            when = _number(row[at], "arrival_s")
            return Request(when, name, when + slo)

        return plain
    own_slo, prompt, output, *words = (
        header.index(name) if name in header else -1 for name in MORE
    )

    def whole(row: Row) -> Request:
        name = row[service]
        if name not in slos:
            raise ValueError(_unknown(name, slos))
        when = _number(row[at], "arrival_s")
        slo = _slo(row[own_slo]) if own_slo >= 0 and row[own_slo] else slos[name]
        tokens = _tokens(row, prompt), _tokens(row, output)
        return Request(when, name, when + slo, *tokens, *[_word(row, place) for place in words])

    return whole


def _azure(path: str, header: Sequence[str], slos: Mapping[str, float]) -> Make:
    if len(slos) != 1:
        raise BadInput(
            f"{path}: the requests of an Azure trace name no service, so the services file must have "
            f"one; it has {len(slos)}"
        )
    ((name, slo),) = slos.items()
    time, prompt, output = (header.index(column) for column in AZURE)
    since_epoch, start = dates(), inf

    def made(row: Row) -> Request:
        nonlocal start
        at = since_epoch(row[time][:26])  # it has seven digits after the point
        start = min(start, at)
        when = at - start
        return Request(when, name, when + slo, _tokens(row, prompt), _tokens(row, output))

    return made


def _unknown(name: str, slos: Mapping[str, float]) -> str:
    known = ", ".join(sorted(slos)[:5])
    return f"there is no service {name[:60]!r} in the services file; it has {known}"


def _word(row: Row, place: int) -> str:
    return row[place] if place >= 0 else ""


def _number(text: str, column: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"column {column!r}: {text[:60]!r} is not a number") from None


def _slo(text: str) -> float:
    slo = _number(text, "slo_s")
    if not slo > 0:
        raise ValueError(f"column 'slo_s': {text[:60]!r} is not above 0")
    return slo


def _tokens(row: Row, place: int) -> int:
    text = row[place].strip() if place >= 0 else ""
    if not text:
        return 0
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) > MOST_TOKENS:
        raise ValueError(f"{text[:60]!r} is not a number of tokens")
    return int(text)
