"""Whatever stands in a job file, the pod that comes of it is one that is allowed, or there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allowed_pods import Asked, check
from dovetail.core.errors import BadInput
from dovetail.core.model import Placement, Slice
from dovetail.daemon.history.submission_records import SubmissionRecord
from dovetail.daemon.submissions import Submission, members, order_of
from dovetail.jobfiles.job_model import JobSpec, dump, read
from dovetail.worlds.agent import RunId
from dovetail.worlds.kubernetes import manifest
from dovetail.worlds.kubernetes.client import Api, ApiError
from dovetail.worlds.kubernetes.config import find_access
from dovetail.worlds.kubernetes.manifest import PodPlan
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.ranks import Rank
from real_cluster import eventually

HERE = Settings(image="train:1", checkpoints="saved", home="0a1b2c3d")
ODD = (
    *("", " ", "../..", "/", "//etc", "/etc/passwd", "/var/run/docker.sock", "..", "a/../../b"),
    *("hostPath: {path: /}", "x\nhostNetwork: true", 'x", "privileged": true', "{{ .Values.x }}"),
    *(
        "$(KUBERNETES_SERVICE_HOST)",
        "$$(HOME)",
        "$",
        "${HOME}",
        "`id`",
        "a" * 300,
        "é",
        "\u202eabc",
    ),
    *("system:masters", "default", "kube-system", "dovetail-controller", "A_B", "-x", "x-", "."),
    *("oci:/root", "docker.io/library/busybox@sha256:0", "train:1", "\x00", "null", "true", "0x10"),
)
odd = st.one_of(st.sampled_from(ODD), st.text(max_size=40))
name = st.one_of(st.sampled_from(("data", "mine", "team-a", "trainer")), odd)
path = st.one_of(
    st.sampled_from(("/data", "/data/in", "/work", "/opt/x", "//dovetail", "//etc")), odd
)
variable = st.one_of(
    st.sampled_from(("LR", "PATH", "DOVETAIL_REPORT", "NVIDIA_VISIBLE_DEVICES", "MASTER_ADDR")), odd
)
command = st.lists(odd, min_size=1, max_size=4)
fields: dict[str, st.SearchStrategy[Any]] = {
    "name": odd,
    "args": st.lists(odd, max_size=3),
    "workdir": path,
    "image": st.one_of(st.sampled_from(("train:1", "reg.example:5000/a/b:1")), odd),
    "volumes": st.dictionaries(path, st.one_of(name, name.map(lambda own: f"{own}:ro")), max_size=3),
    "service_account": name,
    "envs": st.dictionaries(variable, st.one_of(odd, st.integers()), max_size=4),
    "tenant": name,
    "group": odd,
    "model": odd,
    "priority": st.one_of(st.integers(-5, 5), odd),
    "retries": st.one_of(st.integers(0, 3), odd),
    "nodes": st.one_of(st.integers(0, 3), odd),
    "preemptible": st.one_of(st.booleans(), st.just("restart"), odd),
    "checkpoint": st.fixed_dictionaries({}, optional={"dir": path, "grace": st.just("9s")}),
    "resources": st.fixed_dictionaries(
        {},
        optional={
            "gpus": st.one_of(st.integers(0, 8), odd),
            "cpus": st.one_of(st.integers(0, 8), odd),
            "memory": st.one_of(st.just("4GB"), odd),
            "share": st.one_of(st.just(0.5), odd),
        },
    ),
    "array": st.one_of(st.just("0-2"), odd),
    "metric_pattern": odd,
    "hostNetwork": st.booleans(),
    "securityContext": st.dictionaries(odd, odd, max_size=1),
}  # fmt: skip
# As a rule two or three of them: with all of them odd nothing would ever be accepted.
_TOGETHER = (
    ("image", "volumes", "service_account"),
    ("envs", "workdir", "name", "args"),
    ("tenant", "nodes", "resources", "array"),
    ("checkpoint", "preemptible", "volumes", "workdir"),
    tuple(fields),
)
job_files = st.one_of(
    [
        st.fixed_dictionaries({"command": command}, optional={key: fields[key] for key in keys})
        for keys in _TOGETHER
    ]
)


def pods_of(given: dict[str, Any], at: Settings = HERE) -> list[tuple[dict[str, Any], Asked]]:
    """Those that would be made, with what was asked for; none if it is refused."""
    try:
        spec = read(given)
        found = members(Submission(spec, {"HOME": "/root"}, "/home/ann"), 7, "ann", 0.0, 0.0)
    except BadInput:
        return []
    return [pod for own in found for pod in _pods(own.spec, own.job, own.index, at)]


def _pods(
    spec: JobSpec, job: Any, index: int | None, at: Settings
) -> list[tuple[dict[str, Any], Asked]]:
    workdir = "/home/ann" if not spec.workdir else str(Path("/home/ann") / spec.workdir)
    record = SubmissionRecord(spec=dump(spec), workdir=workdir, user="ann", name=job.name)
    try:
        order = order_of(job.id, record.member("7", index), spec)
    except BadInput:
        return []
    order = replace(order, tenant=job.tenant, env={**spec.envs, **order.env})
    if manifest.why_not(order, at):
        return []
    asked = Asked(
        job.tenant or at.namespace,
        order.service_account,
        frozenset(volume.claim for volume in order.volumes),
        at.checkpoints,
        order.env,
        order.argv,
    )
    nodes = max(order.nodes, 1)
    slices = Placement(tuple(Slice(n, 0b11 if spec.gpus else 0) for n in range(nodes)))
    plan = PodPlan(
        *(order, job, RunId(job.id, 1), 1, Rank(0, tuple(["localhost"] * nodes)), slices),
        *(at.home, asked.namespace, (), True, 0),
    )
    return [
        (manifest.pod(plan, at), asked),
        (manifest.pod(replace(plan, has_berth=False), at), asked),
    ]


@settings(max_examples=400, deadline=None)
@given(job_files)
@example({"command": ["a"], "volumes": {"//etc": "data"}})
@example({"command": ["a"], "volumes": {"//dovetail/x": "data"}})
@example({"command": ["a"], "tenant": "../../kube-system"})
@example({"command": ["$(X)"], "envs": {"A": "$(B) $$(C) $", "NVIDIA_VISIBLE_DEVICES": "all"}})
def test_no_job_file_makes_a_pod_that_may_do_more(given: dict[str, Any]) -> None:
    for pod, asked in pods_of(given):
        check(pod, asked)


def test_the_list_of_what_is_allowed_refuses_what_it_must() -> None:
    (pod, asked), _ = pods_of({"command": ["train"], "volumes": {"/data": "mine"}})
    check(pod, asked)
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    for where, key, value in (
        (spec, "hostNetwork", True),
        (spec, "hostPID", True),
        (spec, "nodeName", "node1"),
        (spec, "serviceAccountName", "other"),
        (spec, "automountServiceAccountToken", True),
        (spec, "volumes", [*spec["volumes"], {"name": "x", "hostPath": {"path": "/"}}]),
        (spec, "volumes", [*spec["volumes"], {"name": "x", "secret": {"secretName": "y"}}]),
        (container, "securityContext", {"privileged": True}),
        (container, "envFrom", [{"secretRef": {"name": "x"}}]),
        (
            container,
            "env",
            [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}],
        ),
        (pod["metadata"], "ownerReferences", []),
    ):
        before = dict(where)
        where[key] = value
        with pytest.raises(AssertionError):
            check(pod, asked)
        where.clear()
        where.update(before)
    check(pod, asked)


@pytest.fixture(scope="module")
def server(control_plane: Path) -> Iterator[Api]:
    api = Api(find_access(str(control_plane)))
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    eventually(lambda: api.get(accounts)["items"])
    yield api
    api.close_all()


def test_what_is_allowed_is_taken_by_a_real_server_as_it_is(server: Api) -> None:
    """It would tell us of names and values that only look right."""
    taken = []

    @settings(max_examples=100, deadline=None)
    @given(job_files)
    def create(given: dict[str, Any]) -> None:
        for pod, asked in pods_of({**given, "tenant": "", "service_account": ""}):
            try:
                made = server.create("/api/v1/namespaces/default/pods", pod, dryRun="All")
            except ApiError as error:
                if error.code != 422:  # such as a path that no kernel takes
                    raise
                continue
            assert made["spec"].get("serviceAccountName") == "default"
            assert not asked.account
            assert made["spec"].get("hostNetwork") is None
            assert all("hostPath" not in own for own in made["spec"]["volumes"])
            taken.append(made)

    create()
    assert len(taken) > 20
