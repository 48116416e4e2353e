"""Clusters as short texts and files, and their division among tenants."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Tenant
from dovetail.traces.clusters.cluster_text import (
    read_cluster,
    read_cluster_tenants,
    read_tenants,
    split_by_tenants,
)

CLUSTER = """
[[nodes]]
count = 3
gpus = 8
kind = "V100"
gpu_memory_gb = 32
cpus = 96
memory_gb = 768
nodes_per_rack = 2
island = 4
idle_watts = 500
gpu_watts = 300.5
labels = { zone = "a" }

[[nodes]]
gpus = 0
name = "cpu"
rack = "back"
tenant = "web"
"""


def saved(folder: Path, text: str, name: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_eight_by_eight_is_eight_nodes_of_eight_gpus() -> None:
    assert read_cluster("8x8") == tuple(Node(f"n{i}", 8) for i in range(8))


def test_kinds_follow_a_colon_and_groups_a_plus() -> None:
    nodes = read_cluster(" 2x8:V100 + 1x4:T4 ")
    assert nodes == (Node("n0", 8, "V100"), Node("n1", 8, "V100"), Node("n2", 4, "T4"))


@pytest.mark.parametrize(
    "text",
    ["", "8", "x8", "8x", "8x8x8", "8x8+", "-1x8", "8x8:", "a.b", "8,8", "8x8:V100:T4", "8 x 8"],
)
def test_what_is_no_cluster_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadInput, match=r"is not a cluster: write 8x8 for 8 nodes of 8 GPUs"):
        read_cluster(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0x8", "give at least 1"),
        ("8x0", "no GPUs"),
        ("999999999x8", "more than 100,000 nodes"),
        ("99999999999999999999x8", "more than 100,000 nodes"),
        ("1x999999999999", "at most 1024"),
        ("60000x8+60000x8", "more than 100,000 nodes"),
    ],
)
def test_absurd_sizes_are_refused_before_anything_is_built(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read_cluster(text)


def test_a_toml_file_tells_everything_about_nodes(tmp_path: Path) -> None:
    nodes = read_cluster(saved(tmp_path, CLUSTER, "c.toml"))
    assert [(node.id, node.rack) for node in nodes] == [
        ("n0", "r0"),
        ("n1", "r0"),
        ("n2", "r1"),
        ("cpu0", "back"),
    ]
    assert nodes[0] == Node(
        *("n0", 8, "V100", 32, 96, 768, "r0", 4, "", 500, 300.5, (("zone", "a"),)),
    )
    assert (nodes[3].gpus, nodes[3].tenant, nodes[3].cpus) == (0, "web", inf)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there are no nodes"),
        ("nodes = 3", "there are no nodes"),
        (
            "[[nodes]]\ngpus = 8\n[[tenant]]\nname = 'a'",
            "'tenant' is not known; known are nodes, tenants",
        ),
        ("[[nodes]]\ngpus = 8\n[[tenants]]\nquota = 1", "tenants 1: 'quota' is not known"),
        ("[[nodes]]\ngpus = 8\n[[tenants]]\nname = 'a'\nnodes = 2", "gives away 2 nodes"),
        ("nodes = [3]", "a table is needed, not 3"),
        ("[[nodes", "not TOML"),
        ("[[nodes]]\ncount = 2", "'gpus' is missing"),
        ("[[nodes]]\ngpu = 2", "'gpu' is not known; known are gpus, count"),
        ("[[nodes]]\ngpus = '8'", "'8' is not a whole number"),
        ("[[nodes]]\ngpus = true", "True is not a whole number"),
        ("[[nodes]]\ngpus = -1", "-1 is no size; give 0 or more"),
        ("[[nodes]]\ngpus = 8\ncpus = nan", "nan is no size"),
        ("[[nodes]]\ngpus = 8\nisland = 3", "islands of 3 do not divide"),
        ("[[nodes]]\ngpus = 8\nlabels = {a = 1}", "something other than texts"),
        ("[[nodes]]\ngpus = 8\ncount = 999999999", "more than 100,000 nodes"),
    ],
)
def test_a_toml_file_that_is_wrong_names_the_place(tmp_path: Path, text: str, why: str) -> None:
    path = saved(tmp_path, text, "c.toml")
    with pytest.raises(BadInput, match=why) as caught:
        read_cluster(path)
    assert str(caught.value).startswith(path)


def test_a_cluster_file_brings_its_tenants(tmp_path: Path) -> None:
    text = "[[tenants]]\nname = 'a'\ngpu_quota = 4\nnodes = 1\n[[tenants]]\nname = 'b'\n"
    path = saved(tmp_path, "[[nodes]]\ngpus = 8\ncount = 2\n" + text, "c.toml")
    assert read_cluster_tenants(path) == (Tenant("a", 4), Tenant("b"))
    assert [node.tenant for node in read_cluster(path)] == ["a", ""]


def test_other_clusters_have_no_tenants(tmp_path: Path) -> None:
    assert read_cluster_tenants("8x8") == ()
    assert read_cluster_tenants(saved(tmp_path, CLUSTER, "c.toml")) == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [("[[tenants]]\nname = 'a'\ngpu_quota = 4\n", "t.toml"), ("tenant,nodes\na,0\n", "t.csv")],
)
def test_tenants_without_nodes_split_nothing_and_are_told_so(
    tmp_path: Path, text: str, name: str
) -> None:
    with pytest.raises(BadInput, match=r"gives no tenant any nodes; .* --quotas"):
        split_by_tenants(read_cluster("2x8"), saved(tmp_path, text, name))


def test_groups_that_would_give_two_nodes_one_name_are_refused(tmp_path: Path) -> None:
    text = "[[nodes]]\ngpus = 1\nname = 'a'\ncount = 12\n[[nodes]]\ngpus = 1\nname = 'a1'\n"
    with pytest.raises(BadInput, match="two nodes have one name"):
        read_cluster(saved(tmp_path, text, "c.toml"))


def test_a_missing_cluster_file_is_one_line() -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_cluster("nowhere.toml")


def test_another_file_is_not_taken_for_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"name a .toml or .csv file"):
        read_cluster(saved(tmp_path, "8x8", "cluster.txt"))


def test_a_list_of_nodes_in_the_columns_of_alibaba_is_a_cluster(tmp_path: Path) -> None:
    path = saved(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\n", "n.csv")
    assert read_cluster(path) == (Node("a", 2, "P100", cpus=64.0, memory_gb=256.0),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("node,gpus\n", "no nodes below"),
        ("node,gpus\na,x\n", r":2: column 'gpus': 'x'"),
        ("node,gpus\na,1\na,1\n", ":3: node 'a' appears twice"),
        ("a,b\n1,2\n", "has the columns node,gpus, not a, b"),
    ],
)
def test_a_list_of_nodes_that_is_wrong_names_the_place(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        read_cluster(saved(tmp_path, text, "n.csv"))


@pytest.mark.parametrize("header", ["vc,node num", "tenant,nodes"])
def test_nodes_are_given_to_tenants_in_order_and_the_rest_stays_open(
    tmp_path: Path, header: str
) -> None:
    path = saved(tmp_path, f"{header}\na,2\nb,1\n", "vc.csv")
    nodes = split_by_tenants(read_cluster("5x8"), path)
    assert [node.tenant for node in nodes] == ["a", "a", "b", "", ""]
    assert read_tenants(path) == (Tenant("a"), Tenant("b"))


def test_nodes_that_have_a_tenant_keep_it(tmp_path: Path) -> None:
    path = saved(tmp_path, "tenant,nodes\na,1\n", "vc.csv")
    nodes = split_by_tenants([Node("x", 8, tenant="z"), Node("y", 8)], path)
    assert [node.tenant for node in nodes] == ["z", "a"]


def test_tenants_in_toml_have_quotas_and_weights(tmp_path: Path) -> None:
    text = (
        "[[tenants]]\nname = 'a'\ngpu_quota = 16\nweight = 2\n[[tenants]]\nname = 'b'\nnodes = 1\n"
    )
    path = saved(tmp_path, text, "t.toml")
    assert read_tenants(path) == (Tenant("a", 16, 2), Tenant("b", inf, 1.0))
    assert [node.tenant for node in split_by_tenants(read_cluster("2x8"), path)] == ["b", ""]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("vc,node num\na,4\nb,2\n", "gives away 6 nodes, but the cluster has 5"),
        ("vc,node num\na,x\n", r":2: column 'node num': 'x' is not a whole number"),
        ("vc,node num\na,1\na,1\n", "tenant 'a' appears twice"),
        ("vc,node num\n,1\n", "column 'vc': is empty"),
        ("vc,node num\n", "names no tenants"),
        ("a,b\nx,1\n", "has the columns tenant,nodes, not a, b"),
        ("", "is empty"),
    ],
)
def test_a_list_of_tenants_that_is_wrong_names_the_place(
    tmp_path: Path, text: str, why: str
) -> None:
    with pytest.raises(BadInput, match=why):
        split_by_tenants(read_cluster("5x8"), saved(tmp_path, text, "vc.csv"))


@pytest.mark.parametrize(("more", "makespan"), [((), 20.0), (("--quotas", "q.toml"), 10.0)])
def test_simulate_holds_tenants_to_the_quotas_of_the_cluster_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], makespan: float
) -> None:
    monkeypatch.chdir(tmp_path)
    quota = "[[tenants]]\nname = 'a'\ngpu_quota = "
    saved(tmp_path, f"[[nodes]]\ngpus = 8\n{quota}4\n", "c.toml")
    saved(tmp_path, f"{quota}8\n", "q.toml")
    saved(tmp_path, "submit_s,duration_s,gpus,tenant\n0,10,4,a\n0,10,4,a\n", "jobs.csv")
    words = ("simulate", "jobs.csv", "--cluster", "c.toml", "--policy", "fifo-skip", "--json")
    done = CliRunner().invoke(cli, [*words, *more])
    assert json.loads(done.stdout)["makespan_s"] == makespan


def test_a_whole_number_is_a_number_like_others_to_both_cores(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[[nodes]]\ngpus = 4\ncpus = 16\nmemory_gb = 64\n")
    (node,) = read_cluster(str(file))
    assert (repr(node.gpus), repr(node.cpus), repr(node.memory_gb)) == ("4", "16.0", "64.0")


def test_a_number_of_four_hundred_digits_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f"[[nodes]]\ngpus = 4\ncpus = 1{'0' * 400}\n")
    with pytest.raises(BadInput, match="nodes 1: cpus: a number of more than 18 digits"):
        read_cluster(str(file))
