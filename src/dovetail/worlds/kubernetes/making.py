"""The world on a cluster, made from what `dovetail up` was told."""

from __future__ import annotations

from dataclasses import dataclass, fields
from uuid import uuid4

from dovetail.home import Home
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import find_access
from dovetail.worlds.kubernetes.services.hosting import PodHosting
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.kubernetes.shelf import PodShelf
from dovetail.worlds.kubernetes.world import KubernetesCluster
from dovetail.worlds.world import World


@dataclass(frozen=True)
class Kubernetes:
    """A Kubernetes cluster: its GPUs, or so many processor slots on each node (--slots)."""

    home: Home
    slots: int | None = None
    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    system: str = ""
    name: str = Settings.name
    image: str = ""
    gateway_image: str = ""
    gpu_resource: str = Settings.gpu_resource
    kind_label: str = Settings.kind_label
    memory_label: str = Settings.memory_label
    rack_label: str = Settings.rack_label
    island_label: str = Settings.island_label
    nodes: str = ""
    places: int = Settings.places
    checkpoints: str = ""
    start_within_s: float = Settings.start_within_s
    lease_s: float = Settings.lease_s

    def make(self) -> World:
        home = self.home
        access = find_access(self.kubeconfig, self.context)
        namespace = self.namespace or access.namespace
        same = {
            own.name: getattr(self, own.name)
            for own in fields(Settings)
            if own.name not in ("namespace", "system", "slots", "home")
        }
        same |= {"slots": self.slots or 0, "home": _mark(home)}
        settings = Settings(namespace, self.system or namespace, **same)
        home.runs.mkdir(mode=0o700, parents=True, exist_ok=True)
        shelf = PodShelf(home.runs, home.environments, home.socket)
        api = Api(access)
        hosting = PodHosting(api, settings, home.state / "kubernetes-key.pem")
        return KubernetesCluster(api, settings, shelf, hosting)


def _mark(home: Home) -> str:
    """One for each home, so that two journals never mean the same pod."""
    path = home.state / "kubernetes-home"
    try:
        return path.read_text()
    except FileNotFoundError:
        path.write_text(uuid4().hex[:8])
        return path.read_text()
