"""When pods that do not come up are given up, and when their end is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from dovetail.worlds.agent import Done, Errand, RunId, Work, WorkOutcome
from dovetail.worlds.kubernetes import bringing_up
from dovetail.worlds.kubernetes.bringing_up import Mission
from dovetail.worlds.kubernetes.cluster import Cluster
from dovetail.worlds.kubernetes.gangs import Gang
from dovetail.worlds.kubernetes.launch_notes import GangNote
from dovetail.worlds.kubernetes.pods import Pod, pod_of
from unserved_cluster import RUN, SETTINGS, order, unserved_cluster


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Cluster]:
    with unserved_cluster(tmp_path) as made:
        yield made


def pod(container: str = "", **state: Any) -> Pod:
    status = {"name": "job", "state": state} | ({"containerID": container} if container else {})
    found = {
        "metadata": {"name": "dt-0a1b2c3d-7-1-0-1", "namespace": "team-a", "uid": "one"},
        "spec": {"schedulerName": "dovetail", "nodeName": "node1"},
        "status": {"phase": "Pending", "containerStatuses": [status]},
    }
    made = pod_of(found, SETTINGS)
    assert made is not None
    return made


def bring_up(here: Cluster, gang: Gang) -> Iterator[float]:
    errand = Errand(gang.run, Work.BRING_UP, order(RUN.job_id), (), None, 0, 0)
    no: Any = lambda: False  # noqa: E731
    flow = here._flows.bring_up(Mission(gang, errand, [], ("node1",), False, no, no))
    return iter(flow)


def outcome(flow: Iterator[float]) -> WorkOutcome | None:
    """None: it waits, or was over before."""
    try:
        next(flow)
    except StopIteration as stop:
        done: Done | None = stop.value
        return None if done is None else done.outcome
    return None


def test_a_pod_that_was_there_and_was_deleted_by_force_is_waited_for(here: Cluster) -> None:
    gang = here._roster.gang(RUN)
    for is_gone in (False, True):
        gang.see(pod("containerd://1", running={}), is_gone)
    flow = bring_up(here, gang)
    assert [outcome(flow) for _ in range(3)] == [None] * 3
    gang.ring_out()  # its processes have ended
    assert outcome(flow) is WorkOutcome.UP  # how, is told next


def test_one_that_never_had_a_container_lines_up_again(here: Cluster) -> None:
    gang = here._roster.gang(RUN)
    for is_gone in (False, True):
        gang.see(pod(waiting={"reason": "ContainerCreating"}), is_gone)
    flow = bring_up(here, gang)
    assert [found for found in (outcome(flow) for _ in range(3)) if found] == [WorkOutcome.NO_SEAT]
    assert gang.note is not None
    assert gang.note.is_given_up


@pytest.mark.parametrize(
    ("late", "number", "comes_of_it"),
    [
        (0, 1, WorkOutcome.NO_SEAT),
        (2, 1, WorkOutcome.NOT_STARTED),
        (2, 2, WorkOutcome.NO_SEAT),  # it has run before: there is something to lose
    ],
)
def test_one_that_never_comes_up_in_time_does_not_hold_its_gpus_for_ever(
    here: Cluster, late: int, number: int, comes_of_it: WorkOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunId(RUN.job_id, number)
    gang = here._roster.gang(run)
    gang.keep_note(GangNote("team-a", ("node1",), (1,), is_made=True, late=late))
    flow = bring_up(here, gang)
    assert outcome(flow) is None
    monkeypatch.setattr(bringing_up, "monotonic", lambda: monotonic() + SETTINGS.start_within_s)
    found = [own for own in (outcome(flow) for _ in range(3)) if own]
    assert found[0] is comes_of_it
    assert gang.note is not None
    assert gang.note.late == late + 1


@pytest.mark.parametrize(
    ("reason", "is_hopeless"),
    [
        ("CreateContainerConfigError", False),
        ("CreateContainerError", False),
        ("ErrImagePull", False),
        ("InvalidImageName", True),
        ("ContainerCreating", None),
    ],
)
def test_what_a_kubelet_tries_again_is_not_given_up_at_once(
    here: Cluster, reason: str, is_hopeless: bool | None
) -> None:
    waits = pod(waiting={"reason": reason, "message": "failed to make a folder"})
    assert (waits.is_hopeless, waits.is_tried_again) == (is_hopeless is True, is_hopeless is False)
    gang = here._roster.gang(RUN)
    gang.see(waits)
    if not is_hopeless:
        assert outcome(bring_up(here, gang)) is None
