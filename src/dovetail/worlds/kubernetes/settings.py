"""What a cluster's owner may choose about the world on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dovetail.core.errors import BadInput
from dovetail.worlds.images import is_cluster_name

GROUP: Final = "dovetail.dev"
VERSION: Final = "v1alpha1"
BERTHS: Final = f"{GROUP}/berths"
MANAGED_BY: Final = f"{GROUP}/managed-by"
HOME: Final = f"{GROUP}/home"
JOB: Final = f"{GROUP}/job"
RUN: Final = f"{GROUP}/run"
RANK: Final = f"{GROUP}/rank"
ATTEMPT: Final = f"{GROUP}/attempt"
NODES: Final = f"{GROUP}/nodes"
GPUS: Final = f"{GROUP}/gpus"
SCHEDULER: Final = f"{GROUP}/scheduler"  # on objects: which controller is meant, by its name


@dataclass(frozen=True)
class Settings:
    namespace: str = "default"  # where jobs of no tenant run; that of a tenant has its name
    system: str = "default"  # where the lease and the objects of the agents lie
    name: str = "dovetail"  # of the scheduler: pods carry it, and the lease
    home: str = "0"  # which journal: pods of one that was lost are not taken for those of another
    image: str = ""  # of jobs that name none
    gateway_image: str = ""  # of the gateways of services; "": that of the controller's own pod
    gpu_resource: str = "nvidia.com/gpu"
    kind_label: str = "nvidia.com/gpu.product"
    memory_label: str = "nvidia.com/gpu.memory"  # in MiB
    rack_label: str = "topology.kubernetes.io/zone"
    island_label: str = f"{GROUP}/island"  # GPUs that are joined by fast links
    nodes: str = ""  # key=value: only nodes with this label
    slots: int = 0  # on each node so many processor slots, instead of its GPUs
    places: int = 3  # for suspended pods of each GPU to begin with, beside the one that runs
    checkpoints: str = ""  # a claim in each namespace that pods of several nodes may write
    start_within_s: float = 300.0  # else a gang is released
    lease_s: float = 15.0

    def __post_init__(self) -> None:
        for what in ("namespace", "system", "name"):
            if not is_cluster_name(getattr(self, what)):
                raise BadInput(
                    f"{what}={getattr(self, what)!r} is no name that Kubernetes takes: small "
                    "letters, digits and dashes, at most 63"
                )
        if self.checkpoints and not is_cluster_name(self.checkpoints):
            raise BadInput(f"checkpoints={self.checkpoints!r} is no name of a claim")
        if self.nodes and self.nodes.count("=") != 1:
            raise BadInput(f"nodes={self.nodes!r} is no label: key=value")
        if self.places < 0 or self.start_within_s <= 0 or self.lease_s < 1:
            raise BadInput("places are 0 or more, start_within_s above 0, lease_s at least 1")

    @property
    def channel_path(self) -> str:
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.system}/dovetailnodes"
