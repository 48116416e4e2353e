"""What happens to nodes, from a file: read like every other table, mistakes told by line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dovetail.core.entries import NodeDown, NodeJoined, NodeLeft, NodeUp
from dovetail.core.errors import BadInput
from dovetail.core.model import Node
from dovetail.traces.clusters.cluster_text import read_cluster
from dovetail.traces.clusters.node_events import NodeEvent, read_node_events


def read(path: Path) -> list[NodeEvent]:
    return read_node_events(str(path), read_cluster("2x8"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_every_delimiter_and_gzip_are_read(tmp_path: Path, delimiter: str) -> None:
    text = "at_s,node,event,gpus,kind\n5,n0,down,,\n9,n0,up,,\n9,x,join,4,T4\n"
    path = tmp_path / "events.csv.gz"
    path.write_bytes(gzip.compress(text.replace(",", delimiter).encode()))
    assert read(path) == [
        NodeDown(5.0, "n0"),
        NodeUp(9.0, "n0"),
        NodeJoined(9.0, Node("x", 4, "T4")),
    ]


def test_rows_may_be_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("at_s,node,event,gpus\n9,x,leave,\n5,x,join,4\n")
    assert read(path) == [NodeJoined(5.0, Node("x", 4)), NodeLeft(9.0, "x")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("at_s,node,event\n5,n0\n", ":2: the row has 2 cells, the header 3"),
        ("at_s,node,event\n5,n0,\n", ":2: column 'event': is empty"),
        (
            "at_s,node,event\n5,n0,burn\n",
            ":2: column 'event': 'burn' is not one of down, up, drain, leave, join",
        ),
        ("at_s,node,event,gpus\n5,x,join,2.7\n", ":2: column 'gpus': '2.7' is not a whole number"),
        ("at_s,node,event,gpus\n5,x,join,\n", ":2: column 'gpus': is empty"),
        ("at_s,node,event,gpus\n5,x,join,9999\n", ":2: 9999 GPUs in one node; give at most 1024"),
        ("at_s,node,event\n5,x,join\n", ":2: a node that joins needs a column 'gpus'"),
        (
            "at_s,node,event,gpus\n5,x,join,2\n6,x,join,2\n",
            ":3: column 'node': there is a node 'x' already",
        ),
        ("at_s,node,event\n5,x,down\n", ":2: column 'node': there is no node 'x'"),
        ("at_s,node,event\n5,n0,leave\n7,n0,up\n", ":3: column 'node': there is no node 'n0'"),
        ("at_s,node,event\n1e13,n0,down\n", ":2: column 'at_s': '1e13' is more than 1e12 seconds"),
        ("at_s,node\n5,n0\n", ": node events have the columns at_s,node,event, not at_s, node"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "events.csv"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read(path)
    assert str(caught.value) == f"{path}{why}"


def test_a_name_may_be_used_again_by_another_node(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("at_s,node,event,gpus\n5,n1,leave,\n6,n1,join,2\n")
    assert read(path) == [NodeLeft(5.0, "n1"), NodeJoined(6.0, Node("n1", 2))]
