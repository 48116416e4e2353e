"""What the agent of a node makes of rows, files and control groups; without a cluster."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import Access
from dovetail.worlds.kubernetes.node_agent import report_file
from dovetail.worlds.kubernetes.node_agent.containers import Container, ControlGroups
from dovetail.worlds.kubernetes.node_agent.orders import AgentAnswer, AgentOrder
from dovetail.worlds.kubernetes.node_agent.pods import HeldPod
from dovetail.worlds.kubernetes.node_agent.rounds import NodeAgent, NodeFolders
from dovetail.worlds.local import machine
from dovetail.worlds.shortage import at_once

UID = "0f40707b-d22d-45e9-a45c-2e5ae6fc4936"
CONTAINER = "ab" * 32
ROW: dict[str, Any] = {
    "uid": UID,
    "container": f"containerd://{CONTAINER}",
    "want": "run",
    "order": 3,
}


def test_a_row_becomes_an_order() -> None:
    order = AgentOrder.from_row({**ROW, "gpus": ["GPU-1"], "roomBytes": 5, "reportsUpto": 7})
    assert order == AgentOrder(UID, CONTAINER, "run", 3, 5, ("GPU-1",), 7)
    assert AgentOrder.from_row({**ROW, "container": None}).container_id == ""


@pytest.mark.parametrize(
    "odd",
    [
        {"uid": "../../etc"},
        {"uid": f"{UID}/x"},
        {"container": "containerd://../../.."},
        {"container": CONTAINER[:-1]},
        {"want": "kill"},
    ],
)
def test_odd_names_are_refused_before_they_become_paths(odd: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="odd names"):
        AgentOrder.from_row({**ROW, **odd})


def test_an_answer_is_read_back_as_it_was_told() -> None:
    answer = AgentAnswer(4, "freeze", 0.25, 1 << 30, "")
    assert AgentAnswer.from_row({"uid": UID, "state": "suspended", **answer.as_row()}) == answer


@pytest.mark.parametrize(
    "path",
    [
        f"kubepods/besteffort/pod{UID}/{CONTAINER}",
        f"kubepods/pod{UID}/{CONTAINER}",
        f"some/where/kubepods/burstable/pod{UID}/{CONTAINER}",
        "kubepods.slice/kubepods-burstable.slice/"
        f"kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope",
        f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{CONTAINER}.scope",
    ],
)
@pytest.mark.parametrize("mount", ["freezer", "."])
def test_a_container_is_found_wherever_a_kubelet_has_its_groups(
    path: str, mount: str, tmp_path: Path
) -> None:
    group = tmp_path / mount / path
    group.mkdir(parents=True)
    (group.parent / f"crio-conmon-{CONTAINER}.scope").mkdir()
    (group.parent / ("cd" * 32)).mkdir()
    groups = ControlGroups(tmp_path)
    assert groups.find(UID, CONTAINER) == group
    assert groups.find(UID.replace("0", "1"), CONTAINER) is None
    assert groups.find(UID, "ef" * 32) is None


# ------------------------------------------------------------------------------------- reports


def _write(folder: Path, text: str) -> None:
    with open(folder / report_file.REPORTS, "a") as file:
        file.write(text)


def test_whole_lines_are_read_and_the_rest_waits(tmp_path: Path) -> None:
    assert report_file.read_after(tmp_path, 0) == (0, "")
    _write(tmp_path, '{"n": 1}\n{"n": 2}\n{"n"')
    end, text = report_file.read_after(tmp_path, 0)
    assert (end, text) == (18, '{"n": 1}\n{"n": 2}\n')
    assert report_file.read_after(tmp_path, end) == (18, "")
    _write(tmp_path, ": 3}\n")
    assert report_file.read_after(tmp_path, end) == (27, '{"n": 3}\n')


def test_whoever_has_reported_is_noticed_once(tmp_path: Path) -> None:
    pod = HeldPod(AgentOrder.from_row(ROW), ControlGroups(tmp_path), tmp_path, tmp_path)
    assert not pod.has_reported()
    pod.shared.mkdir(parents=True)
    for _ in range(2):
        _write(pod.shared, '{"n": 1}\n')
        assert pod.has_reported()
        assert not pod.has_reported()


def test_where_room_for_reports_is_short_they_come_in_pieces(tmp_path: Path) -> None:
    _write(tmp_path, "one\ntwo\nthree\n")
    assert report_file.read_after(tmp_path, 0, 9) == (8, "one\ntwo\n")
    assert report_file.read_after(tmp_path, 8, 3) == (8, "")  # not now
    assert report_file.read_after(tmp_path, 8, 0) == (8, "")


def test_a_line_that_is_too_long_is_left_out_once_it_has_an_end(tmp_path: Path) -> None:
    _write(tmp_path, "x" * 200_000)
    assert report_file.read_after(tmp_path, 0) == (0, "")
    _write(tmp_path, "\nnext\n")
    assert report_file.read_after(tmp_path, 0) == (200_001, "")
    assert report_file.read_after(tmp_path, 200_001) == (200_006, "next\n")


def test_of_a_line_without_end_no_more_than_a_piece_is_looked_at(tmp_path: Path) -> None:
    """A file may say that it has a petabyte: the agent has other pods to look after."""
    with open(tmp_path / report_file.REPORTS, "wb") as file:
        file.truncate(1 << 40)
    piece = (1 << 16) + (1 << 20)
    assert report_file.read_after(tmp_path, 0) == (piece, "")
    assert report_file.read_after(tmp_path, piece) == (piece + (1 << 20), "")


def test_the_rest_of_a_line_that_was_left_out_is_no_line(tmp_path: Path) -> None:
    long = "x" * 1_200_000
    _write(tmp_path, long)
    upto, _ = report_file.read_after(tmp_path, 0)
    assert 0 < upto < len(long)
    assert report_file.read_after(tmp_path, upto) == (upto, "")
    _write(tmp_path, 'tail"}\nnext\n')
    end, text = report_file.read_after(tmp_path, upto)
    assert (end, text) == (len(long) + 7, "")
    assert report_file.read_after(tmp_path, end) == (end + 5, "next\n")


def test_bytes_that_are_no_text_count_as_they_do_in_the_file(tmp_path: Path) -> None:
    (tmp_path / report_file.REPORTS).write_bytes(b'{"a": "\xff\xfe\xe2\x82"}\n')
    end, text = report_file.read_after(tmp_path, 0)
    assert end == len(text.encode()) == 14


@pytest.mark.parametrize("sign", ["\x01", "<", "é", '"', "x"])
def test_no_pods_make_the_status_of_a_node_larger_than_its_api_server_takes(
    tmp_path: Path, sign: str
) -> None:
    """Some signs are six bytes there. All pods have their turn all the same."""
    folders = NodeFolders(tmp_path, tmp_path, tmp_path / "notes")
    agent = NodeAgent(Api(Access("127.0.0.1", 1)), "system", "node1", folders)
    for i in range(16):
        order = AgentOrder.from_row({**ROW, "uid": f"{i:02}{UID[2:]}"})
        pod = agent._pods[order.uid] = HeldPod(order, ControlGroups(tmp_path), tmp_path, tmp_path)
        pod.shared.mkdir(parents=True)
        _write(pod.shared, f"{sign * 999}\n" * 100)
    heard = set()
    for _ in range(16):
        rows = agent._rows()
        text = json.dumps(rows, ensure_ascii=False)
        for odd in "<>&":
            text = text.replace(odd, "\\u003c")  # as Go's encoder has them
        assert len(text.encode()) < 1_000_000  # 1.5 MiB are too much
        heard |= {row["uid"] for row in rows if "reports" in row}
    assert len(heard) == 16


def test_a_link_or_a_pipe_in_place_of_the_reports_is_not_read(tmp_path: Path) -> None:
    (tmp_path / report_file.REPORTS).symlink_to("/etc/passwd")
    assert report_file.read_after(tmp_path, 0) == (0, "")
    (tmp_path / report_file.REPORTS).unlink()
    os.mkfifo(tmp_path / report_file.REPORTS)
    assert report_file.read_after(tmp_path, 0) == (0, "")


def test_a_device_in_place_of_the_reports_is_not_even_opened(tmp_path: Path) -> None:
    """A container may make one, and to open a watchdog is to have the node restarted."""
    try:
        os.mknod(tmp_path / report_file.REPORTS, 0o666 | stat.S_IFCHR, os.makedev(240, 0))
    except PermissionError:
        pytest.skip("only root makes devices")
    with pytest.raises(OSError, match="not a plain file"):
        at_once(str(tmp_path / report_file.REPORTS), os.O_RDONLY)
    assert report_file.read_after(tmp_path, 0) == (0, "")


def test_the_stop_file_is_made_once_and_no_link_is_followed(tmp_path: Path) -> None:
    report_file.ask_to_stop(tmp_path)
    report_file.ask_to_stop(tmp_path)
    stop = tmp_path / report_file.STOP_FILE
    assert stop.exists()
    stop.unlink()
    stop.symlink_to(tmp_path / "elsewhere")
    report_file.ask_to_stop(tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_no_pod_is_suspended_into_memory_that_its_kubelet_keeps_free(tmp_path: Path) -> None:
    group = tmp_path / "kubepods" / "pod"
    group.mkdir(parents=True)
    room = ControlGroups(tmp_path).memory_room(group)
    assert room < machine.memory_available_bytes() - (1 << 29)  # others come and go meanwhile


# ------------------------------------------------------------------------------- a real freezer


@pytest.fixture
def container() -> Iterator[tuple[Container, subprocess.Popen[bytes]]]:
    """A process in a control group of its own, as containers are."""
    mount = Path("/sys/fs/cgroup/freezer")
    if not mount.is_dir():
        mount = Path("/sys/fs/cgroup")
    group = mount / f"dovetail-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"needs control groups that we may make: {error.strerror}")
    script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    child = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()  # before that a signal would end it
    try:
        (group / "cgroup.procs").write_text(str(child.pid))
        yield Container(group), child
    finally:
        Container(group).kill()
        child.wait(10)
        child.stdout.close()
        _remove(group)


def _remove(group: Path) -> None:
    until = time.monotonic() + 10
    while group.exists():
        assert time.monotonic() < until
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.01)


def test_a_frozen_container_shows_that_it_was_asked_to_end_and_hears_it_when_thawed(
    container: tuple[Container, subprocess.Popen[bytes]],
) -> None:
    group, child = container
    assert child.pid in group.pids()
    assert not group.is_frozen()
    assert group.freeze() > 0
    assert group.is_frozen()
    assert not group.is_asked_to_end()
    group.ask_to_stop()
    assert group.is_asked_to_end()
    time.sleep(0.05)
    assert child.poll() is None
    group.thaw()
    assert child.wait(10) == 7


def test_where_nothing_can_be_written_a_suspended_pod_still_hears_that_it_is_to_end(
    tmp_path: Path, container: tuple[Container, subprocess.Popen[bytes]]
) -> None:
    pod = _held_where_nothing_can_be_written(tmp_path, container[0])
    container[0].freeze()
    container[1].terminate()
    assert pod.must_wake()
    pod.wake()
    assert container[1].wait(10) == 7


def test_where_nothing_can_be_written_a_pod_is_asked_to_stop_by_a_signal(
    tmp_path: Path, container: tuple[Container, subprocess.Popen[bytes]]
) -> None:
    pod = _held_where_nothing_can_be_written(tmp_path, container[0])
    pod._stop(container[0])
    assert container[1].wait(10) == 7


def test_a_suspended_pod_is_looked_at_now_and_then_and_at_once_when_something_is_wanted(
    tmp_path: Path, container: tuple[Container, subprocess.Popen[bytes]]
) -> None:
    group = container[0]
    order = AgentOrder.from_row(ROW)
    pod = HeldPod(order, ControlGroups(group.group.parent), tmp_path / "pods", tmp_path / "notes")
    pod._container = group
    pod.answer = AgentAnswer(order.number)
    assert pod.row(100)["state"] == "running"
    assert not pod.rests()
    group.freeze()
    assert pod.row(100)["state"] == "suspended"
    assert pod.rests()
    pod.order = replace(order, number=order.number + 1)
    assert not pod.rests()
    pod.order = order
    group.thaw()
    until = time.monotonic() + 10
    while pod.row(100)["state"] != "running":
        assert time.monotonic() < until
        time.sleep(0.01)


def _held_where_nothing_can_be_written(folder: Path, container: Container) -> HeldPod:
    (folder / "full").touch()
    order = AgentOrder.from_row(ROW)
    pod = HeldPod(order, ControlGroups(container.group.parent), folder / "full", folder / "full")
    pod._container = container
    return pod
