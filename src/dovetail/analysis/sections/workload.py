"""The workload in pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.analysis.policy_choice import percent
from dovetail.analysis.sections import html
from dovetail.insight.arriving import Arriving
from dovetail.insight.loading import Loaded
from dovetail.insight.tails import TailFit
from dovetail.insight.workload_figures import ENDS, Share, SubmissionWeek, WorkloadFigures
from dovetail.text.durations import duration_text

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def workload_section(work: WorkloadFigures, drawn: html.ChartsDrawn) -> str:
    return html.section(
        "workload",
        "1. The workload in pictures",
        html.finding(work.notices),
        html.charts(
            *(_arrivals(work.arriving, drawn) if work.arriving else ()),
            *(_load(work.load, drawn) if work.load else ()),
            *_sizes(work, drawn),
            *(_durations(work.tail, drawn) if work.tail else ()),
            *_weeks(work.weeks, drawn),
            *_owners(work, drawn),
            *_ends(work, drawn),
        ),
        _size_table(work),
        html.unmeasured(work.not_measured),
    )


def _arrivals(own: Arriving, drawn: html.ChartsDrawn) -> Iterator[str]:
    hours = [f"{hour:02}" for hour in range(24)]
    seen = [value for value in own.by_hour if value >= 0]
    most, least = max(seen), min(seen)
    when = "hour of the day" if own.dated else "hours since the first submission, modulo 24"
    title = (
        f"Most jobs come in hour {own.by_hour.index(most):02} ({most:.0f} an hour), fewest in "
        f"hour {own.by_hour.index(least):02} ({least:.1f})"
    )
    yield drawn.figure(
        title if most > least else f"{most:.1f} jobs come in every hour that the trace covers",
        _bars(hours, own.by_hour, "jobs an hour", when),
    )
    days = list(DAYS) if own.dated else [f"day {number}" for number in range(1, 8)]
    known = [value for value in own.by_day if value >= 0]
    if len(known) < 7:
        return
    busiest, calmest = own.by_day.index(max(known)), own.by_day.index(min(known))
    yield drawn.figure(
        f"{days[busiest]} brings most jobs ({max(known):,.0f} a day), {days[calmest]} fewest "
        f"({min(known):,.0f})",
        _bars(
            [day[:3] for day in DAYS] if own.dated else days,
            *(own.by_day, "jobs a day", "day of the week" if own.dated else "day"),
        ),
    )
    burst = "burstier than chance" if own.dispersion > 2 else "about as even as chance"
    yield drawn.figure(
        f"Arrivals are {burst}: the number of jobs in an hour varies {own.dispersion:.1f} times as "
        f"much as in a Poisson stream, {percent(own.same_second)} come within a second of another",
        {
            "kind": "grid",
            "rows": days,
            "columns": hours,
            "cells": own.by_both,
            "unit": "jobs an hour, mean",
            "across": when,
        },
        wide=True,
    )


def _bars(
    labels: Sequence[str], values: Sequence[float], up: str, across: str
) -> dict[str, object]:
    known = [None if value < 0 else value for value in values]
    return {
        "kind": "bars",
        "labels": labels,
        "series": [{"name": "", "values": known}],
        "up": up,
        "across": across,
    }


def _load(own: Loaded, drawn: html.ChartsDrawn) -> Iterator[str]:
    points = [[own.bin_s * (place + 0.5), gpus] for place, gpus in enumerate(own.gpus)]
    yield drawn.figure(
        f"The load is {percent(own.overall)} of {own.cluster_gpus:,} GPUs overall; in "
        f"{percent(own.above)} of the time jobs ask for more than there is",
        {
            "kind": "lines",
            "x": {"as": "seconds", "title": "time since the first submission"},
            "y": {"title": "GPUs busy if no job had to wait"},
            "lines": [{"name": "", "points": points, "step": True}],
            "levels": [{"at": own.cluster_gpus, "name": f"the cluster: {own.cluster_gpus:,} GPUs"}],
        },
        wide=True,
    )


def _sizes(work: WorkloadFigures, drawn: html.ChartsDrawn) -> Iterator[str]:
    sizes = work.sizes
    if len(sizes) < 2:
        return
    largest = max(sizes, key=lambda share: share.gpu_hours)
    hours = work.gpu_hours
    jobs = [share.jobs / work.jobs for share in sizes]
    series = [{"name": "of the jobs", "values": jobs}]
    title = f"{percent(max(jobs))} of the jobs ask for {_gpus(sizes[jobs.index(max(jobs))].name)}"
    if hours:
        series.append({"name": "of the GPU-hours", "values": [s.gpu_hours / hours for s in sizes]})
        title += (
            f"; jobs of {_gpus(largest.name)} ({percent(largest.jobs / work.jobs)} of all) hold "
            f"{percent(largest.gpu_hours / hours)} of the GPU-hours"
        )
    yield drawn.figure(
        title,
        {
            "kind": "bars",
            "labels": [share.name for share in sizes],
            "series": series,
            "as": "percent",
            "up": "share of the whole",
            "across": "GPUs a job asks for",
        },
    )


def _gpus(label: str) -> str:
    if label in ("none", "part"):
        return {"none": "no GPU", "part": "part of a GPU"}[label]
    return "1 GPU" if label == "1" else f"{label} GPUs"


def _durations(tail: TailFit, drawn: html.ChartsDrawn) -> Iterator[str]:
    if len(tail.longer_than) < 2:
        return
    weight = (
        f"tail index {tail.index:.2f} ({tail.index_low:.2f} to {tail.index_high:.2f})"
        if tail.index is not None
        else "no tail index"
    )
    points = [[time, part] for time, part in tail.longer_than if part > 0]
    yield drawn.figure(
        f"Half of the jobs run under {duration_text(tail.median_s)}, one in a hundred over "
        f"{duration_text(tail.p99_s)}: C² {tail.c2:.1f} (1 is exponential), {weight}",
        {
            "kind": "lines",
            "x": {"as": "seconds", "log": True, "title": "duration t (logarithmic)"},
            "y": {
                "as": "percent",
                "log": True,
                "title": "jobs that run longer than t (logarithmic)",
            },
            "lines": [{"name": "", "points": points, "step": True}],
        },
        hint="A straight line is a power law; the index is Hill's, from the longest twentieth. "
        "Below 2 the variance, below 1 the mean itself depends on the few longest jobs.",
    )


def _weeks(weeks: Sequence[SubmissionWeek], drawn: html.ChartsDrawn) -> Iterator[str]:
    shown = [week for week in weeks if week.median_s > 0]
    if len(shown) < 3:
        return
    medians = [week.median_s for week in shown]
    yield drawn.figure(
        f"The median duration of a week's jobs lies between {duration_text(min(medians))} and "
        f"{duration_text(max(medians))}: what was learnt in one week need not hold in the next",
        {
            "kind": "lines",
            "x": {"as": "seconds", "title": "week of submission (time since the first)"},
            "y": {"as": "seconds", "log": True, "title": "duration: median, band from 25 to 75 %"},
            "lines": [
                {
                    "name": "",
                    "points": [
                        [w.start_s, w.median_s, max(w.p25_s, 0.1), max(w.p75_s, 0.1)] for w in shown
                    ],
                }
            ],
        },
    )


def _owners(work: WorkloadFigures, drawn: html.ChartsDrawn) -> Iterator[str]:
    if len(work.owners) < 2 or not work.gpu_hours:
        return
    first = work.owners[0]
    noun = "users" if work.owner == "user" else "tenants"
    yield drawn.figure(
        f"Of {work.owners_in_all:,} {noun}, {first.name} takes most: "
        f"{percent(first.gpu_hours / work.gpu_hours)} of the GPU-hours with "
        f"{percent(first.jobs / work.jobs)} of the jobs",
        html.row_chart(
            [(_name(share), [html.at(share.gpu_hours)]) for share in work.owners],
            f"GPU-hours by {work.owner} (jobs in brackets)",
            bars=True,
        ),
    )


def _name(share: Share) -> str:
    return f"{share.name if len(share.name) <= 16 else share.name[:15] + '…'} ({share.jobs:,})"


def _ends(work: WorkloadFigures, drawn: html.ChartsDrawn) -> Iterator[str]:
    if work.ends is None:
        return
    bad = sum(work.ends[1:])
    shares = [share for share in work.sizes if share.jobs]
    yield drawn.figure(
        f"{percent(bad / work.jobs)} of the jobs do not finish: {work.ends[1]:,} fail, "
        f"{work.ends[2]:,} are cancelled",
        {
            "kind": "bars",
            "labels": [share.name for share in shares],
            "series": [
                {"name": ENDS[kind], "values": [share.ends[kind] / share.jobs for share in shares]}
                for kind in (1, 2)
            ],
            "as": "percent",
            "up": "share of the jobs of that size",
            "across": "GPUs a job asks for",
        },
    )


def _size_table(work: WorkloadFigures) -> str:
    ends = tuple(html.PageColumn(kind.capitalize()) for kind in ENDS[1:]) if work.ends else ()
    columns = (
        html.PageColumn("GPUs"),
        html.PageColumn("Jobs"),
        html.PageColumn("of all"),
        html.PageColumn("GPU-hours"),
        html.PageColumn("of all"),
        html.PageColumn("Median duration"),
        *ends,
    )
    hours = work.gpu_hours or 1.0
    rows = [
        (
            html.Cell(share.name, place),
            html.Cell(f"{share.jobs:,}", share.jobs),
            html.Cell(percent(share.jobs / work.jobs), share.jobs),
            html.Cell(f"{share.gpu_hours:,.0f}", share.gpu_hours),
            html.Cell(percent(share.gpu_hours / hours), share.gpu_hours),
            html.Cell(duration_text(share.median_duration_s), share.median_duration_s),
            *(html.Cell(f"{n:,}", n) for n in share.ends[1:] if work.ends),
        )
        for place, share in enumerate(work.sizes)
    ]
    return html.table("Jobs by size", columns, rows)
