"""A whole test cluster, several of which may stand side by side, each under a number of its own.

Its folder says all that is needed to take it down, also by somebody else: whose owner was killed goes
when the next one starts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import run
from typing import Final

from tools.kubernetes import needs, nodes, pieces
from tools.kubernetes.control_plane import ControlPlane, free_ports
from tools.kubernetes.nodes import Place, TestNode, ip

_MOST = 15
_OWNER = "owner.pid"  # a cluster without it stays until it is taken down


class Cluster:
    """With nodes it has a bridge, and pods reach the API server as in any cluster; without, it needs no
    root."""

    def __init__(
        self,
        folder: Path,
        bin_folder: Path,
        node_count: int = 2,
        controllers: Sequence[str] = ("*",),
        api_options: Sequence[str] = (),
    ) -> None:
        self.folder: Final = folder
        self.number: Final = int(folder.name)
        self.images: Path | None = None  # an archive
        self._bridge: Final = f"dvt{self.number}"
        self._gateway: Final = f"10.250.{self.number}.1"
        self._service: Final = (
            f"10.252.{self.number}.1"  # the first of their range: the API server's
        )
        where = (self._service, 443) if node_count else ("127.0.0.1", free_ports(1)[0])
        services = f"10.252.{self.number}.0/24"
        self.plane: Final = ControlPlane(
            folder, bin_folder, *where, services, controllers=controllers, api_options=api_options
        )
        self.nodes: Final = [
            TestNode(self.plane, place, bin_folder, f"dovetail-test-{self.number}-{place.name}")
            for place in map(self._place, range(1, node_count + 1))
        ]

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig

    def start(self, images: Callable[[], Path] | None = None) -> None:
        """`images` makes an archive of those that its pods need, meanwhile."""
        if self.nodes:
            self._make_bridge()
        self.plane.make_known()
        with ThreadPoolExecutor() as side_by_side:
            archive = None if images is None else side_by_side.submit(images)
            prepared = [side_by_side.submit(node.prepare) for node in self.nodes]
            self.plane.start()
            for each in prepared:
                each.result()
            self._introduce()
            if archive is not None:
                self.images = archive.result()
                list(side_by_side.map(self.import_images, self.nodes))
        for node in self.nodes:
            node.kubelet.start()

    def import_images(self, node: TestNode) -> None:
        """Also after its kubelet has removed some to have more disk."""
        if self.images is not None:
            node.import_images(self.images)

    def processes_of(self, pod_uid: str) -> list[int]:
        """Of all its containers, as this machine counts them."""
        return nodes.processes_in(f"dovetail-test-{self.number}-*", f"pod{pod_uid}")

    def _introduce(self) -> None:
        for node in self.nodes:
            for other in self.nodes:
                if other is not node:
                    node.meet(other.place)

    def stop(self) -> None:
        take_down(self.folder)

    def _place(self, index: int) -> Place:
        number = self.number
        address, pods = f"10.250.{number}.{10 + index}", f"10.251.{number * 16 + index}.0/24"
        return Place(f"node{index}", self._bridge, self._gateway, address, pods)

    def _make_bridge(self) -> None:
        ip("link", "add", self._bridge, "type", "bridge")
        ip("address", "add", f"{self._gateway}/24", "dev", self._bridge)
        ip("address", "add", f"{self._service}/32", "dev", self._bridge)
        ip("link", "set", self._bridge, "up")


# ------------------------------------------------------------------------------ all that there are


def claim(is_owned: bool = True) -> Path:
    """The folder of a new cluster, after those whose owners are gone were taken down. An owned one
    is this process's, and goes with it."""
    with _alone() as clusters:
        for folder in clusters.iterdir():
            if folder.is_dir() and _is_abandoned(folder):
                take_down(folder)
        number = next(str(n) for n in range(1, _MOST + 1) if _is_free(clusters / str(n)))
        (clusters / number).mkdir()
        if is_owned:
            pieces.note_process(os.getpid(), clusters / number / _OWNER)
        return clusters / number


def _is_free(folder: Path) -> bool:
    """Also of clusters whose folders are in another cache: their networks would be the same."""
    return not folder.exists() and not Path(f"/sys/class/net/dvt{folder.name}").exists()


def all_folders() -> list[Path]:
    clusters = needs.cache() / "clusters"
    return sorted(folder for folder in clusters.glob("*") if folder.is_dir())


def _is_abandoned(folder: Path) -> bool:
    return (folder / _OWNER).exists() and pieces.is_alive(folder / _OWNER) is None


@contextmanager
def _alone() -> Iterator[Path]:
    clusters = needs.cache() / "clusters"
    clusters.mkdir(parents=True, exist_ok=True)
    with needs.locked("clusters"):
        yield clusters


def take_down(folder: Path) -> None:
    """By what is in its folder alone. It may be called again."""
    groups = f"dovetail-test-{folder.name}-*"
    nodes.thaw_groups(groups)
    # With a holder goes all that is in its namespaces. Nothing of etcd is to be kept.
    for note in (*folder.glob("node*/holder.pid"), *folder.glob("*.pid")):
        if note.name != _OWNER:
            pieces.end(note, 0.0)
    nodes.remove_groups(groups)
    for link in ("", "e*"):  # the bridge, and cables that the kernel has not removed yet
        for found in Path("/sys/class/net").glob(f"dvt{folder.name}{link}"):
            run(["ip", "link", "delete", found.name], check=False, capture_output=True)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
