"""Replicas of services: unlike jobs they have no end of their own."""

from __future__ import annotations

from dovetail.core.model import JobId
from dovetail.core.state import State
from dovetail.text.counting import counted
from dovetail.workloads.service.kind import services_of


def lasting_jobs(state: State) -> frozenset[JobId]:
    """The replicas that there are: taken to run on for as long as is looked ahead. Those that sleep are
    held, and take no part."""
    services = services_of(state).open.values()
    jobs = [own.job for service in services for own in service.replicas.values()]
    return frozenset([job for job in jobs if job in state.tracks and not state.tracks[job].held])


def taken_to_last(lasting: frozenset[JobId]) -> str:
    many = counted(len(lasting), "replica")
    return f"{many} of services {'is' if len(lasting) == 1 else 'are'} taken to run on"
