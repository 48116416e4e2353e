"""The summary as a table: one row per policy, units in the headings, the best of a column marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from math import isfinite

from dovetail.text.durations import MILLISECOND, unit_of

Summary = Mapping[str, float | int | str]


@dataclass(frozen=True, slots=True)
class SummaryColumn:
    """A key of the summary and how to show it."""

    key: str
    group: str
    label: str
    unit: str = ""  # "s" and "GPU-s" are scaled to minutes, hours or days
    best: str = ""  # "low", "high", or nothing where neither is better


@dataclass(frozen=True, slots=True)
class Scaled:
    """A column with its unit chosen."""

    column: SummaryColumn
    unit: str
    divisor: float
    values: Sequence[float | None]

    def text(self, value: float | None) -> str:
        """All cells of a column have as many decimals as give the median three digits."""
        if value is None:
            return "–"
        shown = value / self.divisor
        if self.divisor == 1.0 and all(own is None or own == int(own) for own in self.values):
            return f"{shown:,.0f}"
        middle = _middle(self.values) / self.divisor
        decimals = 0 if middle >= 100 else 1 if middle >= 10 else 2 if middle >= 1 else None
        return number(shown) if decimals is None else f"{shown:,.{decimals}f}"


COST = "Cost"
KNOWN = (
    SummaryColumn("requests", "Requests", "all"),
    SummaryColumn("served", "Requests", "answered", best="high"),
    SummaryColumn("dropped", "Requests", "dropped"),
    SummaryColumn("slo_attainment", "Requests", "in SLO", "%", "high"),
    SummaryColumn("goodput_per_s", "Requests", "in SLO a second", best="high"),
    SummaryColumn("mean_latency_s", "Latency", "mean", "s", "low"),
    SummaryColumn("p50_latency_s", "Latency", "p50", "s", "low"),
    SummaryColumn("p99_latency_s", "Latency", "p99", "s", "low"),
    SummaryColumn("p50_first_token_s", "Time to first token", "p50", "s", "low"),
    SummaryColumn("p99_first_token_s", "Time to first token", "p99", "s", "low"),
    SummaryColumn("p50_between_tokens_s", "Between tokens", "p50", "s", "low"),
    SummaryColumn("p99_between_tokens_s", "Between tokens", "p99", "s", "low"),
    SummaryColumn("tokens_per_s", "Tokens", "a second", best="high"),
    SummaryColumn("gpu_hours", COST, "GPU-hours", best="low"),
    SummaryColumn("cost", COST, "in all", best="low"),
    SummaryColumn("training_done", "Training", "jobs done", best="high"),
    SummaryColumn("training_gpu_hours", "Training", "GPU-hours", best="high"),
    SummaryColumn("training_of_idle", "Training", "of idle", "%", "high"),
    SummaryColumn("training_gave_way", "Training", "gave way"),
    SummaryColumn("training_lost_gpu_hours", "Training", "lost GPU-hours", best="low"),
    SummaryColumn("finished", "Jobs", "finished", best="high"),
    SummaryColumn("failed", "Jobs", "failed"),
    SummaryColumn("cancelled", "Jobs", "cancelled"),
    SummaryColumn("refused", "Jobs", "refused", best="low"),
    SummaryColumn("mean_jct_s", "Completion time", "mean", "s", "low"),
    SummaryColumn("p50_jct_s", "Completion time", "p50", "s", "low"),
    SummaryColumn("p90_jct_s", "Completion time", "p90", "s", "low"),
    SummaryColumn("p99_jct_s", "Completion time", "p99", "s", "low"),
    SummaryColumn("mean_wait_s", "Waiting", "mean", "s", "low"),
    SummaryColumn("makespan_s", "Whole run", "makespan", "s", "low"),
    SummaryColumn("gpu_utilisation", "GPUs", "in use", "%", "high"),
    SummaryColumn("gpu_seconds_used", "GPUs", "used", "GPU-s"),
    SummaryColumn("gpu_seconds_lost", "GPUs", "lost", "GPU-s", "low"),
    SummaryColumn("preemptions", "Interruption", "preemptions"),
    SummaryColumn("resizes", "Interruption", "resizes"),
    SummaryColumn("peak_suspended_jobs", "Interruption", "peak suspended"),
    SummaryColumn("migrations", "Interruption", "moves"),
    SummaryColumn("total_cost", COST, "total", best="low"),
    SummaryColumn("energy_cost", COST, "energy", best="low"),
    SummaryColumn("tardiness_cost", COST, "lateness", best="low"),
    SummaryColumn("move_cost", COST, "moves", best="low"),
    SummaryColumn("energy_kwh", COST, "energy", "kWh", "low"),
    SummaryColumn("co2_kg", COST, "CO2", "kg", "low"),
    SummaryColumn("switch_ons", COST, "nodes switched on"),
    SummaryColumn("deadline_misses", COST, "late jobs", best="low"),
    SummaryColumn("tardiness_s", COST, "lateness", "s", "low"),
    SummaryColumn("cpu_seconds", "Scheduler", "CPU time", "s", "low"),
    SummaryColumn("jobs_per_cpu_second", "Scheduler", "speed", "jobs/s", "high"),
    SummaryColumn("searches", "Scheduler", "searches"),
    SummaryColumn("search_passes", "Scheduler", "their passes"),
    SummaryColumn("searches_cut", "Scheduler", "cut short"),
)
SAID_ELSEWHERE = frozenset({"policy", "jobs", "pareto"})


def number(value: float) -> str:
    """Three significant digits at least, integers in full, thousands separated."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"


def table(summaries: Sequence[tuple[str, Summary]]) -> str:
    """The table as HTML. Policies and keys may be a user's text."""
    columns = [_scaled(column, summaries) for column in _columns(summaries)]
    rows = [
        f'<tr><th scope="row">{escape(policy)}</th>'
        + "".join(_cell(column, index) for column in columns)
        + "</tr>"
        for index, (policy, _) in enumerate(summaries)
    ]
    groups = [
        f'<th scope="colgroup" colspan="{len(list(members))}">{escape(group)}</th>'
        for group, members in groupby(columns, key=lambda column: column.column.group)
    ]
    return (
        '<table class="sortable summary"><caption class="unseen">Summary by policy</caption>'
        f'<thead><tr class="groups"><td></td>{"".join(groups)}</tr>'
        '<tr class="keys"><th scope="col">Policy</th>'
        f"{''.join(map(_heading, columns))}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _columns(summaries: Sequence[tuple[str, Summary]]) -> list[SummaryColumn]:
    """The known columns that occur, then any others that hold numbers."""
    present = dict.fromkeys(
        key for _, summary in summaries for key in summary if _value(summary, key) is not None
    )
    known = [column for column in KNOWN if column.key in present.keys() - _zeros(summaries)]
    others = present.keys() - {column.key for column in KNOWN} - SAID_ELSEWHERE
    return known + [_guessed(key) for key in present if key in others]


def _zeros(summaries: Sequence[tuple[str, Summary]]) -> set[str]:
    """Known keys that are zero for every policy: a sentence instead of a column."""
    return {
        column.key
        for column in KNOWN
        if summaries and all(_value(summary, column.key) == 0 for _, summary in summaries)
    }


def zeros_sentence(summaries: Sequence[tuple[str, Summary]]) -> str:
    """A sentence such as "Zero throughout: jobs refused, preemptions."."""
    zeros = _zeros(summaries)
    names = [
        f"jobs {column.label}" if column.group == "Jobs" else column.key.replace("_", " ")
        for column in KNOWN
        if column.key in zeros and column.group != COST
    ]
    return f"Zero throughout: {', '.join(names)}." if names else ""


def _guessed(key: str) -> SummaryColumn:
    stem = key.removesuffix("_s")
    return SummaryColumn(key, "Further", stem.replace("_", " "), "" if stem == key else "s")


def _value(summary: Summary, key: str) -> float | None:
    value = summary.get(key)
    if isinstance(value, str) or value is None or not isfinite(value):
        return None
    return float(value)


def _scaled(column: SummaryColumn, summaries: Sequence[tuple[str, Summary]]) -> Scaled:
    """Columns of one group and quantity share the unit that suits their median: one outlier should
    not set it for all."""
    values = [_value(summary, column.key) for _, summary in summaries]
    alike = [own.key for own in KNOWN if (own.group, own.unit) == (column.group, column.unit)]
    shared = [_value(summary, key) for _, summary in summaries for key in (alike or [column.key])]
    middle = _middle(shared)
    if column.unit == "s" and middle:
        divisor, unit = unit_of(middle) if middle >= 0.5 else MILLISECOND
    elif column.unit == "GPU-s":
        unit, divisor = ("GPU-h", 3600.0) if middle >= 3600 else ("GPU-s", 1.0)
    else:
        unit, divisor = column.unit, 0.01 if column.unit == "%" else 1.0
    return Scaled(column, unit, divisor, values)


def _middle(values: Sequence[float | None]) -> float:
    sizes = sorted(abs(value) for value in values if value)
    return sizes[(len(sizes) - 1) // 2] if sizes else 0.0


def _heading(column: Scaled) -> str:
    unit = f' <span class="unit">{escape(column.unit)}</span>' if column.unit else ""
    key = escape(column.column.key)
    return f'<th scope="col" title="{key}">{escape(column.column.label)}{unit}</th>'


def _is_best(column: Scaled, value: float) -> bool:
    """Values that look equal count as equal; a column of equal values has no best."""
    known = [each for each in column.values if each is not None]
    if not column.column.best or len({column.text(each) for each in known}) < 2:
        return False
    best = min(known) if column.column.best == "low" else max(known)
    return column.text(value) == column.text(best)


def _cell(column: Scaled, index: int) -> str:
    value = column.values[index]
    shown = column.text(value)
    if value is None:
        return f"<td>{shown}</td>"
    if _is_best(column, value):
        shown = f'<strong>{shown}<span class="unseen"> (best)</span></strong>'
    return f'<td data-value="{value!r}" title="{value:,.12g}">{shown}</td>'
