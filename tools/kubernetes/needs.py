"""What a machine must have for a test cluster, and where built things are kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import run

VERSION = "1.20.2"
GO = "/usr/lib/go-1.19/bin/go"
REFLECT = "/usr/share/gocode/src/github.com/modern-go/reflect2"

# A program or a folder, and Debian's package that has it.
_TO_BUILD = {GO: "golang-1.19-go", REFLECT: "golang-github-modern-go-reflect2-dev"}
_TO_RUN = {"etcd": "etcd-server", "openssl": "openssl"}
_TO_HAVE_NODES = {
    "containerd": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "busybox": "busybox-static",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "kubectl": "kubernetes-client",
}
# What every node does when it starts, in namespaces of its own: mounts, a network, control groups.
_PROBE = """
set -e
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir /run/low /run/up /run/work /run/over
mount -t overlay overlay -o lowerdir=/run/low,upperdir=/run/up,workdir=/run/work /run/over
ip link add dovetail0 type bridge
top=/sys/fs/cgroup
[ -e $top/cgroup.controllers ] && groups=$top || groups="$top/freezer $top/memory $top/devices"
for group in $groups; do
    mkdir "$group/dovetail-$1"
    rmdir "$group/dovetail-$1"
done
"""


class Missing(Exception):
    """This machine cannot do it; the message says what is missing and the way out."""


def cache() -> Path:
    """The folder of what is built once; outside of every checkout."""
    chosen = os.environ.get("DOVETAIL_KUBERNETES_CACHE")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "dovetail" / f"kubernetes-{VERSION}"


@contextmanager
def locked(what: str, say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Nobody else on this machine does the same meanwhile."""
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / f"{what}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"somebody else is at the {what} already: waiting for that")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_built() -> bool:
    return (cache() / "bin" / "complete").exists()


def packages() -> list[str]:
    """Of Debian, that are not here."""
    wanted = {**_TO_RUN, **_TO_HAVE_NODES, **({} if is_built() else _TO_BUILD)}
    return sorted(package for thing, package in wanted.items() if not _is_here(thing))


def _is_here(thing: str) -> bool:
    if thing.startswith("/"):
        return os.path.exists(thing)
    return shutil.which(thing, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None


def trouble() -> str:
    """Why no cluster with nodes can be started here; "" if one can."""
    if sys.platform != "linux":
        return f"a test cluster needs Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return (
            "a test cluster needs root: its nodes have namespaces and control groups of their own"
        )
    missing = packages()
    if missing:
        return f"not all programs are here: apt-get install {' '.join(missing)}"
    return _refused()


def _refused() -> str:
    """Why a node could not be made by this root, as in a container without the rights; "" if it can."""
    apart = ("unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork")
    done = run(
        [*apart, "sh", "-c", _PROBE, "probe", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.returncode:
        return ""
    line = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return f"root may not make nodes here (namespaces, mounts, control groups): {line}"


def require() -> None:
    if line := trouble():
        raise Missing(f"{line}. Or name a cluster of your own in KUBECONFIG.")
