"""docs/howto/kubernetes.md, word by word, on a real cluster: the controller runs inside it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from dovetail.worlds.kubernetes.client import NOT_FOUND, ApiError
from real_cluster import SYSTEM, RealCluster, create, eventually

_ROOT: Final = Path(__file__).parents[2]
_PAGE: Final = (_ROOT / "docs" / "howto" / "kubernetes.md").read_text()
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
_IMAGE: Final = "registry.example.com/dovetail:1"


def commands() -> list[str]:
    lines = [line for block in _BLOCK.findall(_PAGE) for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines)
    return [line.removeprefix("$ ") for line in lines]


@pytest.fixture
def folder(cluster: RealCluster, tmp_path: Path) -> Iterator[Path]:
    """A checkout, and a cluster where nothing of ours is; what a storage class would give."""
    for part in ("deploy", "examples/kubernetes"):
        shutil.copytree(_ROOT / part, tmp_path / part)
    _remove(cluster)
    journal = tmp_path / "journal"
    journal.mkdir()
    journal.chmod(0o777)
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": str(journal)},
        "claimRef": {"namespace": SYSTEM, "name": "dovetail-journal"},
    }
    volume = {"metadata": {"name": "howto-journal"}, "spec": spec}
    create(cluster.api, "/api/v1/persistentvolumes", volume)
    yield tmp_path
    _remove(cluster)


def _remove(cluster: RealCluster) -> None:
    for path in (f"/api/v1/namespaces/{SYSTEM}", "/api/v1/persistentvolumes/howto-journal"):
        with suppress(ApiError):  # it is not there
            cluster.api.delete(path)
        eventually(partial(_is_gone, cluster, path), 120.0)


def _is_gone(cluster: RealCluster, path: str) -> bool:
    try:
        cluster.api.get(path)
    except ApiError as error:
        return error.code == NOT_FOUND
    return False


def test_every_command_of_the_page_does_what_it_says(cluster: RealCluster, folder: Path) -> None:
    cluster.breakable()  # it would remove somebody's installation
    script = "\n".join(f"echo '$' {_quoted(own)}\n{own}" for own in commands())
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace(_IMAGE, cluster.image)],
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout
    shown = dict(re.findall(r"^(count|slopes) +(\w+) ", done.stdout, re.M))
    assert shown == {"count": "Running", "slopes": "Closed"}, done.stdout
    trials = re.search(r"^slopes +Closed +s1 +6 +6 +0 +\S+ +\S+ +(\d+) ", done.stdout, re.M)
    assert trials, done.stdout
    assert int(trials[1]) >= 12, "its trials did not take turns"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
