"""A description as plain text, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from dovetail.core.model import Seconds
from dovetail.traces.description import Description
from dovetail.traces.readers.cells import clipped

WIDTH = 100
NAMES = 14
SPOKEN = {"": "made here", "-": "standard input"}
UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))


def rendered(figures: Description) -> str:
    return "\n".join(line.rstrip()[:WIDTH] for line in [*_lines(figures), "", *_table(figures)])


def _lines(figures: Description) -> Iterator[str]:
    for name, text in _facts(figures):
        yield f"{name:<{NAMES}}{text}"


def _facts(figures: Description) -> Iterator[tuple[str, str]]:
    source = SPOKEN.get(figures.source, figures.source)
    yield "trace", f"{clipped(source)} ({figures.format})"
    yield "jobs", f"{figures.jobs:,} submitted over {span(figures.span_s)}"
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
    return (
        f"mean {span(figures.duration_mean_s)}, median {span(figures.duration_p50_s)}, "
        f"p90 {span(figures.duration_p90_s)}, p99 {span(figures.duration_p99_s)}"
    )


def _load(figures: Description) -> str:
    where = f"on {figures.cluster_gpus:,} GPUs"
    if figures.load is None or figures.peak_day_load is None:
        return f"{where}: none to speak of, all jobs come at once"
    peak = f"{percent(figures.peak_day_load)} on day {figures.peak_day}"
    return f"{where}: {percent(figures.load)} overall, at most {peak}"


def _table(figures: Description) -> Iterator[str]:
    yield f"{'GPUs':>8}{'jobs':>12}{'of jobs':>10}{'GPU-hours':>16}{'of work':>10}{'median':>12}"
    for size in figures.sizes:
        jobs, work = size.jobs / figures.jobs, size.gpu_hours / (figures.gpu_hours or 1.0)
        yield (
            f"{size.gpus:>8}{size.jobs:>12,}{jobs:>10.1%}{size.gpu_hours:>16,.1f}{work:>10.1%}"
            f"{span(size.median_duration_s):>12}"
        )


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def percent(part: float) -> str:
    """Two digits, however little it is."""
    return f"{part:.0%}" if part >= 0.0995 or not part else f"{100 * part:.2g}%"


def span(seconds: Seconds) -> str:
    """`90 s` is `1.5 min`."""
    for unit, name in UNITS:
        if seconds >= unit:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.3g} s"
