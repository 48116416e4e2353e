"""Where a job runs, how far it is, until when, and what may preempt it."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.api.why_row import NextPreemption, WhyRunning
from dovetail.client.job_words import reported
from dovetail.core.model import WHOLE_GPU, Node, gpus_of
from dovetail.core.paces import latest_first
from dovetail.core.track import Phase
from dovetail.daemon.foresight.case import Case
from dovetail.daemon.foresight.wording import folded, labelled, screen, shortened, span_text
from dovetail.daemon.gpus_told import gpu_number
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.promises import promise_text
from dovetail.text.speeds import speeds_text
from dovetail.text.times import clock_near
from dovetail.workloads.service.kind import services_of

_MOST_METRICS = 4


def why_running(case: Case) -> WhyRunning:
    track = case.track
    starting = track.phase is Phase.STARTING
    gives_way = case.forecast.gives_way.get(track.job.id)
    found = WhyRunning(
        **case.head(),
        reason="starting" if starting else "running",
        because="its processes are being brought up" if starting else "it has its GPUs",
        since=case.unix(track.started_at),
        first_start=case.unix(track.first_start_at),
        where=_where(case),
        progress=_progress(case),
        speed=speeds_text(latest_first(track.paces)),
        size=_size(case),
        gives_way=None
        if gives_way is None
        else NextPreemption(expected=gives_way[0], to=gives_way[1]),
        cannot_give_way=track.stays,
    )
    found.text = screen(_lines(case, found))
    return found


def _where(case: Case) -> str:
    placement, nodes = case.track.placement, case.state.room.nodes
    assert placement is not None
    by_node: dict[int, list[str]] = {}
    for n, gpu in gpus_of(placement):
        by_node.setdefault(n, []).append(str(gpu_number(nodes[n], gpu)))
    places = [
        f"{_word(nodes[n])}{'' if len(gpus) == 1 else 's'} {', '.join(gpus)} of {nodes[n].id}"
        for n, gpus in by_node.items()
    ] or [f"node {nodes[placement.slices[0].node].id}"]
    part = f" (a share of {placement.share / WHOLE_GPU:g})" if placement.share < WHOLE_GPU else ""
    return "; ".join(places) + part


def _word(node: Node) -> str:
    return "slot" if node.kind == "cpu" else "GPU"


def _size(case: Case) -> str:
    """Of an elastic job: how many GPUs it has of how many, and why no more."""
    track, policy = case.track, case.policy
    assert track.placement is not None
    gpus, most = track.placement.gpus, track.job.most_gpus
    if not track.job.elastic or gpus >= most:
        return ""
    because = f"policy {case.likeness.policy} gives a job what it asked for"
    if hasattr(policy, "why_no_more"):
        because = policy.why_no_more(case.state, track)
    return f"{gpus} of up to {most} GPUs because {because}"


def _progress(case: Case) -> str:
    track = case.track
    if track.reported_at < 0:
        return ""
    parts, metrics = reported(track.step, track.metrics)
    for name, value in list(metrics.items())[:_MOST_METRICS]:
        shown = f"{value:.4g}" if isinstance(value, float | int) else shortened(str(value), 20)
        parts.append(f"{shortened(name, 20)} {shown}")
    ago = duration_text(case.now - case.unix(track.reported_at))
    return f"{', '.join(parts)} ({ago} ago)"


def _lines(case: Case, found: WhyRunning) -> Iterator[str]:
    track, now = case.track, case.now
    verb = "is being started" if track.phase is Phase.STARTING else "runs"
    yield from folded(f"{case.name(track.job.id)} {verb} on {found.where}.")
    text = f"since {clock_near(found.since, now)} ({duration_text(now - found.since)})"
    if found.first_start < found.since:
        text += f", for the first time at {clock_near(found.first_start, now)}"
    yield f"{text}; policy {found.policy}"
    yield ""
    if found.progress:
        yield from labelled("progress", found.progress)
    if found.speed:
        yield from labelled("speed", found.speed)
    if found.size:
        yield from labelled("size", found.size)
    service = services_of(case.state).of(track)
    if service is not None:
        yield from labelled("ends", f"when service {service.design.name} does not need it any more")
    elif found.end is None:
        yield from labelled("ends", "unknown")
    else:
        yield from labelled("ends", f"expected {span_text(found.end, now)}")
        yield from labelled("", f"that rests on {found.rests_on}")
    if found.promise is not None:
        yield from labelled("deadline", promise_text(found.promise, now))
    if track.job.time_limit_s is not None:
        left = track.job.time_limit_s - track.held_by(case.likeness.now)
        yield from labelled("limit", f"it is stopped in {duration_text(left)} if it still runs")
    yield from _preemption_lines(case, found)
    if found.limited:
        yield from labelled("note", found.limited)


def _preemption_lines(case: Case, found: WhyRunning) -> Iterator[str]:
    track, gives_way = case.track, found.gives_way
    if track.held:
        yield from labelled("pause", f"{track.held}: it gives way as soon as it can")
    if gives_way is not None:
        to = f" to {case.name(gives_way.to)}" if gives_way.to is not None else ""
        at = clock_near(gives_way.expected, case.now)
        yield from labelled("gives way", f"expected {at}{to}")
    if track.stays:
        yield from labelled("stays", f"it cannot be made to give way: {track.stays}")
    if track.preemptions:
        took = f", {duration_text(track.saved_in_s)} the last time" * (track.saved_in_s >= 0)
        times = counted(track.preemptions, "time")
        yield from labelled("gave way", f"{times} so far{took}")
