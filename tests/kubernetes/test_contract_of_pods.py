"""The contract of worlds on a real cluster, with the agent on its nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent_pods import install
from dovetail.core.model import JobId
from dovetail.home import home_in
from dovetail.testing.world_contract import LiveWorldContract
from dovetail.worlds.kubernetes.making import Kubernetes
from dovetail.worlds.world import World
from kubernetes_daemon import CLAIM, make_claim
from real_cluster import SYSTEM, RealCluster


class TestKubernetes(LiveWorldContract):
    cluster: RealCluster

    @pytest.fixture(autouse=True)
    def _on_it(self, cluster: RealCluster) -> None:
        install(cluster)
        make_claim(cluster)
        self.cluster = cluster

    def make(self, folder: Path) -> World:
        return Kubernetes(
            home_in(folder),
            slots=self.gpus,
            kubeconfig=str(self.cluster.kubeconfig),
            namespace="default",
            system=SYSTEM,
            image=self.cluster.image,
            nodes=f"kubernetes.io/hostname={self.cluster.nodes()[0]}",
            checkpoints=CLAIM,
            lease_s=3.0,
        ).make()

    def printed_alone(self, job_id: JobId) -> str:
        words = ["kubectl", "logs", "-l", f"dovetail.dev/job={job_id}", "--tail=-1"]
        config = ["--kubeconfig", str(self.cluster.kubeconfig)]
        return subprocess.run([*words, *config], capture_output=True, text=True, check=False).stdout
