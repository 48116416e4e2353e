"""Somebody else deletes, evicts, edits or refuses pods of ours: nothing is lost, nothing runs twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.kubernetes.installing import NODES

from admission_webhook import changing, refusing
from counting_jobs import (
    FOREVER,
    begin,
    cancel,
    counting,
    pod_of,
    pods_of,
    reasons,
    resume,
    run_through,
    suspend,
)
from dovetail.core.model import JobId
from dovetail.worlds.kubernetes.client import ApiError
from kubernetes_daemon import pods_box
from live_box import ME, Box
from real_cluster import Json, RealCluster, eventually

pytestmark = pytest.mark.long

_PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def here(cluster: RealCluster, tmp_path: Path) -> Iterator[Box]:
    """A daemon with two slots on each of two nodes."""
    cluster.breakable()
    with pods_box(cluster, tmp_path / "box", policy="fifo-skip", slots=2) as made:
        yield made


def _evict(cluster: RealCluster, pod: Json) -> None:
    name = pod["metadata"]["name"]
    kind = {"apiVersion": "policy/v1beta1", "kind": "Eviction"}
    where = {"name": name, "namespace": "default"}
    cluster.api.create(f"{_PODS}/{name}/eviction", {**kind, "metadata": where})


def _delete(cluster: RealCluster, pod: Json, grace_s: int | None = None) -> None:
    cluster.api.delete(f"{_PODS}/{pod['metadata']['name']}", grace_s)


# ------------------------------------------------------------------------------- deleted, evicted


def test_a_job_that_saves_itself_goes_on_after_its_pod_was_deleted_by_hand(
    cluster: RealCluster, here: Box
) -> None:
    job_id, count = begin(here, 60, saves=True)
    _delete(cluster, pod_of(cluster, job_id))
    assert here.wait(job_id)[0]["phase"] == "finished"
    count.check_whole(60, launches=2)


def test_a_job_that_may_begin_anew_does_so_once_its_deleted_pod_is_gone(
    cluster: RealCluster, here: Box
) -> None:
    """By force: the API server forgets the pod at once, and its processes go on for a while."""
    job_id, count = begin(here, 60, preemptible="restart")
    _delete(cluster, pod_of(cluster, job_id), grace_s=0)
    assert here.wait(job_id)[0]["phase"] == "finished"
    count.check_once_at_a_time(launches=2)
    assert count.lines()[-62].startswith("launch")
    assert count.lines()[-61:] == [*map(str, range(1, 61)), "end"]


def test_a_job_that_can_do_neither_fails_and_says_why(cluster: RealCluster, here: Box) -> None:
    job_id, count = begin(here, 1000)
    _delete(cluster, pod_of(cluster, job_id), grace_s=1)
    assert here.wait(job_id)[0]["phase"] == "failed"
    assert "its pod was deleted" in reasons(here, job_id)[-1]
    assert count.launches() == 1


def test_a_pod_evicted_while_it_is_suspended_saves_itself_and_goes_on(
    cluster: RealCluster, here: Box
) -> None:
    job_id, count = begin(here, 60, saves=True)
    suspend(here, job_id, count)
    before = count.numbers()
    _evict(cluster, pod_of(cluster, job_id))
    eventually(lambda: "saved" in count.lines())
    assert len(count.numbers()) <= len(before) + 1  # it heard that at its next look
    resume(here, job_id)
    assert here.wait(job_id)[0]["phase"] == "finished"
    count.check_whole(60, launches=2)


def test_a_pod_deleted_by_force_while_it_is_suspended_is_not_begun_beside_itself(
    cluster: RealCluster, here: Box
) -> None:
    job_id, count = begin(here, 60, preemptible="restart")
    suspend(here, job_id, count)
    _delete(cluster, pod_of(cluster, job_id), grace_s=0)
    resume(here, job_id)
    assert here.wait(job_id)[0]["phase"] == "finished"
    count.check_once_at_a_time(launches=2)


# ---------------------------------------------------------------------------------------- edited


def test_whose_pod_it_is_does_not_depend_on_what_users_write_on_it(
    cluster: RealCluster, here: Box
) -> None:
    first, one = begin(here, 80)
    second, two = begin(here, FOREVER)
    for job_id, other in ((first, second), (second, first)):
        name = pod_of(cluster, job_id)["metadata"]["name"]
        lies = {"dovetail.dev/job": other, "dovetail.dev/run": "9", "dovetail.dev/home": "x"}
        noted = {"dovetail.dev/gpus": "7"}
        cluster.api.patch(f"{_PODS}/{name}", {"metadata": {"labels": lies, "annotations": noted}})
    suspend(here, first, one)
    two.grows()
    resume(here, first)
    assert here.wait(first)[0]["phase"] == "finished"
    one.check_whole(80)
    cancel(here, second, two)


def test_orders_that_somebody_edits_are_written_again(cluster: RealCluster, here: Box) -> None:
    job_id, count = begin(here, 80)
    suspend(here, job_id, count)
    node = pod_of(cluster, job_id)["spec"]["nodeName"]
    rows = cluster.api.get(f"{NODES}/{node}")["spec"]["pods"]
    forged = [{**row, "want": "run", "order": row["order"] + 100} for row in rows]
    for edited in ([], forged):
        cluster.api.patch(f"{NODES}/{node}", {"spec": {"pods": edited}})
        eventually(lambda: _wants(cluster, node) == ["suspend"])
        eventually(lambda: _states(cluster, node) == ["suspended"])
    resume(here, job_id)
    assert here.wait(job_id)[0]["phase"] == "finished"
    count.check_whole(80)


def _wants(cluster: RealCluster, node: str) -> list[str]:
    return [row["want"] for row in cluster.api.get(f"{NODES}/{node}")["spec"]["pods"]]


def _states(cluster: RealCluster, node: str) -> list[str]:
    return [row["state"] for row in cluster.api.get(f"{NODES}/{node}")["status"]["pods"]]


def test_a_pod_that_comes_too_late_is_removed(cluster: RealCluster, here: Box) -> None:
    """As of a controller that slept while another gave its attempt up."""
    job_id, count = begin(here, 60)
    ours = pod_of(cluster, job_id)
    name = ours["metadata"]["name"].rsplit("-", 1)[0] + "-0"
    spec = {
        "schedulerName": ours["spec"]["schedulerName"],
        "nodeName": ours["spec"]["nodeName"],
        "containers": [{"name": "job", "image": cluster.image, "command": ["sleep", "1000"]}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    cluster.api.create(_PODS, pod)
    eventually(lambda: _is_gone(cluster, name))
    assert here.wait(job_id)[0]["phase"] == "finished"
    count.check_whole(60)


def _is_gone(cluster: RealCluster, name: str) -> bool:
    try:
        return "deletionTimestamp" in cluster.api.get(f"{_PODS}/{name}")["metadata"]
    except ApiError as error:
        return error.code == 404


# --------------------------------------------------------------------------------------- refused


def test_an_image_that_does_not_exist_fails_the_job_and_says_so(
    cluster: RealCluster, here: Box
) -> None:
    job_id = here.submit(["true"], image="local/nobody-has-it:1")
    assert here.wait(job_id)[0]["phase"] == "failed"
    assert "local/nobody-has-it:1" in reasons(here, job_id)[-1]
    eventually(lambda: not pods_of(cluster, job_id))


def test_a_job_whose_pod_cannot_come_up_is_gone_soon_after_it_was_cancelled(
    cluster: RealCluster, here: Box
) -> None:
    """Its claim does not exist, so its container is never made: nobody waits until it is."""
    job_id = here.submit(["true"], volumes={"/data": "nobody-made-it"})
    eventually(lambda: _is_coming(cluster, job_id))
    here.service.cancel([job_id], ME)
    eventually(lambda: not pods_of(cluster, job_id))
    eventually(lambda: not here.daemon.world.has_processes(JobId(job_id)))
    run_through(here, 3)


def test_a_container_that_cannot_be_made_yet_is_waited_for(cluster: RealCluster, here: Box) -> None:
    """Its kubelet tries again. So it does where two pods make the same folder of a claim at once."""
    add = {"op": "add", "path": "/spec/containers/0/envFrom"}
    with changing(cluster, [{**add, "value": [{"secretRef": {"name": "comes-late"}}]}]):
        count, fields = counting(3)
        job_id = here.submit(fields.pop("command"), **fields)
        eventually(lambda: "CreateContainerConfigError" in str(pods_of(cluster, job_id)))
    secrets = "/api/v1/namespaces/default/secrets"
    cluster.api.create(secrets, {"metadata": {"name": "comes-late"}})
    try:
        assert here.wait(job_id)[0]["phase"] == "finished"
    finally:
        cluster.api.delete(f"{secrets}/comes-late")
    count.check_whole(3)


def _is_coming(cluster: RealCluster, job_id: str) -> bool:
    """Its kubelet has taken it on, and makes no container."""
    told = [own["status"].get("containerStatuses") or [{}] for own in pods_of(cluster, job_id)]
    return any("waiting" in (rows[0].get("state") or {}) for rows in told)


def test_a_webhook_that_says_no_fails_the_job_in_its_own_words(
    cluster: RealCluster, here: Box
) -> None:
    with refusing(cluster, "pods need a cost centre"):
        job_id = here.submit(["true"])
        assert here.wait(job_id)[0]["phase"] == "failed"
    assert "pods need a cost centre" in reasons(here, job_id)[-1]
    run_through(here, 3)


def test_a_pod_that_was_given_a_liveness_probe_is_never_suspended(
    cluster: RealCluster, here: Box
) -> None:
    """It would be killed after a while. A job file has no way to ask for one."""
    probe = {"httpGet": {"port": 1, "path": "/"}, "initialDelaySeconds": 600}
    add = {"op": "add", "path": "/spec/containers/0/livenessProbe", "value": probe}
    with changing(cluster, [add]):
        job_id, count = begin(here, FOREVER)
        saving, saved = begin(here, 60, saves=True)
    eventually(lambda: "liveness probe" in str(here.job(job_id)))
    for each in (job_id, saving):
        here.service.pause([each], ME)
    eventually(lambda: "saved" in saved.lines())
    count.grows()
    resume(here, saving)
    assert here.wait(saving)[0]["phase"] == "finished"
    cancel(here, job_id, count)
    saved.check_whole(60, launches=2)
    fields = counting(1)[1]
    with pytest.raises(Exception, match="livenessProbe"):
        here.submit(fields.pop("command"), **fields, livenessProbe=probe)


def _stays(pod: Json) -> bool:
    """Those of the test before, which end just now, leave room in a quota."""
    is_over = pod["status"].get("phase") in ("Succeeded", "Failed")
    return not is_over and "deletionTimestamp" not in pod["metadata"]


def test_a_quota_that_is_used_up_makes_a_job_wait(cluster: RealCluster, here: Box) -> None:
    first, one = begin(here, FOREVER)
    quotas, kind = "/api/v1/namespaces/default/resourcequotas", {"apiVersion": "v1"}
    used = sum(map(_stays, cluster.api.get(_PODS)["items"]))
    quota = {**kind, "kind": "ResourceQuota", "metadata": {"name": "small"}}
    cluster.api.create(quotas, {**quota, "spec": {"hard": {"pods": str(used)}}})
    try:
        eventually(lambda: cluster.api.get(f"{quotas}/small")["status"].get("used"))
        count, fields = counting(5)
        second = here.submit(fields.pop("command"), **fields)
        eventually(lambda: any("quota" in why for why in reasons(here, second)))
        eventually(lambda: here.phase(second) == "queued")
        assert not count.lines()
    finally:
        cluster.api.delete(f"{quotas}/small")
    assert here.wait(second)[0]["phase"] == "finished"
    count.check_whole(5)
    cancel(here, first, one)
