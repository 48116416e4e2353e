"""From an order to a pod. Whatever a pod may be able to do is said here, and nowhere by a user: an order
has no way to name a path of the host, a privilege, a namespace of the host or another's account.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dovetail.core.model import WHOLE_GPU, Job, Placement
from dovetail.worlds.agent import RunId
from dovetail.worlds.images import image_trouble, is_cluster_name, volume_trouble
from dovetail.worlds.kubernetes.amounts import cpus, memory
from dovetail.worlds.kubernetes.pods import CONTAINER, pod_name
from dovetail.worlds.kubernetes.settings import (
    ATTEMPT,
    BERTHS,
    GPUS,
    HOME,
    JOB,
    MANAGED_BY,
    NODES,
    RANK,
    RUN,
    Settings,
)
from dovetail.worlds.ranks import Rank, variables
from dovetail.worlds.world import Order, Script

OWN: Final = (
    "/dovetail"  # in every pod: reports, the stop file, and what it saves if there is no claim
)
SCRIPTS: Final = "/dovetail-scripts"
_HOSTS: Final = f"{OWN}/hosts"
SAVED: Final = "/dovetail-checkpoints"
OWN_ADDRESS: Final = "$(DOVETAIL_POD_IP)"  # of the pod itself, filled in by its kubelet
_VARIABLE: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_MOST_SCRIPTS_BYTES: Final = 900_000  # a ConfigMap holds 1 MiB
_VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
_OF_THE_CLUSTER: Final = ("kube-system", "kube-public", "kube-node-lease")
# Even as root of its image, a job makes no devices and writes no packets in the name of other pods.
NO_MORE: Final = {
    "allowPrivilegeEscalation": False,
    "privileged": False,
    "capabilities": {"drop": ["MKNOD", "NET_RAW"]},
}
_FOREVER: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

Json = dict[str, Any]


def why_not(order: Order, settings: Settings) -> str:
    """Why no pod could be made of it; "" if one could."""
    image = order.image or settings.image
    if not image:
        return "it names no image, and jobs here run in containers: give one with --image"
    if trouble := image_trouble(image):
        return f"its image {image!r} {trouble}"
    if order.tenant and (trouble := namespace_trouble(order.tenant, settings)):
        return trouble
    if order.service_account and not is_cluster_name(order.service_account):
        return f"{order.service_account!r} is no name of a service account"
    if order.is_slurm:
        return "it is a batch script for Slurm, and in a pod there is no srun"
    if order.has_stdin:
        return "it reads its standard input, and a pod has none"
    if order.output or order.error:
        return "it names a file for its output, and pods share none with you: see dovetail logs"
    if wrong := [name for name in order.env if not _VARIABLE.fullmatch(name)]:
        return f"{wrong[0]!r} is no name of a variable in a pod"
    if sum(len(text.encode()) for text in order.scripts.values()) > _MOST_SCRIPTS_BYTES:
        return "its scripts are longer than 0.9 MB: put them into the image or on a volume"
    return _wrong_volume(order) or _wrong_folder(order)


def namespace_trouble(namespace: str, settings: Settings) -> str:
    """Why no job runs there; "" if one may. A name becomes part of a path here."""
    if not is_cluster_name(namespace):
        return (
            f"its tenant {namespace!r} is no name of a namespace: small letters, digits and dashes"
        )
    if namespace in (*_OF_THE_CLUSTER, settings.system) and namespace != settings.namespace:
        return f"no job runs in {namespace!r}: that namespace is the cluster's own"
    return ""


def _wrong_volume(order: Order) -> str:
    troubles = [volume_trouble(own.path, own.claim) for own in order.volumes]
    return next((trouble for trouble in troubles if trouble), "")


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _wrong_folder(order: Order) -> str:
    if order.workdir and not order.workdir.startswith("/"):
        return f"its working folder {order.workdir!r} is no absolute path"
    return ""


def is_kept(order: Order, settings: Settings) -> bool:
    """Does what it saves outlive its pod?"""
    if not order.checkpoint_dir:
        return bool(settings.checkpoints)
    path = posixpath.normpath(posixpath.join(order.workdir, order.checkpoint_dir))
    return any(_within(path, posixpath.normpath(volume.path)) for volume in order.volumes)


# -------------------------------------------------------------------------------------- the pod


@dataclass(frozen=True, slots=True)
class PodPlan:
    """One pod of a gang."""

    order: Order
    job: Job
    run: RunId
    attempt: int
    rank: Rank
    placement: Placement
    home: str
    namespace: str
    gpus: tuple[str, ...]  # by UUID, those of its node; none if nobody knows them
    has_berth: bool  # the node has an agent; else it asks for the GPUs themselves
    tries: int  # how often the job has died by its own fault
    is_moved: bool = False  # pods before it have saved what it goes on with
    copied_from: str = ""  # a folder of the claim that it begins with
    node: str = ""  # on which it is created; "": it waits there until it is bound

    @property
    def name(self) -> str:
        return pod_name(self.home, self.run, self.rank.number, self.attempt)

    @property
    def mask(self) -> int:
        return self.placement.slices[self.rank.number].mask


def _labels(plan: PodPlan, settings: Settings) -> dict[str, str]:
    return {
        MANAGED_BY: settings.name,
        HOME: plan.home,
        JOB: plan.run.job_id,
        RUN: str(plan.run.number),
        RANK: str(plan.rank.number),
        ATTEMPT: str(plan.attempt),
        NODES: str(plan.rank.nodes),
    }


def pod(plan: PodPlan, settings: Settings) -> Json:
    order = plan.order
    indices = [str(i) for i in range(plan.mask.bit_length()) if plan.mask >> i & 1]
    volumes, mounts = _volumes(plan, settings)
    spec: Json = {
        "schedulerName": settings.name,
        "restartPolicy": "Never",
        "automountServiceAccountToken": bool(order.service_account),
        "enableServiceLinks": False,
        "shareProcessNamespace": True,  # a shell dies of SIGTERM, and somebody waits for orphans
        "terminationGracePeriodSeconds": max(round(order.grace_s), 1),
        "tolerations": _tolerations(),
        "containers": [_container(plan, settings, mounts)],
        "volumes": volumes,
    }
    if plan.node:
        spec["nodeName"] = plan.node
    if order.service_account:
        spec["serviceAccountName"] = order.service_account
    if plan.copied_from:
        spec["initContainers"] = [_copier(plan, settings)]
    metadata = {
        "name": plan.name,
        "namespace": plan.namespace,
        "labels": _labels(plan, settings),
        "annotations": {GPUS: ",".join(indices)},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _tolerations() -> list[Json]:
    """A node that is away for a while keeps its pods: they are not begun twice."""
    away = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in _FOREVER]
    gpu = [{"key": key, "operator": "Exists"} for key in ("nvidia.com/gpu", "dovetail.dev/gpu")]
    return [*away, *gpu]


def _container(plan: PodPlan, settings: Settings, mounts: Sequence[Json]) -> Json:
    order = plan.order
    return {
        "name": CONTAINER,
        "image": order.image or settings.image,
        "command": [
            f"{SCRIPTS}/{word}" if isinstance(word, Script) else _as_it_is(word)
            for word in order.argv
        ],
        **({"workingDir": order.workdir} if order.workdir else {}),
        "env": _variables(plan, settings),
        "resources": _resources(plan, settings),
        "volumeMounts": list(mounts),
        "securityContext": NO_MORE,
    }


def _as_it_is(text: str) -> str:
    """Kubernetes would look for names of variables behind a dollar."""
    return text.replace("$", "$$")


def _variables(plan: PodPlan, settings: Settings) -> list[Json]:
    """A pod learns its own address when it has one: the first of a gang waits there for the others."""
    own_address = {"fieldRef": {"fieldPath": "status.podIP"}}
    found: list[Json] = [{"name": "DOVETAIL_POD_IP", "valueFrom": own_address}]
    ranked = variables(plan.rank, _HOSTS)
    for name, value in environment(plan, settings).items():
        is_address = value == OWN_ADDRESS and name in ranked
        found.append({"name": name, "value": value if is_address else _as_it_is(value)})
    return found


def environment(plan: PodPlan, settings: Settings) -> dict[str, str]:
    """Those that its description names, and ours; the submitter's own mean nothing here."""
    order, placement = plan.order, plan.placement
    found = {
        **order.env,
        "DOVETAIL_JOB_ID": order.job_id,
        "DOVETAIL_ATTEMPT": str(plan.tries),
        "DOVETAIL_RESUMED": "1" if plan.run.number > 1 or plan.is_moved else "0",
        "DOVETAIL_REPORT": f"{OWN}/reports.jsonl",
        "DOVETAIL_STOP": f"{OWN}/stop",
        "DOVETAIL_CHECKPOINT_DIR": _checkpoints(order),
        "DOVETAIL_GRACE_SECONDS": f"{order.grace_s:g}",
        "DOVETAIL_GPUS": str(plan.mask.bit_count()),
        **variables(plan.rank, _HOSTS),
    }
    if placement.share != WHOLE_GPU:
        part = f"{placement.share / WHOLE_GPU:g}"
        found |= {"DOVETAIL_GPU_SHARE": part, "XLA_PYTHON_CLIENT_MEM_FRACTION": part}
    # The runtime gives a container the GPUs that this variable names, whoever has set it: the job, its
    # image (many say `all`), or, for GPUs that are asked for by themselves, their device plugin.
    found.pop(_VISIBLE, None)
    if plan.has_berth or not _counted(plan, settings):
        found[_VISIBLE] = ",".join(plan.gpus) or "void"
    return found


def _checkpoints(order: Order) -> str:
    return posixpath.join(order.workdir, order.checkpoint_dir) if order.checkpoint_dir else SAVED


def _resources(plan: PodPlan, settings: Settings) -> Json:
    """What a job asks for over all its nodes is asked for on each in equal parts."""
    job, nodes = plan.job, plan.rank.nodes
    requests: dict[str, str] = {}
    if job.cpus:
        requests["cpu"] = cpus(job.cpus / nodes)
    if job.memory_gb:
        requests["memory"] = memory(job.memory_gb / nodes)
    counted = _counted(plan, settings)
    return {"requests": {**requests, **counted}, "limits": counted}


def _counted(plan: PodPlan, settings: Settings) -> dict[str, str]:
    """What its node counts of GPUs: berths, or the GPUs themselves; processor slots nobody counts."""
    gpus = plan.mask.bit_count()
    if not gpus or (settings.slots and not plan.has_berth):
        return {}
    return {BERTHS if plan.has_berth else settings.gpu_resource: str(gpus)}


def _volumes(plan: PodPlan, settings: Settings) -> tuple[list[Json], list[Json]]:
    order = plan.order
    volumes: list[Json] = [{"name": "dovetail", "emptyDir": {}}]
    mounts: list[Json] = [{"name": "dovetail", "mountPath": OWN}]
    if order.scripts:
        source = {"name": scripts_name(plan), "defaultMode": 0o555}
        volumes.append({"name": "scripts", "configMap": source})
        mounts.append({"name": "scripts", "mountPath": SCRIPTS, "readOnly": True})
    is_saved = bool(settings.checkpoints) and not order.checkpoint_dir
    claims = _named_claims(order, settings.checkpoints if is_saved else "")
    for volume in order.volumes:
        name = claims[volume.claim]
        mounts.append({"name": name, "mountPath": volume.path, "readOnly": volume.read_only})
    volumes += [_claim(name, claim) for claim, name in claims.items()]
    if is_saved:
        mounts.append(_saved(plan, order.job_id))
    elif not order.checkpoint_dir:
        mounts.append({"name": "dovetail", "mountPath": SAVED, "subPath": "checkpoints"})
    return volumes, mounts


def _named_claims(order: Order, checkpoints: str) -> dict[str, str]:
    """The name of each claim's volume: one for a claim, as a kubelet waits for ever for a second."""
    claims = sorted({volume.claim for volume in order.volumes} - {checkpoints})
    named = {claim: f"claim-{i}" for i, claim in enumerate(claims)}
    return {**named, checkpoints: "checkpoints"} if checkpoints else named


def _claim(name: str, claim: str) -> Json:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def saved_in(home: str) -> str:
    """Where on the claim: jobs of another journal have the same numbers, and are others."""
    return f"dovetail/{home}"


def _saved(plan: PodPlan, folder: str, path: str = SAVED) -> Json:
    return {"name": "checkpoints", "mountPath": path, "subPath": f"{saved_in(plan.home)}/{folder}"}


def _copier(plan: PodPlan, settings: Settings) -> Json:
    """What it begins with, unless it has saved something of its own."""
    copy = '[ -n "$(ls -A /to)" ] || cp -a /from/. /to/'
    return {
        "name": "checkpoints",
        "image": plan.order.image or settings.image,
        "command": ["/bin/sh", "-c", copy],
        "volumeMounts": [
            {**_saved(plan, plan.copied_from, "/from"), "readOnly": True},
            _saved(plan, plan.order.job_id, "/to"),
        ],
        "securityContext": NO_MORE,
    }


# ---------------------------------------------------------------------------------- its scripts


def scripts_name(plan: PodPlan) -> str:
    return f"{pod_name(plan.home, plan.run, 0, plan.attempt)}-scripts"


def scripts(plan: PodPlan, owner: Mapping[str, Any], settings: Settings) -> Json:
    """They go with the pod that is named as their owner."""
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    metadata = {
        "name": scripts_name(plan),
        "namespace": plan.namespace,
        "labels": {MANAGED_BY: settings.name, JOB: plan.run.job_id},
        "ownerReferences": [reference],
    }
    data = dict(plan.order.scripts)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
