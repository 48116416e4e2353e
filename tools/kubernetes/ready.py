"""A cluster of two nodes of this machine, ready for jobs, for as long as somebody needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import find_access
from tools.kubernetes import building, images, needs
from tools.kubernetes.cluster import Cluster, claim, take_down
from tools.kubernetes.installing import (
    CLAIM,
    SYSTEM,
    eventually,
    install_agents,
    make_claim,
    ready_nodes,
)

_PLACES = 15  # suspended pods a seat: all trials of a study may be on one node


@dataclass(frozen=True)
class ReadyCluster:
    kubeconfig: Path
    api: Api
    image: str

    @property
    def world(self) -> str:
        """As `dovetail up --world` takes it."""
        parts = {
            "kubeconfig": self.kubeconfig,
            "namespace": "default",
            "system": SYSTEM,
            "image": self.image,
            "checkpoints": CLAIM,
            "places": _PLACES,
        }
        return ":".join(["kubernetes", *(f"{name}={value}" for name, value in parts.items())])


@contextmanager
def ready_cluster(say: Callable[[str], None] = print) -> Iterator[ReadyCluster]:
    """It goes with all that it left, however this ends."""
    needs.require()
    programs = building.build(say)
    folder = claim()
    try:
        say("- etcd, API server, controller manager, scheduler, two kubelets, two containerds")
        own = Cluster(folder, programs)
        own.start(partial(images.make, folder / "images"))
        api = Api(find_access(str(own.kubeconfig)))
        eventually(lambda: len(ready_nodes(api)) == len(own.nodes), 300.0)
        say("- the agent of Dovetail on each node")
        install_agents(api, images.DOVETAIL)
        make_claim(api, folder=str(folder / "saved"))
        yield ReadyCluster(own.kubeconfig, api, images.DOVETAIL)
        api.close_all()
    finally:
        take_down(folder)
