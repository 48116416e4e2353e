"""A description as plain text, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.tables import WIDTH, figures_table
from dovetail.traces.description import Description
from dovetail.traces.readers.cells import clipped

NAMES = 14
SPOKEN = {"": "made here", "-": "standard input"}


def rendered(figures: Description) -> str:
    return "\n".join(line.rstrip()[:WIDTH] for line in [*_lines(figures), "", *_table(figures)])


def _lines(figures: Description) -> Iterator[str]:
    for name, text in _facts(figures):
        yield f"{name:<{NAMES}}{text}"


def _facts(figures: Description) -> Iterator[tuple[str, str]]:
    source = SPOKEN.get(figures.source, figures.source)
    yield "trace", f"{clipped(source)} ({figures.format})"
    yield "jobs", f"{figures.jobs:,} submitted over {duration_text(figures.span_s)}"
    if figures.bad_rows:
        yield "bad rows", f"{figures.bad_rows:,} skipped"
    yield (
        "GPUs a job",
        f"min {figures.gpus_min}, median {figures.gpus_median}, max {figures.gpus_max}",
    )
    if figures.part_of_gpu:
        yield "", f"{figures.part_of_gpu:.1%} of the jobs ask for part of a GPU"
    yield "durations", _durations(figures)
    yield "", f"C² {figures.duration_c2:.2f} (1 is exponential, more is more uneven)"
    yield "work", f"{figures.gpu_hours:,.1f} GPU-hours"
    yield "people", f"{counted(figures.users, 'user')}, {counted(figures.tenants, 'tenant')}"
    if figures.jobs_that_fail:
        fail = "fails" if figures.jobs_that_fail == 1 else "fail"
        yield "failures", f"{counted(figures.jobs_that_fail, 'job')} {fail} at least once"
    if figures.cluster_gpus is not None:
        yield "load", _load(figures)
    for note in figures.notes:
        for part, text in enumerate(wrap(note, WIDTH - NAMES)):
            yield "" if part else "note", text


def _durations(figures: Description) -> str:
    told = {
        "mean": figures.duration_mean_s,
        "median": figures.duration_p50_s,
        "p90": figures.duration_p90_s,
        "p99": figures.duration_p99_s,
    }
    return ", ".join(f"{name} {duration_text(seconds)}" for name, seconds in told.items())


def _load(figures: Description) -> str:
    where = f"on {figures.cluster_gpus:,} GPUs"
    if figures.load is None or figures.peak_day_load is None:
        return f"{where}: none to speak of, all jobs come at once"
    peak = f"{percent(figures.peak_day_load)} on day {figures.peak_day}"
    return f"{where}: {percent(figures.load)} overall, at most {peak}"


def _table(figures: Description) -> list[str]:
    rows = [["GPUs", "jobs", "of jobs", "GPU-hours", "of work", "median"]]
    for size in figures.sizes:
        jobs, work = size.jobs / figures.jobs, size.gpu_hours / (figures.gpu_hours or 1.0)
        rows.append(
            [
                *(size.gpus, f"{size.jobs:,}", f"{jobs:.1%}", f"{size.gpu_hours:,.1f}"),
                *(f"{work:.1%}", duration_text(size.median_duration_s)),
            ]
        )
    return figures_table(rows)


def percent(part: float) -> str:
    """Two digits, however little it is."""
    return f"{part:.0%}" if part >= 0.0995 or not part else f"{100 * part:.2g}%"
