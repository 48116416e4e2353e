"""Which GPUs Dovetail may use: said at the start, changed while it runs, and left alone for others."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from daemon_process import killable_daemon
from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.core.room import Room
from dovetail.daemon.closed_gpus import named_gpus, told_closed
from dovetail.daemon.foresight.why import why
from dovetail.daemon.refusals import NotAllowed
from dovetail.text.gpu_numbers import gpu_numbers
from dovetail.worlds.local.gpus.strangers import LeastFree, least_free
from gpu_stand_in import Cards, two_gpus
from live_box import ME, Box, box
from waiting import until


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cards:
    return two_gpus(tmp_path, monkeypatch)


def room(*nodes: Node) -> Room:
    made = Room()
    for node in nodes:
        made.add(node)
    return made


CARDS = (("gpu0", "GPU-aaaaaaaa"), ("gpu2", "GPU-aaaabbbb"))


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("0", 0b01),
        ("2", 0b10),
        ("0,2", 0b11),
        ("zeus/2", 0b10),
        ("zeus", 0b11),
        ("GPU-aaaab", 0b10),
    ],
)
def test_gpus_are_named_by_number_node_or_uuid(text: str, mask: int) -> None:
    assert named_gpus(room(Node("zeus", 2, labels=CARDS)), [text]) == {"zeus": mask}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1", "node 'zeus' has no GPU 1; it has 0, 2"),
        ("GPU-aaaa", "the beginning of 2 GPUs"),
        ("hera", "there is no GPU or node 'hera'; the nodes are zeus"),
        ("hera/0", "there is no GPU or node 'hera/0'"),
        ("0-", "names no GPUs; write numbers, as in 0,2-3"),
        ("0-99999999", "names no GPUs"),
        ("", "there is no GPU or node ''"),
    ],
)
def test_what_names_no_gpu_is_refused_with_what_there_is(text: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        named_gpus(room(Node("zeus", 2, labels=CARDS)), [text])


def test_a_number_alone_is_not_enough_where_there_are_several_nodes() -> None:
    with pytest.raises(BadInput, match="which node's GPU 0"):
        named_gpus(room(Node("zeus", 2), Node("hera", 2)), ["0"])


def test_numbers_are_read_in_any_order_and_each_once() -> None:
    assert gpu_numbers("2-3, 0,3") == [0, 2, 3]


def test_what_is_closed_is_told_with_its_reason() -> None:
    made = room(Node("zeus", 4))
    made.close_gpus(0, 0b0101, "by ann: fan", False)
    made.close_gpus(0, 0b1000, "by bob", True)
    assert told_closed(made) == [
        "GPUs 0, 2 of zeus are closed by ann: fan",
        "GPU 3 of zeus is closed by bob, its jobs give way",
    ]
    made.close_gpus(0, 0b1111, "by ann", False)
    assert told_closed(made) == ["node zeus is closed by ann"]


def test_a_closed_slot_ends_in_peace_or_gives_way_and_everybody_is_told(tmp_path: Path) -> None:
    with box(tmp_path / "home", slots=2) as here:
        stays, leaves = here.submit("sleep 60"), here.submit("sleep 60")
        for job in (stays, leaves):
            here.wait_until(job, "running")
        here.service.close_gpus(["0"], ME, "fan", False)
        here.service.close_gpus(["1"], ME, "", True)
        here.wait_until(leaves, "suspended")
        assert here.phase(stays) == "running"
        told = here.service.jobs().closed
        assert told == [
            f"slot 0 of {_node(here)} is closed by {ME.name}: fan",
            f"slot 1 of {_node(here)} is closed by {ME.name}, its jobs give way",
        ]
        here.service.open_gpus(["1"], ME)
        here.wait_until(leaves, "running")
        assert here.service.jobs().closed == told[:1]


def _node(here: Box) -> str:
    return str(here.daemon.world.nodes[0].id)


def test_only_an_administrator_closes_and_opens(tmp_path: Path) -> None:
    bob = replace(ME, name="bob", admin=False)
    with box(tmp_path / "home") as here:
        with pytest.raises(NotAllowed, match="only an administrator may close"):
            here.service.close_gpus(["0"], bob, "", True)
        with pytest.raises(NotAllowed, match="only an administrator may open"):
            here.service.open_gpus([], bob)


def test_what_was_closed_stays_so_after_a_kill_and_hostile_reasons_are_refused(
    tmp_path: Path,
) -> None:
    with killable_daemon(tmp_path / "home", slots=2) as daemon:
        daemon.start()
        status, answer = daemon.try_to(
            "POST", "/v1/nodes/close", {"gpus": ["0"], "reason": "fan\x1b[2J"}
        )
        assert (status, "printable" in answer["error"]) == (422, True)
        daemon.ask("POST", "/v1/nodes/close", {"gpus": ["0"], "reason": "<script>"})
        daemon.kill()
        daemon.start()
        (node,) = daemon.get("/v1/nodes")["nodes"]
        assert ["<script>" in gpu["closed"] for gpu in node["gpus"]] == [True, False]
        wide = daemon.submit("true", resources={"gpus": 2})
        why = daemon.get(f"/v1/jobs/{wide}/why")
        assert "1 can be used at all now" in why["because"]
        assert "1 closed (by" in why["free"]
        daemon.ask("POST", "/v1/nodes/open", {"gpus": []})
        assert daemon.wait_for(wide)["phase"] == "finished"


# ------------------------------------------------------------------------------- up --gpus


def test_only_the_gpus_that_were_named_are_used_under_their_own_numbers(
    tmp_path: Path, cards: Cards
) -> None:
    with box(tmp_path / "home", slots=None, gpus="1") as here:
        job = here.submit("echo has $CUDA_VISIBLE_DEVICES")
        here.wait(job)
        assert here.log(job) == "has GPU-1\n"
        _is_told_as_gpu_1(here)
        assert [(node.gpus, node.labels) for node in here.daemon.world.nodes] == [
            (1, (("gpu1", "GPU-1"),))
        ]
    with box(tmp_path / "home", slots=None) as here:  # as last time
        assert here.daemon.world.nodes[0].gpus == 1
    with box(tmp_path / "home", slots=None, gpus="all") as here:
        assert here.daemon.world.nodes[0].gpus == 2


def _is_told_as_gpu_1(here: Box) -> None:
    runs = here.submit("sleep 60")
    here.wait_until(runs, "running")
    assert here.job(runs)["placement"][0]["gpus"] == [1]
    assert "GPU 1 of" in why(here.service, runs).text
    scene = json.loads(here.daemon.overview.now().text)
    assert [node["gpus"] for node in scene["nodes"]] == [[1]]
    assert scene["running"][0]["on"][0]["gpus"] == [1]
    past = here.daemon.overview.past.told().stints
    assert [stint.on[0].gpus for stint in past] == [[1]]
    here.service.cancel([runs], ME)
    here.wait(runs)


@pytest.mark.parametrize(
    ("gpus", "told"), [("7", "no GPU '7' here; there are GPUs 0 to 1"), ("x", "names no GPUs")]
)
def test_gpus_that_are_not_there_are_refused_at_the_start(
    tmp_path: Path, cards: Cards, gpus: str, told: str
) -> None:
    with pytest.raises(BadInput, match=told), box(tmp_path / "home", slots=None, gpus=gpus):
        pass


def test_without_gpus_there_is_none_to_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no GPU here"), box(tmp_path / "home", gpus="0"):
        pass


# ------------------------------------------------------------------------------- strangers


def occupied(here: Box) -> int:
    return int(here.daemon.state.room.used_by_strangers(0))


def test_who_else_computes_on_a_gpu_is_seen_and_said(tmp_path: Path, cards: Cards) -> None:
    with box(tmp_path / "home", slots=None) as here:
        cards.used_by(GPU_1=(os.getpid(), 3.0))
        until(lambda: occupied(here) == 0b10)
        (told,) = here.daemon.world.users_beside()["GPU-1"]
        assert told.endswith(", 3.0 GB")
        assert told.startswith(f"{ME.name}: ")
        cards.used_by()
        until(lambda: occupied(here) == 0)


def test_with_free_memory_a_gpu_is_taken_when_others_leave_too_little(
    tmp_path: Path, cards: Cards
) -> None:
    with box(tmp_path / "home", slots=None, free_memory="90%") as here:
        cards.used_by(GPU_0=(os.getpid(), 3.0), GPU_1=(os.getpid(), 30.0))
        until(lambda: occupied(here) == 0b10)


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("90%", LeastFree(part=0.9)),
        ("70", LeastFree(bytes=70 * 2**30)),
        ("70 GB", LeastFree(bytes=70 * 2**30)),
        ("any", None),
        (None, None),
    ],
)
def test_free_memory_is_a_part_or_gigabytes(text: str | None, least: LeastFree | None) -> None:
    assert least_free(text) == least


@pytest.mark.parametrize("text", ["0%", "110%", "-3", "much", "nan", "%"])
def test_other_free_memory_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--free-memory"):
        least_free(text)
