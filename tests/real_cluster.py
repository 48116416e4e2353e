"""A cluster as tests see it, and what they do there again and again."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml
from tools.kubernetes import building, images
from tools.kubernetes.cluster import Cluster, claim, take_down
from tools.kubernetes.installing import (
    CRDS,
    DEPLOY,
    SYSTEM,
    Json,
    apply,
    create,
    eventually,
    node_names,
    ready_nodes,
)

from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import find_access

__all__ = ["CRDS", "DEPLOY", "SYSTEM", "Json", "RealCluster", "create", "eventually"]


@dataclass(frozen=True)
class RealCluster:
    """`own` is None where it is somebody's, and nothing of it may be broken."""

    kubeconfig: Path
    api: Api
    own: Cluster | None
    image: str

    def breakable(self) -> Cluster:
        if self.own is None:
            pytest.skip("this test breaks nodes: it needs a cluster of its own")
        return self.own

    def authority(self) -> str:
        """The certificate by which its API server is known."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        data = config["clusters"][0]["cluster"]["certificate-authority-data"]
        return base64.b64decode(data).decode()

    def nodes(self) -> list[str]:
        return node_names(self.api)

    def ready_nodes(self) -> list[str]:
        return ready_nodes(self.api)

    def apply(self, file: Path, change: Callable[[Json], None] = lambda _: None) -> None:
        apply(self.api, file, change)


def found_cluster(kubeconfig: Path) -> RealCluster:
    image = os.environ.get("DOVETAIL_TEST_IMAGE", images.DOVETAIL)
    return RealCluster(kubeconfig, Api(find_access(str(kubeconfig))), None, image)


@contextmanager
def own_cluster(image_folder: Path) -> Iterator[RealCluster]:
    programs = building.build()
    folder = claim()
    try:
        own = Cluster(folder, programs)
        own.start(partial(images.make, image_folder))
        api = Api(find_access(str(own.kubeconfig)))
        made = RealCluster(own.kubeconfig, api, own, images.DOVETAIL)
        eventually(lambda: len(made.ready_nodes()) == len(own.nodes), 120.0)
        yield made
        api.close()
    finally:
        if os.environ.get("DOVETAIL_KEEP_CLUSTER"):
            print(f"the cluster stays: KUBECONFIG={folder}/kubeconfig")
        else:
            take_down(folder)
