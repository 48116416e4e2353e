"""The files of an analysis: report.html for people, its parts in order; analysis.json for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

from dovetail.analysis.driver import Analysis
from dovetail.analysis.policy_choice import percent
from dovetail.analysis.sections.contest import contest_section
from dovetail.analysis.sections.decision import decision_section
from dovetail.analysis.sections.factors import factors_section
from dovetail.analysis.sections.feature_list import catalogue_section, policies_section
from dovetail.analysis.sections.html import (
    ChartsDrawn,
    bullets,
    section,
)
from dovetail.analysis.sections.predictive import predictive_section
from dovetail.analysis.sections.verdict import verdict_section
from dovetail.analysis.sections.workload import workload_section
from dovetail.experiments.files import REPORT
from dovetail.reports.frame import framed
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text

ANALYSIS = "analysis.json"
SCRIPTS = ("tables.js", "axes.js", "analyze_charts.js", "analyze_main.js")
NAV = (
    ("verdict", "Verdict"),
    ("workload", "1 Workload"),
    ("catalogue", "2 Features and factors"),
    ("predictive", "3 What predicts durations"),
    ("decision", "4 What knowing it is worth"),
    ("factors", "5 What moves the gain"),
    ("contest", "6 Policies on this trace"),
    ("policies", "Policies"),
    ("unmeasured", "Not measured"),
)


def write(out: Path, analysis: Analysis) -> None:
    out.mkdir(parents=True, exist_ok=True)
    _put(out / ANALYSIS, json.dumps(plain(asdict(analysis)), indent=1, allow_nan=False) + "\n")
    _put(out / REPORT, render(analysis))


def _put(path: Path, text: str) -> None:
    """Written completely or not at all. A lone surrogate in a name must not cost the file."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(text.encode("utf-8", "replace"))
    part.replace(path)


def plain(value: Any) -> Any:
    """As JSON allows it: numbers that are not finite become null, numpy numbers plain ones."""
    if isinstance(value, dict):
        return {str(key): plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [plain(own) for own in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return None
    return value


def render(analysis: Analysis) -> str:
    drawn = ChartsDrawn()
    sections = "\n".join(_sections(analysis, drawn))
    links = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in NAV)
    return framed(
        "$sections\n",
        title=f"What matters here: {Path(analysis.source).name}",
        facts=_facts(analysis),
        data={"charts": plain(drawn.charts)},
        styles=("analyze.css",),
        scripts=SCRIPTS,
        nav=f'<nav aria-label="Parts of this page"><ol>{links}</ol></nav>',
        sections=sections,
    )


def _facts(analysis: Analysis) -> Iterator[str]:
    work = analysis.workload
    yield analysis.cluster
    yield counted(work.jobs, "job")
    if work.span_s:
        yield f"submitted over {duration_text(work.span_s)}"
    if work.gpu_hours:
        yield f"{work.gpu_hours:,.0f} GPU-hours"
    if work.load is not None:
        yield f"load {percent(work.load.overall)}"
    yield f"seed {analysis.seed}{', quick' if analysis.quick else ''}"


def _sections(analysis: Analysis, drawn: ChartsDrawn) -> Iterator[str]:
    problems = analysis.problems
    yield verdict_section(analysis.verdict, analysis.contest)
    yield workload_section(analysis.workload, drawn)
    yield catalogue_section(analysis.catalogue)
    yield predictive_section(
        analysis.predictive,
        analysis.rolling,
        drawn,
        [problems[name] for name in ("predictive", "rolling") if name in problems],
    )
    yield decision_section(analysis.decision, drawn, problems.get("decision", ""))
    yield factors_section(analysis.factors, drawn, problems.get("factors", ""))
    yield contest_section(analysis.contest, analysis.verdict, drawn, problems.get("contest", ""))
    yield policies_section(_named(analysis))
    yield _unmeasured(analysis)


def _named(analysis: Analysis) -> Iterator[str]:
    for item in analysis.catalogue.items:
        yield from item.policies
    if analysis.contest is not None:
        yield from (row.policy.partition(":")[0] for row in analysis.contest.tried)


def _unmeasured(analysis: Analysis) -> str:
    lines = [
        *analysis.notes,
        *analysis.workload.not_measured,
        *(f"{name}: {why}" for name, why in analysis.problems.items()),
    ]
    for part in (
        analysis.predictive,
        analysis.rolling,
        analysis.decision,
        analysis.factors,
        analysis.contest,
    ):
        lines += part.not_measured if part is not None else ()
    return section(
        "unmeasured",
        "What could not be measured, and what was assumed",
        bullets(dict.fromkeys(lines)) or "<p>Everything that was asked could be measured.</p>",
    )
