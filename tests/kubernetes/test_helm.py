"""The chart gives what `kubectl apply -k deploy/` gives, and what its values say instead.

There is no Helm to be had from Debian or PyPI: the chart uses nothing but Go's own templates, which are
what Helm renders with, and they are rendered here by the same engine."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from real_cluster import DEPLOY, SYSTEM

_CHART: Final = DEPLOY / "helm" / "dovetail"
_RENDER: Final = Path(__file__).parents[1] / "helm_template.go"
_GO: Final = shutil.which("go") or shutil.which("go", path="/usr/lib/go-1.19/bin")

Json = dict[str, Any]
Found = dict[tuple[str, str], Json]

pytestmark = pytest.mark.skipif(
    _GO is None or shutil.which("kubectl") is None, reason="it needs go and kubectl"
)


def by_name(text: str) -> Found:
    things = [thing for thing in yaml.safe_load_all(text) if thing]
    return {(thing["kind"], thing["metadata"]["name"]): thing for thing in things}


def rendered(**changes: Json) -> Found:
    values = yaml.safe_load((_CHART / "values.yaml").read_text())
    for name, own in changes.items():
        values[name] = {**values[name], **own}
    given = {"Values": values, "Release": {"Namespace": SYSTEM, "Name": "dovetail"}}
    templates = sorted(map(str, (_CHART / "templates").glob("*.yaml")))
    assert _GO is not None
    done = subprocess.run(
        [_GO, "run", str(_RENDER), *templates],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    crds = "\n---\n".join(file.read_text() for file in sorted((_CHART / "crds").glob("*.yaml")))
    return by_name(f"{done.stdout}\n---\n{crds}")


def controller(found: Found) -> Json:
    (own,) = found["Deployment", "dovetail-controller"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(own, dict)
    return own


def test_with_its_own_values_the_chart_is_the_same_as_the_manifests() -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY)], capture_output=True, text=True, check=True
    )
    assert rendered(namespace={"create": True}) == by_name(done.stdout)


def test_values_say_what_is_to_be_different() -> None:
    found = rendered(
        image={"repository": "registry.example.com/dovetail", "tag": "1"},
        controller={"slots": 2, "policy": "priority"},
        world={"more": {"checkpoints": "saved", "nodes": "dovetail.dev/use=yes"}},
        journal={"storageClass": "fast", "size": "5Gi"},
        agent={"enabled": False},
    )
    own = controller(found)
    assert own["image"] == "registry.example.com/dovetail:1"
    world = (
        f"kubernetes:namespace=default:system={SYSTEM}:checkpoints=saved:nodes=dovetail.dev/use=yes"
    )
    assert own["args"][2:] == ["--world", world, "--slots=2", "--policy=priority"]
    claim = found["PersistentVolumeClaim", "dovetail-journal"]["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("fast", "5Gi")
    assert ("DaemonSet", "dovetail-node-agent") not in found
    assert ("Namespace", SYSTEM) not in found
    assert ("CustomResourceDefinition", "dovetailjobs.dovetail.dev") in found
