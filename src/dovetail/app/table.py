"""Summaries as a plain table that fits a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_COLUMNS = (
    ("policy", "policy"),
    ("finished", "done"),
    ("mean_jct_s", "mean JCT"),
    ("p50_jct_s", "median"),
    ("p99_jct_s", "p99"),
    ("mean_wait_s", "wait"),
    ("makespan_s", "makespan"),
    ("gpu_utilisation", "GPU use"),
    ("preemptions", "preempts"),
)
_OTHER_ENDS = ("failed", "cancelled", "refused")
_WIDTH = 100


def table(summaries: Sequence[Mapping[str, float | int | str]]) -> str:
    """One row per policy; times in a readable unit."""
    rows = [[title for _, title in _COLUMNS]]
    rows += [[_cell(key, summary[key]) for key, _ in _COLUMNS] for summary in summaries]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    widths[0] = min(widths[0], _WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1))
    for row in rows:
        row[0] = row[0] if len(row[0]) <= widths[0] else row[0][: widths[0] - 1] + "…"
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join([*lines, *_other_ends(summaries)])


def _other_ends(summaries: Sequence[Mapping[str, float | int | str]]) -> list[str]:
    """Jobs that did not finish are said in a line of their own, never left out."""
    lines = []
    for summary in summaries:
        counts = [f"{summary[key]} {key}" for key in _OTHER_ENDS if summary[key]]
        if counts:
            lines.append(f"{summary['policy']}: of {summary['jobs']} jobs {', '.join(counts)}")
    return lines


def _cell(key: str, value: float | int | str) -> str:
    if key == "gpu_utilisation":
        return f"{float(value):.1%}"
    if key.endswith("_s"):
        return duration(float(value))
    return str(value)


def duration(seconds: float) -> str:
    """3.2 s, 14.0 min, 5.1 h or 12.3 d."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
