"""A node on this machine: containerd and kubelet in mount, network and process namespaces of their own.

Inside, paths are those of a real node (/var/lib/kubelet, /run/containerd). Outside there is nothing but
a folder, control groups below one of ours, and a cable to the bridge; what kubelet writes to the
kernel's settings goes to files that lie over them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, CompletedProcess, run
from typing import IO, Final

from tools.kubernetes.control_plane import ControlPlane
from tools.kubernetes.pieces import Piece

_CGROUPS = Path("/sys/fs/cgroup")
_SETTINGS = (  # that kubelet would change for the whole machine
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
# The first process of a node. Orphans come to it when they end, and it waits for them.
_HOLDER = """
set -e
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir /run/node /run/bin /run/containerd
mount --bind "$1" /run/node
mount --bind "$2" /run/bin
mount --bind /run/node/var /var
mount --make-rshared /var
ln -s /run /var/run
shift 2
for setting; do
    mkdir -p "/run/sys/${setting%/*}"
    cat "/proc/sys/$setting" > "/run/sys/$setting"
    mount --bind "/run/sys/$setting" "/proc/sys/$setting"
done
touch /run/node/ready
while :; do
    sleep 3600 &
    wait
done
"""
_CONTAINERD = """
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/local/pause:1"
  restrict_oom_score_adj = true
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/run/node/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
"""
_APART = (
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
)
_FORWARD = "echo 1 > /proc/sys/net/ipv4/ip_forward"
_READY_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is in the network of its cluster."""

    name: str
    bridge: str
    gateway: str
    address: str
    pods: str  # the subnet of its pods


class TestNode:
    """One of them. Its folder is inside its cluster's; `group` is its control group."""

    __test__ = False  # for pytest

    def __init__(self, plane: ControlPlane, place: Place, bin_folder: Path, group: str) -> None:
        self.place: Final = place
        self.folder: Final = plane.folder / place.name
        self._plane: Final = plane
        self._group: Final = group
        words = [str(self.folder), str(bin_folder), *_SETTINGS]
        self.holder: Final = Piece(
            self.folder, "holder", ["sh", "-c", _HOLDER, "node", *words], lambda: _APART
        )
        containerd = ["containerd", "-c", "/run/node/containerd.toml"]
        self.containerd: Final = Piece(self.folder, "containerd", containerd, self._inside)
        self.kubelet: Final = Piece(self.folder, "kubelet", self._kubelet(), self._inside)

    def prepare(self) -> None:
        """All but the kubelet, which needs an API server."""
        self._write()
        self._boot()

    def _boot(self) -> None:
        _make_groups(self._group)
        self.holder.start()
        _wait((self.folder / "ready").exists, self.holder)
        self._connect()
        self.containerd.start()
        _wait(lambda: self._ctr("version").returncode == 0, self.containerd)

    def import_images(self, archive: Path) -> None:
        with open(archive, "rb") as file:
            done = self._ctr("-n", "k8s.io", "images", "import", "-", stdin=file)
        if done.returncode:
            raise RuntimeError(f"{self.place.name} did not take images: {done.stderr.decode()}")

    def vanish(self) -> None:
        """All of it at once, as if its power was cut."""
        thaw_groups(self._group)
        self.holder.kill()

    def restart_kubelet(self, **settings: object) -> None:
        """With these settings, from now on."""
        changed = {**self._kubelet_config(), **settings}
        (self.folder / "kubelet.yaml").write_text(json.dumps(changed))
        self.kubelet.stop()
        self.kubelet.start()

    def come_back(self) -> None:
        """After that: its disk is as it was, all else is new."""
        (self.folder / "ready").unlink()
        self._boot()
        self.kubelet.start()

    # ------------------------------------------------------------------------------------ below

    def _inside(self) -> list[str]:
        return ["nsenter", "--target", str(self.holder.pid), "--mount", "--net", "--pid"]

    def _ctr(self, *words: str, stdin: IO[bytes] | None = None) -> CompletedProcess[bytes]:
        command = [*self._inside(), "ctr", *words]
        return run(command, stdin=stdin or DEVNULL, capture_output=True, check=False)

    def _write(self) -> None:
        for name in ("var/lib/kubelet", "var/log/pods", "var/log/containers", "var/tmp", "cni"):
            (self.folder / name).mkdir(parents=True)
        user = f"system:node:{self.place.name}"
        self._plane.authority.client(self.place.name, user, "system:nodes")
        self._plane.write_kubeconfig(self.place.name, self.folder / "kubeconfig")
        shutil.copy(self._plane.authority.folder / "ca.crt", self.folder)
        (self.folder / "resolv.conf").touch()
        (self.folder / "containerd.toml").write_text(_CONTAINERD)
        (self.folder / "kubelet.yaml").write_text(json.dumps(self._kubelet_config()))
        (self.folder / "cni" / "10-bridge.conflist").write_text(json.dumps(self._cni()))

    def _kubelet(self) -> list[str]:
        options = {
            "kubeconfig": "/run/node/kubeconfig",
            "config": "/run/node/kubelet.yaml",
            "container-runtime": "remote",
            "container-runtime-endpoint": "unix:///run/containerd/containerd.sock",
            "hostname-override": self.place.name,
            "node-ip": self.place.address,
            "cert-dir": "/run/node/pki",
        }
        return ["/run/bin/kubelet", *(f"--{name}={value}" for name, value in options.items())]

    def _kubelet_config(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._group}",
            "failSwapOn": False,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "resolvConf": "/run/node/resolv.conf",
            "authentication": {"x509": {"clientCAFile": "/run/node/ca.crt"}},
            "evictionHard": {"memory.available": "100Mi"},
            "imageGCHighThresholdPercent": 100,  # nobody could bring an image back
            "kubeAPIQPS": 50,  # the default since 1.27: with 5 it tells of starts seconds late
            "kubeAPIBurst": 100,
            "nodeStatusUpdateFrequency": "4s",
            "nodeLeaseDurationSeconds": 8,
        }

    def _cni(self) -> dict[str, object]:
        ipam = {"type": "host-local", "dataDir": "/run/node/ipam"}
        bridge = {"type": "bridge", "bridge": "cni0", "isDefaultGateway": True}
        addresses = {**ipam, "ranges": [[{"subnet": self.place.pods}]]}
        plugins = [{**bridge, "ipam": addresses}]
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}

    def _connect(self) -> None:
        """A cable to the bridge, and the way to its pods from everywhere."""
        place, pid = self.place, str(self.holder.pid)
        cable = f"{place.bridge}{place.name[-2:]}"
        # That of one that has vanished goes with its namespace, which may take the kernel a while.
        run(["ip", "link", "delete", cable], capture_output=True, check=False)
        ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", pid)
        ip("link", "set", cable, "master", place.bridge, "up")
        ip("route", "replace", place.pods, "via", place.address)
        ip("address", "add", f"{place.address}/24", "dev", "eth0", inside=pid)
        ip("link", "set", "lo", "up", inside=pid)
        ip("link", "set", "eth0", "up", inside=pid)
        ip("route", "add", "default", "via", place.gateway, inside=pid)
        run(["nsenter", "--target", pid, "--net", "sh", "-c", _FORWARD], check=True)

    def meet(self, other: Place) -> None:
        """Pods reach those of another node."""
        ip("route", "add", other.pods, "via", other.address, inside=str(self.holder.pid))


def ip(*words: str, inside: str = "") -> None:
    """In the network of a process, if one is named."""
    before = ["nsenter", "--target", inside, "--net"] if inside else []
    done = run([*before, "ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _wait(done: Callable[[], bool], piece: Piece) -> None:
    until = time.monotonic() + _READY_WITHIN_S
    while not done():
        if piece.pid is None or time.monotonic() > until:
            raise RuntimeError(f"{piece.name} does not work: {piece.last_words()}")
        time.sleep(0.05)


# ---------------------------------------------------------------------------------- control groups


def _hierarchies() -> list[Path]:
    """All of them: one with cgroup v2, one for each controller with v1."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [folder for folder in _CGROUPS.iterdir() if folder.is_dir() and not folder.is_symlink()]


def _make_groups(group: str) -> None:
    for folder in _hierarchies():
        (folder / group).mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # of v1, where they are not inherited
            if folder != _CGROUPS and (folder / name).exists():
                (folder / group / name).write_text((folder / name).read_text())


def _groups(pattern: str) -> Iterator[Path]:
    """All of our control groups, those inside others first."""
    for folder in _hierarchies():
        for top in folder.glob(pattern):
            for path, _, _ in os.walk(top, topdown=False):
                yield Path(path)


def processes_in(pattern: str, name: str) -> list[int]:
    """In our control groups that have such a name, or are in one that has."""
    found = [group for group in _groups(pattern) if name in group.parts]
    lines = [(group / "cgroup.procs").read_text().split() for group in found]
    return sorted({int(number) for line in lines for number in line})


def thaw_groups(pattern: str) -> None:
    """A frozen process cannot even be killed, under v1."""
    for group in _groups(pattern):
        for name, word in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            if (group / name).exists():
                with suppress(OSError):
                    (group / name).write_text(word)


def remove_groups(pattern: str, within_s: float = 10.0) -> None:
    until = time.monotonic() + within_s
    while left := list(_groups(pattern)):
        for group in left:
            with suppress(OSError):
                group.rmdir()
        if time.monotonic() > until:
            raise RuntimeError(f"control groups are still in use: {left[0]}")
