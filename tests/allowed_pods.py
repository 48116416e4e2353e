"""What a pod of a job may be, written down without looking at how one is made: a list of all that is
allowed. Whatever is not on it is a finding."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_VARIABLE: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_QUANTITY: Final = re.compile(r"[0-9]+m?")
_LABELS: Final = {
    f"dovetail.dev/{name}"
    for name in ("managed-by", "home", "job", "run", "rank", "attempt", "nodes")
}
_SPEC: Final = {
    "schedulerName", "restartPolicy", "automountServiceAccountToken", "enableServiceLinks",
    "shareProcessNamespace", "terminationGracePeriodSeconds", "tolerations", "containers", "volumes",
    "serviceAccountName", "initContainers", "nodeName",
}  # fmt: skip
_CONTAINER: Final = {
    "name", "image", "command", "workingDir", "env", "resources", "volumeMounts", "securityContext",
}  # fmt: skip
_RESOURCES: Final = {"cpu", "memory", "nvidia.com/gpu", "dovetail.dev/berths"}
_TOLERATED: Final = {
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "nvidia.com/gpu",
    "dovetail.dev/gpu",
}
_SYSTEM: Final = {
    "bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr", "var",
}  # fmt: skip
_OURS: Final = {"/dovetail", "/dovetail-scripts", "/dovetail-checkpoints"}
_NO_MORE: Final = {
    "allowPrivilegeEscalation": False,
    "privileged": False,
    "capabilities": {"drop": ["MKNOD", "NET_RAW"]},
}


@dataclass(frozen=True)
class Asked:
    """What its user may have said, and nothing of it changes anything else."""

    namespace: str
    account: str = ""
    claims: frozenset[str] = frozenset()
    checkpoints: str = ""
    env: Mapping[str, str] | None = None
    argv: tuple[str, ...] = ()
    node: str = ""  # that a policy has chosen


def check(pod: Mapping[str, Any], asked: Asked) -> None:
    assert set(pod) == {"apiVersion", "kind", "metadata", "spec"}
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    _check_metadata(pod["metadata"], asked)
    spec = pod["spec"]
    assert set(spec) <= _SPEC
    assert spec.get("nodeName", "") == asked.node
    assert spec["schedulerName"] == "dovetail"
    assert spec["restartPolicy"] == "Never"
    assert spec["enableServiceLinks"] is False
    assert spec["automountServiceAccountToken"] is bool(asked.account)
    assert spec.get("serviceAccountName", "") == asked.account
    assert asked.account == "" or _NAME.fullmatch(asked.account)
    assert isinstance(spec["terminationGracePeriodSeconds"], int)
    for own in spec["tolerations"]:
        assert set(own) <= {"key", "operator", "effect"}
        assert own["key"] in _TOLERATED
    volumes = {own["name"]: own for own in spec["volumes"]}
    assert len(volumes) == len(spec["volumes"])
    for own in volumes.values():
        _check_volume(own, pod["metadata"]["name"], asked)
    (container,) = spec["containers"]
    _check_container(container, set(volumes), asked)
    for own in spec.get("initContainers", ()):
        _check_container(own, set(volumes), Asked(asked.namespace))


def _check_metadata(metadata: Mapping[str, Any], asked: Asked) -> None:
    assert set(metadata) == {"name", "namespace", "labels", "annotations"}
    assert _NAME.fullmatch(metadata["name"])
    assert _NAME.fullmatch(metadata["namespace"])
    assert metadata["namespace"] == asked.namespace
    assert set(metadata["labels"]) == _LABELS
    assert all(_LABEL.fullmatch(value) for value in metadata["labels"].values())
    assert set(metadata["annotations"]) == {"dovetail.dev/gpus"}
    assert re.fullmatch(r"([0-9]+(,[0-9]+)*)?", metadata["annotations"]["dovetail.dev/gpus"])


def _check_volume(volume: Mapping[str, Any], pod: str, asked: Asked) -> None:
    (kind,) = set(volume) - {"name"}
    told = volume[kind]
    assert _NAME.fullmatch(volume["name"])
    if kind == "emptyDir":
        assert told == {}
    elif kind == "configMap":
        assert set(told) == {"name", "defaultMode"}
        assert told["name"].startswith("dt-")
        assert told["name"].endswith("-scripts")
    else:
        assert kind == "persistentVolumeClaim"
        assert set(told) == {"claimName"}
        assert told["claimName"] in {*asked.claims, asked.checkpoints}
        assert _NAME.fullmatch(told["claimName"])


def _check_container(container: Mapping[str, Any], volumes: set[str], asked: Asked) -> None:
    assert set(container) <= _CONTAINER
    assert _NAME.fullmatch(container["name"])
    assert _IMAGE.fullmatch(container["image"])
    assert container["securityContext"] == _NO_MORE
    assert all(isinstance(word, str) for word in container["command"])
    for part, told in container.get("resources", {}).items():
        assert part in ("requests", "limits")
        assert set(told) <= _RESOURCES
        assert all(_QUANTITY.fullmatch(value) for value in told.values())
    paths = [_check_mount(own, volumes) for own in container["volumeMounts"]]
    assert len(set(paths)) == len(paths)
    if asked.argv:
        words = [_expanded(word, {}) for word in container["command"]]
        assert len(words) == len(asked.argv)
        assert all(
            own in (word, f"/dovetail-scripts/{word}")
            for own, word in zip(words, asked.argv, strict=True)
        )
    _check_variables(container.get("env", ()), asked)


def _check_mount(mount: Mapping[str, Any], volumes: set[str]) -> str:
    assert set(mount) <= {"name", "mountPath", "readOnly", "subPath"}
    assert mount["name"] in volumes
    path = mount["mountPath"]
    assert path.startswith("/")
    parts = path[1:].split("/")
    assert not {"", ".", ".."} & set(parts)
    assert ":" not in path
    assert parts[0] not in _SYSTEM
    is_ours = mount["name"] in ("dovetail", "scripts", "checkpoints")
    assert is_ours or f"/{parts[0]}" not in _OURS
    if "subPath" in mount:
        assert re.fullmatch(
            r"checkpoints|dovetail(/[A-Za-z0-9][A-Za-z0-9._-]*){2}", mount["subPath"]
        )
    return str(path)


def _check_variables(rows: Any, asked: Asked) -> None:
    seen: dict[str, str] = {}
    for row in rows:
        assert _VARIABLE.fullmatch(row["name"])
        assert row["name"] not in seen
        if "valueFrom" in row:  # its own address, and nothing else of the cluster
            assert row["name"] == "DOVETAIL_POD_IP"
            assert row["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
            seen[row["name"]] = "10.0.0.1"
            continue
        assert set(row) == {"name", "value"}
        assert isinstance(row["value"], str)
        seen[row["name"]] = _expanded(row["value"], seen)
    for name, value in (asked.env or {}).items():
        assert seen.get(name) == value or name.startswith("DOVETAIL_") or name in _SET_BY_US


_SET_BY_US: Final = {
    "NVIDIA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_MEM_FRACTION", "MASTER_ADDR", "MASTER_PORT",
    "NODE_RANK", "NNODES", "RANK", "WORLD_SIZE", "PET_MASTER_ADDR", "PET_MASTER_PORT",
    "PET_NODE_RANK", "PET_NNODES",
}  # fmt: skip


def _expanded(text: str, known: Mapping[str, str]) -> str:
    """As a kubelet does it: $(NAME) stands for the variable, $$ for a dollar."""
    found, at = "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            found, at = found + text[at], at + 1
        elif text[at + 1] == "$":
            found, at = found + "$", at + 2
        elif text[at + 1] == "(" and (end := text.find(")", at)) > 0:
            name = text[at + 2 : end]
            found, at = found + known.get(name, f"$({name})"), end + 1
        else:
            found, at = found + text[at : at + 2], at + 2
    return found
