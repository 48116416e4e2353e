"""`dovetail whatif`: the expected start, end and cost of a job that is not submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from dovetail.api.forecast_row import CostTold, OthersTold, OutcomeTold, Span, WhatIf
from dovetail.api.wire import read
from dovetail.cli.jobs.submit import (
    SubmitCommand,
    described_job,
    with_members,
    with_spec,
)
from dovetail.cli.reach import as_json, print_json, print_lines, with_client
from dovetail.client.connection import Client, RequestRefused
from dovetail.client.shell import as_sent
from dovetail.daemon.foresight.wording import folded, labelled, span_text
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.money import money_text
from dovetail.text.tables import Column, clean, table
from dovetail.text.times import clock

_UNSAID = "such a job"  # where nobody says what it runs
_IN_TIME = {
    "yes": "yes, in nine of ten cases or more",
    "likely": "likely: it is expected to be done by then, but may take longer",
    "perhaps": "perhaps, if things go faster than expected",
    "no": "no",
    "unknown": "unknown: nothing is known of how long it takes, or those before it",
}


@click.command(cls=SubmitCommand)
@described_job
@click.option("--by", metavar="TIME", help="What would make it by friday, 18:00, +2h, 2026-12-01?")
@as_json
@click.pass_context
@with_client
def whatif(client: Client, ctx: click.Context, by: str | None, as_json: bool, **asked: Any) -> None:
    """Say when a job would start and end, at what cost, and what would change that.

    The job is told as for dovetail submit: a command behind --, a YAML file, or a script; or by its
    options alone: dovetail whatif --gpus 2 --estimate 2h. Nothing is handed in.
    """
    is_command = ctx.meta["is_command"]
    if not asked["words"]:
        is_command, asked["words"] = True, (_UNSAID,)
        asked["name"] = asked["name"] or _UNSAID
    found = with_spec(asked, is_command, lambda spec: _ask(client, spec, by))
    if as_json:
        print_json(found)
    else:
        print_lines([clean(line) for line in _lines(found)])


def _ask(client: Client, spec: Mapping[str, Any], by: str | None) -> WhatIf:
    try:
        asked = {"spec": as_sent(spec)["spec"], "by": by}
        return read(WhatIf, client.post("/v1/whatif", asked))
    except RequestRefused as error:
        members = with_members(client, spec) if error.status == 404 else spec
        if members != spec:
            return _ask(client, members, by)
        if str(error).startswith("by:"):
            raise RequestRefused(error.status, f"--{error}") from None
        raise


# ----------------------------------------------------------------------------------------- telling


def _lines(found: WhatIf) -> Iterator[str]:
    asked, now = found.as_asked, found.now
    size = f"{counted(found.gpus, 'GPU')}, priority {found.priority:g}"
    yield from folded(f"{found.name} ({size}) {_times(asked, now)}.")
    yield ""
    for label, text in _facts(found):
        yield from labelled(label, text)
    yield ""
    if found.alternatives:
        yield from table(_columns(found), [asked, *found.alternatives])
    else:
        yield f"Nothing better was found; {counted(found.tried, 'alternative')} tried."


def _times(row: OutcomeTold, now: float) -> str:
    if row.start is None:
        return "would wait, until when is unknown"
    start, end = row.start, row.end
    if end is None:
        return f"would start {span_text(start, now)}; when it would end is unknown"
    told = f"would start {span_text(start, now)} and"
    if start.high is not None and end.low >= start.high:
        return f"{told} end {span_text(end, now)}"
    runs = duration_text(end.expected - start.expected)
    return f"{told} end {runs} after that: {span_text(end, now)}"


def _facts(found: WhatIf) -> Iterator[tuple[str, str]]:
    asked, now = found.as_asked, found.now
    if found.deadline is not None:
        late = asked.late_s
        told = "" if late is None else f", {duration_text(late)} too late" if late else ", in time"
        yield "due", f"{clock(found.deadline, now)}{told}"
    if found.by not in (None, found.deadline):
        yield "by then", f"{clock(found.by, now)}: {_IN_TIME[asked.in_time or 'unknown']}"
    unknown = f"unknown: {found.uncosted}"
    yield "cost", _cost_text(asked.cost, found.currency) if asked.cost else unknown
    yield "others", _others_text(asked.others)
    yield "rests on", f"{asked.rests_on}; policy {found.policy}"
    if found.limited:
        yield "note", found.limited


def _cost_text(cost: CostTold, currency: str) -> str:
    told = [f"{money_text(cost.energy)} for energy"]
    if cost.lateness:
        told.append(f"{money_text(cost.lateness)} for being late")
    if cost.others:
        told.append(f"{money_text(cost.others)} for others being late")
    return f"{money_text(cost.total, currency)}: {', '.join(told)}"


def _others_text(others: OthersTold) -> str:
    if not others.later:
        return "nobody else ends later"
    verb = "ends" if others.later == 1 else "end"
    most = f"job {others.job} most, by {duration_text(others.most_s)}"
    return f"{counted(others.later, 'other job')} {verb} later, {most}"


# ---------------------------------------------------------------------------------------- the table


def _columns(found: WhatIf) -> list[Column[OutcomeTold]]:
    now = found.now
    columns: list[Column[OutcomeTold]] = [
        Column("CHANGE", lambda row: row.change, least=20),
        Column("START", lambda row: _time(row.start, now)),
        Column("END", lambda row: _time(row.end, now)),
        Column("LATEST", lambda row: _latest(row.end, now)),
    ]
    if found.by is not None:
        columns.append(Column("IN TIME", lambda row: str(row.in_time)))
        columns.append(Column("LATE", _late, right=True))
    if found.as_asked.cost is not None:
        columns.append(Column(found.currency.upper() or "COST", _total, right=True))
    return [*columns, Column("OTHERS LATER", _others, right=True)]


def _time(span: Span | None, now: float) -> str:
    return "?" if span is None else clock(span.expected, now)


def _latest(span: Span | None, now: float) -> str:
    return "?" if span is None or span.high is None else clock(span.high, now)


def _late(row: OutcomeTold) -> str:
    return duration_text(row.late_s) if row.late_s else "-"


def _total(row: OutcomeTold) -> str:
    return "?" if row.cost is None else money_text(row.cost.total)


def _others(row: OutcomeTold) -> str:
    others = row.others
    return f"{others.later}, ≤ {duration_text(others.most_s)}" if others.later else "-"
