"""etcd, API server, controller manager and scheduler, as a real cluster has them: with certificates,
RBAC and service accounts."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final

from tools.kubernetes.certificates import Authority
from tools.kubernetes.pieces import Piece

# Sooner than by default (40 s), so that tests need not wait: a node that is silent is lost.
_SILENT_NODE_S = 12
_READY_WITHIN_S = 120.0
_CLIENTS = {  # file: user, group
    "admin": ("admin", "system:masters"),
    "kubelet-client": ("kube-apiserver", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}


class ControlPlane:
    """`address` and `port` are those of the API server; `services` is the range of their addresses."""

    def __init__(
        self,
        folder: Path,
        bin_folder: Path,
        address: str,
        port: int,
        services: str,
        controllers: Sequence[str] = ("*",),
        api_options: Sequence[str] = (),
    ) -> None:
        self.folder: Final = folder
        self.address: Final = address
        self.port: Final = port
        self.authority: Final = Authority(folder / "pki")
        self._services: Final = services
        self._bin: Final = bin_folder
        self.etcd: Final = self._etcd(*free_ports(2))
        self.api: Final = self._api(api_options)
        self.controllers: Final = self._controllers(controllers)
        self.scheduler: Final = self._scheduler()

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def start(self) -> None:
        """After `make_known`."""
        self.etcd.start()
        self.api.start()
        self.wait_until_ready()
        self.controllers.start()
        self.scheduler.start()

    def make_known(self) -> None:
        """Certificates for all of its parts."""
        self.authority.make()
        first = self._services.rsplit(".", 1)[0] + ".1"  # of the service `kubernetes`
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
        self.authority.server("apiserver", [*names, self.address, first, "127.0.0.1"])
        for name, (user, group) in _CLIENTS.items():
            self.authority.client(name, user, group)
        for name in ("controller-manager", "scheduler"):
            self.write_kubeconfig(name, self.folder / f"{name}.kubeconfig")
        self.write_kubeconfig("admin", self.kubeconfig)

    def write_kubeconfig(self, name: str, file: Path) -> None:
        file.touch(mode=0o600)
        file.write_text(self.authority.kubeconfig(name, self.url))

    def wait_until_ready(self) -> None:
        """It ends by itself where it does not get ready within its own time: on a busy machine."""
        until, tries = time.monotonic() + _READY_WITHIN_S, 3
        while not self._is_ready():
            if self.api.pid is None:
                tries -= 1
                if not tries:
                    raise RuntimeError(f"the API server ended: {self.api.last_words()}")
                self.api.start()
            if time.monotonic() > until:
                raise RuntimeError(f"the API server is not ready: {self.api.last_words()}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        pki = self.authority.folder
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        connection = HTTPSConnection(self.address, self.port, timeout=5, context=context)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    # ------------------------------------------------------------------------------- the pieces

    def _etcd(self, clients: int, peers: int) -> Piece:
        self._etcd_url = f"http://127.0.0.1:{clients}"
        options = {
            "data-dir": self.folder / "etcd",
            "listen-client-urls": self._etcd_url,
            "advertise-client-urls": self._etcd_url,
            "listen-peer-urls": f"http://127.0.0.1:{peers}",
            "initial-advertise-peer-urls": f"http://127.0.0.1:{peers}",
            "initial-cluster": f"default=http://127.0.0.1:{peers}",
            "quota-backend-bytes": 1 << 32,
        }
        return Piece(self.folder, "etcd", ["etcd", "--unsafe-no-fsync", *_words(options)])

    def _api(self, more: Sequence[str]) -> Piece:
        pki = self.authority.folder
        options = {
            "etcd-servers": self._etcd_url,
            "bind-address": self.address,
            "secure-port": self.port,
            "endpoint-reconciler-type": "none",  # pods reach us by the address of the service itself
            "service-cluster-ip-range": self._services,
            "cert-dir": pki,
            "tls-cert-file": pki / "apiserver.crt",
            "tls-private-key-file": pki / "apiserver.key",
            "client-ca-file": pki / "ca.crt",
            "kubelet-client-certificate": pki / "kubelet-client.crt",
            "kubelet-client-key": pki / "kubelet-client.key",
            "kubelet-preferred-address-types": "InternalIP",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-signing-key-file": pki / "sa.key",
            "service-account-key-file": pki / "sa.key",
        }
        program = str(self._bin / "kube-apiserver")
        return Piece(self.folder, "apiserver", [program, *_words(options), *more])

    def _controllers(self, wanted: Sequence[str]) -> Piece:
        pki = self.authority.folder
        options = {
            "kubeconfig": self.folder / "controller-manager.kubeconfig",
            "controllers": ",".join(wanted),
            "service-account-private-key-file": pki / "sa.key",
            "root-ca-file": pki / "ca.crt",
            "use-service-account-credentials": "true",
            "node-monitor-period": "1s",
            "node-monitor-grace-period": f"{_SILENT_NODE_S}s",
            **_served(pki),
        }
        program = str(self._bin / "kube-controller-manager")
        return Piece(self.folder, "controller-manager", [program, *_words(options)])

    def _scheduler(self) -> Piece:
        return Piece(self.folder, "scheduler", self.scheduler_command())

    def scheduler_command(self, *more: str) -> list[str]:
        options = {
            "kubeconfig": self.folder / "scheduler.kubeconfig",
            **_served(self.authority.folder),
        }
        return [str(self._bin / "kube-scheduler"), *_words(options), *more]


def _served(pki: Path) -> dict[str, object]:
    ports = {"bind-address": "127.0.0.1", "secure-port": free_ports(1)[0], "port": 0}
    return {"leader-elect": "false", "cert-dir": pki, **ports}


def _words(options: dict[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
