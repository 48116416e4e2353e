"""What became of the requests under each rule, as a table of at most 100 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dovetail.text.durations import latency_text
from dovetail.text.tables import figures_table, wrapped

_COLUMNS = (
    ("policy", "policy"),
    ("served", "served"),
    ("dropped", "dropped"),
    ("slo_attainment", "in SLO"),
    ("goodput_per_s", "good/s"),
    ("mean_latency_s", "mean"),
    ("p50_latency_s", "p50"),
    ("p99_latency_s", "p99"),
    ("gpu_hours", "GPU-h"),
    ("cost", "cost"),
    ("accuracy", "right"),
)
_TOKENS = (
    ("policy", "policy"),
    ("p50_first_token_s", "first p50"),
    ("p99_first_token_s", "first p99"),
    ("p50_between_tokens_s", "between p50"),
    ("p99_between_tokens_s", "between p99"),
    ("tokens_per_s", "tokens/s"),
)
_TRAINING = (
    ("policy", "policy"),
    ("training_done", "jobs done"),
    ("training_gpu_hours", "trained GPU-h"),
    ("training_of_idle", "of idle"),
    ("training_gave_way", "gave way"),
    ("training_lost_gpu_hours", "lost GPU-h"),
)
_ABOUT_TOKENS = (
    "first: from a request to its first token; between: the mean between the tokens of an answer; "
    "tokens/s: of all answers"
)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = _block(rows, _COLUMNS)
    if any("tokens_per_s" in row for row in rows):
        lines += ["", *_block(rows, _TOKENS), *wrapped(_ABOUT_TOKENS)]
    if too_long := max([row.get("too_long", 0) for row in rows], default=0):
        lines += wrapped(
            f"{too_long:,} dropped: with their answers they are longer than the KV memory of a replica"
        )
    if any("training_gpu_hours" in row for row in rows):
        lines += ["", *_block(rows, _TRAINING)]
    return "\n".join(lines)


def _block(rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str]]) -> list[str]:
    there = [(key, title) for key, title in columns if any(key in row for row in rows)]
    body = [[_cell(key, row.get(key)) for key, _ in there] for row in rows]
    return figures_table([[title for _, title in there], *body])


def _cell(key: str, value: Any) -> str:
    if value is None:
        return "-"
    if key in ("accuracy", "slo_attainment", "training_of_idle"):
        return percent(value)
    if key.endswith(("_latency_s", "_token_s", "_tokens_s")):
        return latency_text(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) and value < 1e4 else _plain(value)


def _plain(value: Any) -> str:
    return f"{value:,.0f}" if isinstance(value, float) else str(value)


def percent(part: float) -> str:
    """99.99 % is not 100 %."""
    return f"{part:.2%}" if part > 0.99 and part < 1 else f"{part:.1%}"
