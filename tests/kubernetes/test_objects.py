"""`kubectl apply -f job.yaml` is as good as `dovetail submit`: on a real cluster, with real pods."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest
import yaml

from dovetail.worlds.kubernetes.client import FORBIDDEN, NOT_FOUND, ApiError
from kubernetes_daemon import make_claim, pods_box
from live_box import Box
from real_cluster import CRDS, RealCluster, create, eventually

TEAM: Final = "team-a"
_JOBS: Final = f"/apis/dovetail.dev/v1alpha1/namespaces/{TEAM}/dovetailjobs"
_COUNTS: Final = "i=0; while [ $i -lt {} ]; do i=$((i+1)); echo $i; sleep 0.2; done"

Json = dict[str, Any]


class Team:
    """One namespace, by `kubectl` and by what the API server says."""

    def __init__(self, cluster: RealCluster, box: Box) -> None:
        self.cluster, self.box = cluster, box

    def kubectl(self, *words: str, given: Json | None = None) -> str:
        told = yaml.safe_dump(given) if given is not None else None
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.cluster.kubeconfig), "-n", TEAM, *words],
            input=told,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, name: str, **spec: Any) -> None:
        thing = {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DovetailJob"}
        usual = {"image": self.cluster.image, "checkpoint": {"grace": "5s"}}
        metadata = {"name": name}
        self.kubectl(
            "apply",
            *("-f", "-"),
            given={**thing, "metadata": metadata, "spec": {**usual, **spec}},
        )

    def status(self, name: str) -> Json:
        return self.cluster.api.get(f"{_JOBS}/{name}").get("status") or {}

    def becomes(self, name: str, phase: str) -> Json:
        try:
            eventually(lambda: self.status(name).get("phase") == phase, 120.0)
        except AssertionError:
            raise AssertionError(f"{name} is not {phase} but {self.status(name)}") from None
        return self.status(name)

    def events(self, name: str) -> dict[str, Json]:
        """By reason."""
        found = self.cluster.api.get(
            f"/api/v1/namespaces/{TEAM}/events",
            fieldSelector=f"involvedObject.kind=DovetailJob,involvedObject.name={name}",
        )["items"]
        return {own["reason"]: own for own in found}

    def delete(self, *names: str) -> None:
        for name in names:
            self.kubectl("delete", "dtj", name, "--wait=false")

    def pods(self, job: str) -> list[Json]:
        found: list[Json] = self.cluster.api.get(
            f"/api/v1/namespaces/{TEAM}/pods", labelSelector=f"dovetail.dev/job={job}"
        )["items"]
        return found


@pytest.fixture(scope="module")
def team(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    create(cluster.api, "/api/v1/namespaces", {"metadata": {"name": TEAM}})
    make_claim(cluster, TEAM)
    for kind in ("dovetailjobs", "dovetailstudies"):
        cluster.apply(CRDS / f"{kind}.yaml")
    eventually(partial(_is_served, cluster))
    folder = tmp_path_factory.mktemp("objects")
    with pods_box(cluster, folder, policy="priority", slots=1) as box:
        yield Team(cluster, box)


def _is_served(cluster: RealCluster) -> bool:
    try:
        return bool(cluster.api.get(_JOBS))
    except ApiError as error:
        if error.code != NOT_FOUND:
            raise
        return False


def test_an_applied_job_runs_in_its_namespace_and_its_object_says_all_of_it(team: Team) -> None:
    team.apply("short", run="sleep 3; exit 4", resources={"cpus": 0.1})
    running = team.becomes("short", "Running")
    assert running["placement"].startswith("node")
    (pod,) = team.pods(running["job"])
    assert pod["metadata"]["namespace"] == TEAM
    ended = team.becomes("short", "Failed")
    assert (ended["exitCode"], ended["why"]) == (4, "exit code 4")
    events = eventually(lambda: len(found := team.events("short")) >= 2 and found)
    assert events["Started"]["type"] == "Normal"
    assert events["Failed"]["message"] == "exit code 4"
    shown = team.kubectl("get", "dovetailjobs").splitlines()
    assert shown[0].split()[:4] == ["NAME", "PHASE", "JOB", "WHERE"]
    assert shown[1].split()[:2] == ["short", "Failed"]
    team.delete("short")


def test_a_job_that_gives_way_is_told_what_it_cost_and_goes_on(team: Team) -> None:
    for name in ("low-1", "low-2"):
        team.apply(name, run=_COUNTS.format(10_000), resources={"cpus": 0.1})
    for name in ("low-1", "low-2"):
        team.becomes(name, "Running")
    team.apply("high", run="sleep 300", priority=5, resources={"cpus": 0.1})
    first = eventually(lambda: _suspended(team, "low-1", "low-2"), 60.0)
    cost = team.status(first)["preemptions"]
    assert (cost["count"], cost["rung"]) == (1, "freeze")
    assert cost["saveSeconds"] >= 0
    assert eventually(lambda: team.status(first).get("why"))  # with the next forecast
    team.delete("high")
    back = team.becomes(first, "Running")
    assert eventually(lambda: team.status(first)["preemptions"].get("restoreSeconds") is not None)
    assert back["preemptions"]["count"] == 1
    events = eventually(lambda: "Resumed" in (found := team.events(first)) and found)
    assert "gave way (freeze)" in events["Preempted"]["message"]
    job = back["job"]
    team.delete("low-1", "low-2")
    team.box.wait_until(job, "cancelled")
    eventually(lambda: not team.pods(job))


def _suspended(team: Team, *names: str) -> str:
    found = [name for name in names if team.status(name).get("phase") == "Suspended"]
    return found[0] if found and "rung" in team.status(found[0])["preemptions"] else ""


def test_an_edit_is_followed_if_it_is_a_priority_and_told_if_not(team: Team) -> None:
    team.apply("edited", run="sleep 300", resources={"cpus": 0.1})
    job = team.becomes("edited", "Running")["job"]
    team.apply("edited", run="sleep 300", resources={"cpus": 0.1}, priority=3)
    eventually(lambda: team.box.job(job)["priority"] == 3)
    team.apply("edited", run="sleep 1", resources={"cpus": 0.1}, priority=3)
    trouble = eventually(lambda: team.status("edited").get("trouble"))
    assert trouble.startswith("spec.run changed after it was taken on")
    eventually(lambda: "EditNotFollowed" in team.events("edited"))
    team.delete("edited")


def test_a_job_that_is_wrong_is_refused_in_words(team: Team) -> None:
    team.apply("wrong", run="true", resources={"memory": "much"})
    assert "memory" in team.becomes("wrong", "Refused")["why"]
    eventually(lambda: "Refused" in team.events("wrong"))
    team.apply("posing", run="true", tenant="kube-system")
    assert "leave it out" in team.becomes("posing", "Refused")["why"]
    team.delete("wrong", "posing")


def _allow_one_pod(team: Team, quotas: str) -> None:
    """The API server lets pods pass, and does not count them, until it has heard of a new quota."""
    api = team.cluster.api
    create(api, quotas, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}})
    eventually(lambda: not _may_make_a_pod(team))
    api.patch(f"{quotas}/few", {"spec": {"hard": {"pods": "1"}}})
    eventually(lambda: _may_make_a_pod(team))


def _may_make_a_pod(team: Team) -> bool:
    spec = {"containers": [{"name": "any", "image": team.cluster.image}]}
    path = f"/api/v1/namespaces/{TEAM}/pods"
    try:
        team.cluster.api.create(path, {"metadata": {"name": "tried"}, "spec": spec}, dryRun="All")
    except ApiError as error:
        if error.code != FORBIDDEN:
            raise
        return False
    return True


def test_a_used_up_quota_keeps_a_job_waiting_until_there_is_room(team: Team) -> None:
    quotas = f"/api/v1/namespaces/{TEAM}/resourcequotas"
    _allow_one_pod(team, quotas)
    team.apply("first", run="sleep 300", resources={"cpus": 0.1})
    team.becomes("first", "Running")
    team.apply("second", run="true", resources={"cpus": 0.1})
    why = eventually(
        lambda: "quota" in team.status("second").get("why", "") and team.status("second")
    )
    assert why["phase"] == "Queued"
    assert "exceeded quota: few" in why["why"]
    team.delete("first")
    team.becomes("second", "Finished")
    team.delete("second")
    team.cluster.api.delete(f"{quotas}/few")
