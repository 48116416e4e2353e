"""The contract of worlds on a real cluster, with the agent on its nodes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent_pods import install
from dovetail.core.model import JobId
from dovetail.home import home_in
from dovetail.testing.contract_policies import FIRST
from dovetail.testing.world_contract import LiveWorldContract
from dovetail.worlds.hosting import Endpoint, GatewayOrder
from dovetail.worlds.kubernetes.making import Kubernetes
from dovetail.worlds.world import Order, World
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
            gateway_image=self.cluster.image,
            nodes=f"kubernetes.io/hostname={self.cluster.nodes()[0]}",
            checkpoints=CLAIM,
            lease_s=3.0,
        ).make()

    def server(self, port: int) -> Order:
        words = ("/usr/local/bin/python3", "-m", "http.server", str(port))
        return Order(FIRST, words, {}, "/", "ann", grace_s=self.grace_s)

    def reached(self, order: GatewayOrder) -> Endpoint:
        """Its pod: on this machine nobody knows the addresses of Services."""
        wanted = f"dovetail.dev/service={order.id}"
        pods = "/api/v1/namespaces/default/pods"
        found = self.cluster.api.get(pods, labelSelector=wanted)["items"]
        stay = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        hosts = [pod["status"].get("podIP") for pod in stay]
        if not any(hosts):
            raise ConnectionRefusedError("there is no gateway")
        return Endpoint(hosts[0], 8080)

    def printed_alone(self, job_id: JobId) -> str:
        words = ["kubectl", "logs", "-l", f"dovetail.dev/job={job_id}", "--tail=-1"]
        config = ["--kubeconfig", str(self.cluster.kubeconfig)]
        return subprocess.run([*words, *config], capture_output=True, text=True, check=False).stdout
