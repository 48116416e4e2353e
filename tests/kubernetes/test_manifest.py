"""What becomes of an order is a pod that can do no more than it must."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import Job, JobId, Placement, Slice
from dovetail.jobfiles.job_model import read
from dovetail.worlds.agent import RunId
from dovetail.worlds.kubernetes import manifest
from dovetail.worlds.kubernetes.manifest import OWN_ADDRESS, PodPlan
from dovetail.worlds.kubernetes.settings import BERTHS, Settings
from dovetail.worlds.ranks import Rank
from dovetail.worlds.world import Order, Script, Volume

SETTINGS = Settings(image="train:1", checkpoints="saved")
ORDER = Order(JobId("7"), ("python", "train.py"), {"LR": "$(HOME) $1"}, "/work", "ann")


def plan(order: Order = ORDER, **fields: Any) -> PodPlan:
    job = Job(order.job_id, gpus=2, cpus=3.0, memory_gb=4.0)
    usual = PodPlan(
        *(order, job, RunId(order.job_id, 1), 1, Rank(0, ("localhost",))),
        placement=Placement((Slice(0, 0b110),)),
        home="0a1b2c3d",
        namespace="team-a",
        gpus=(),
        has_berth=True,
        tries=0,
    )
    return replace(usual, **fields)


def pod(own: PodPlan, settings: Settings = SETTINGS) -> dict[str, Any]:
    return manifest.pod(own, settings)


def container(own: PodPlan, settings: Settings = SETTINGS) -> dict[str, Any]:
    (found,) = pod(own, settings)["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def variables(own: PodPlan) -> dict[str, str]:
    return {row["name"]: row.get("value", "") for row in container(own)["env"]}


def test_a_pod_waits_for_our_binding_in_its_namespace_under_a_name_of_its_own() -> None:
    made = pod(plan(attempt=2))
    assert made["metadata"]["name"] == "dt-0a1b2c3d-7-1-0-2"
    assert made["metadata"]["namespace"] == "team-a"
    assert made["spec"]["schedulerName"] == "dovetail"
    assert "nodeName" not in made["spec"]


def test_no_pod_has_privileges_or_anything_of_its_host() -> None:
    text = str(pod(plan(replace(ORDER, volumes=(Volume("data", "/data"),)))))
    for word in ("hostPath", "hostNetwork", "hostPID", "hostIPC", "nfs", "'privileged': True"):
        assert word not in text
    assert pod(plan())["spec"]["automountServiceAccountToken"] is False


def test_kubernetes_leaves_the_dollars_of_a_job_alone() -> None:
    assert variables(plan())["LR"] == "$$(HOME) $$1"
    words = container(plan(replace(ORDER, argv=("sh", "-c", "echo $$ $(pwd)"))))["command"]
    assert words == ["sh", "-c", "echo $$$$ $$(pwd)"]


def test_a_time_shared_job_takes_berths_and_else_the_gpus_themselves() -> None:
    assert container(plan())["resources"]["limits"] == {BERTHS: "2"}
    apart = container(plan(has_berth=False))
    assert apart["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    asked = {"cpu": "3000m", "memory": "4000000000", "nvidia.com/gpu": "2"}
    assert apart["resources"]["requests"] == asked


def test_on_a_berth_a_pod_sees_its_own_gpus_and_without_any_none() -> None:
    assert variables(plan(gpus=("GPU-b", "GPU-c")))["NVIDIA_VISIBLE_DEVICES"] == "GPU-b,GPU-c"
    assert variables(plan())["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(plan(has_berth=False))


def test_neither_a_job_nor_its_image_makes_gpus_visible_that_are_not_its_own() -> None:
    """Images for GPUs say `all`, and a runtime of NVIDIA's believes them."""
    greedy = replace(ORDER, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    none = Placement((Slice(0, 0),))
    assert variables(plan(greedy, gpus=("GPU-b",)))["NVIDIA_VISIBLE_DEVICES"] == "GPU-b"
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(plan(greedy, has_berth=False))
    without = variables(plan(greedy, has_berth=False, placement=none))
    assert without["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_the_first_of_a_gang_waits_at_its_own_address_for_the_others() -> None:
    slices = Placement((Slice(0, 1), Slice(1, 1)))
    first = plan(rank=Rank(0, (OWN_ADDRESS, "node2")), placement=slices)
    second = plan(rank=Rank(1, ("10.0.0.5", "node2")), placement=slices)
    assert variables(first)["MASTER_ADDR"] == OWN_ADDRESS
    assert variables(second)["MASTER_ADDR"] == "10.0.0.5"
    assert (variables(second)["RANK"], variables(second)["WORLD_SIZE"]) == ("1", "2")


def test_scripts_are_files_of_the_pod() -> None:
    own = plan(replace(ORDER, argv=("sh", Script("run")), scripts={"run": "echo $1"}))
    assert container(own)["command"] == ["sh", "/dovetail-scripts/run"]
    owner = {"metadata": {"name": own.name, "uid": "u"}}
    kept = manifest.scripts(own, owner, SETTINGS)
    assert kept["data"] == {"run": "echo $1"}
    assert kept["metadata"]["ownerReferences"][0]["uid"] == "u"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"service_account": "../admin"}, "no name of a service account"),
        ({"volumes": (Volume("data", "/etc/ssl"),)}, "belongs to the system"),
        ({"volumes": (Volume("data", "/data/../etc"),)}, "not a plain absolute path"),
        ({"volumes": (Volume("/var/run", "/data"),)}, "not the name of a volume claim"),
        ({"volumes": (Volume("data", "/dovetail/stop"),)}, "belongs to the system or to Dovetail"),
        ({"is_slurm": True}, "no srun"),
        ({"tenant": "../../kube-system"}, "no name of a namespace"),
        ({"tenant": "a/pods/b"}, "no name of a namespace"),
        ({"tenant": "kube-system"}, "that namespace is the cluster's own"),
        ({"env": {"A B": "c"}}, "no name of a variable"),
    ],
)
def test_what_a_pod_could_not_or_must_not_be_is_refused(changes: dict[str, Any], why: str) -> None:
    assert why in manifest.why_not(replace(ORDER, **changes), SETTINGS)


def test_an_order_without_an_image_is_told_how_to_name_one() -> None:
    assert "names no image" in manifest.why_not(ORDER, Settings())


@pytest.mark.parametrize(
    "fields",
    [
        {"volumes": {"/data": "/etc"}},
        {"volumes": {"../data": "data"}},
        {"volumes": {"/etc": "data"}},
        {"volumes": ["/data"]},
        {"volumes": {"/data": {"hostPath": "/"}}},
        {"service_account": "system:masters"},
        {"host_network": True},
        {"privileged": True},
        {"node_name": "node1"},
    ],
)
def test_a_job_file_cannot_smuggle_anything_into_a_pod(fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        read({"command": ["train"], "image": "train:1", **fields})


def test_a_job_file_names_claims_and_an_account() -> None:
    spec = read(
        {"command": ["train"], "volumes": {"/data": "datasets:ro"}, "service_account": "me"}
    )
    assert (spec.volumes, spec.service_account) == ({"/data": "datasets:ro"}, "me")


def test_what_is_saved_outlives_a_pod_only_on_a_claim() -> None:
    assert manifest.is_kept(ORDER, SETTINGS)
    assert not manifest.is_kept(ORDER, Settings())
    own = replace(ORDER, checkpoint_dir="saved", volumes=(Volume("mine", "/work"),))
    assert manifest.is_kept(own, Settings())
    assert not manifest.is_kept(replace(own, volumes=()), Settings())


def test_a_claim_is_one_volume_however_often_it_is_mounted() -> None:
    """A kubelet waits for ever for a second volume of the same claim."""
    both = (Volume("saved", "/data"), Volume("more", "/more"), Volume("saved", "/again"))
    spec = pod(plan(replace(ORDER, volumes=both)))["spec"]
    claims = [own["persistentVolumeClaim"]["claimName"] for own in spec["volumes"][1:]]
    assert sorted(claims) == ["more", "saved"]
    names = {own["name"] for own in spec["volumes"]}
    assert {own["name"] for own in spec["containers"][0]["volumeMounts"]} <= names


def test_no_variable_of_a_user_is_filled_in_as_our_address() -> None:
    found = variables(plan(replace(ORDER, env={"A": OWN_ADDRESS})))
    assert found["A"] == f"${OWN_ADDRESS}"


def test_without_a_working_folder_that_of_the_image_holds() -> None:
    assert "workingDir" not in container(plan(replace(ORDER, workdir="")))
    assert container(plan())["workingDir"] == "/work"


def test_jobs_of_two_journals_never_find_each_others_checkpoints() -> None:
    """They have the same numbers."""
    places = [
        mount["subPath"]
        for home in ("0a1b2c3d", "4e5f6a7b")
        for mount in container(plan(home=home))["volumeMounts"]
        if mount["mountPath"] == manifest.SAVED
    ]
    assert len(set(places)) == 2
