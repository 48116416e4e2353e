"""How an API server is reached: a kubeconfig file, or the files that every pod is given.

Secrets stay here and in the header that carries them: no message and no `repr` shows one.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import monotonic, time
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from dovetail.core.errors import BadInput

_POD_FILES: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_READ_EVERY_S: Final = 30.0  # the kubelet renews the token of a pod
_PLUGIN_WITHIN_S: Final = 60.0
_EARLY_S: Final = 60.0  # before a token of a plugin expires, another is asked for

Headers = Callable[[], dict[str, str]]


def _anonymous() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Access:
    """An API server, and how to show who we are."""

    host: str
    port: int
    prefix: str = ""  # of every path
    tls: ssl.SSLContext | None = None
    namespace: str = "default"
    headers: Headers = field(default=_anonymous, repr=False)

    @property
    def server(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.prefix}"


def find_access(kubeconfig: str = "", context: str = "") -> Access:
    """The file named; else KUBECONFIG; inside a pod its own files; else ~/.kube/config."""
    named = kubeconfig or os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0]
    if not named and not context and (_POD_FILES / "token").exists():
        return in_cluster(_POD_FILES, os.environ)
    return from_kubeconfig(Path(named or "~/.kube/config").expanduser(), context)


def in_cluster(folder: Path, environment: Mapping[str, str]) -> Access:
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise BadInput("this is no pod of a cluster: KUBERNETES_SERVICE_HOST is not set")
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    namespace = (folder / "namespace").read_text().strip()
    token = _TokenFile(folder / "token")
    return Access(host, int(port), tls=tls, namespace=namespace, headers=token)


# -------------------------------------------------------------------------------------- kubeconfig


def from_kubeconfig(path: Path, context: str = "") -> Access:
    """One context of the file; without a name the current one."""
    config = _read(path)
    name = context or config.get("current-context") or ""
    chosen = _named(config, "context", name, path)
    cluster = _named(config, "cluster", chosen.get("cluster", ""), path)
    user = _named(config, "user", chosen["user"], path) if chosen.get("user") else {}
    where = urlsplit(str(cluster.get("server", "")))
    if where.scheme not in ("http", "https") or not where.hostname:
        raise BadInput(f"{path}: the server of cluster {chosen.get('cluster')!r} is no http(s) URL")
    is_tls = where.scheme == "https"
    return Access(
        where.hostname,
        where.port or (443 if is_tls else 80),
        where.path.rstrip("/"),
        _tls(cluster, user, path.parent) if is_tls else None,
        chosen.get("namespace") or "default",
        _headers(user, path.parent),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(
            f"cannot read the kubeconfig {path} ({error.strerror}): name one with --kubeconfig"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError):  # its text may hold secrets: it is not told
        raise BadInput(f"{path} is no kubeconfig: it is not YAML") from None
    if not isinstance(config, dict):
        raise BadInput(f"{path} is no kubeconfig: it has no contexts")
    return config


def _named(config: Mapping[str, Any], kind: str, name: str, path: Path) -> dict[str, Any]:
    rows = [row for row in config.get(f"{kind}s") or () if isinstance(row, dict)]
    for row in rows:
        if row.get("name") == name:
            return dict(row.get(kind) or {})
    known = ", ".join(str(row.get("name")) for row in rows) or "none"
    raise BadInput(f"{path} has no {kind} {name!r}; it has {known}")


def _trusting(authority: bytes) -> ssl.SSLContext:
    """The cluster's own authority alone; only a cluster that names none is known by the system's."""
    try:
        return ssl.create_default_context(cadata=authority.decode() or None)
    except (ValueError, ssl.SSLError):
        raise BadInput("certificate-authority of the kubeconfig is no certificate (PEM)") from None


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    tls = _trusting(_material(cluster, "certificate-authority", folder))
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate = _material(user, "client-certificate", folder)
    key = _material(user, "client-key", folder)
    if certificate and key:
        _load_pair(tls, certificate, key)
    return tls


def _load_pair(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL takes them from a file only: one for us alone, and only for a moment."""
    with tempfile.NamedTemporaryFile(prefix="dovetail-") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        tls.load_cert_chain(file.name)


def _material(row: Mapping[str, Any], name: str, folder: Path) -> bytes:
    """What stands in the file itself, or in one that it names."""
    if data := row.get(f"{name}-data"):
        try:
            return base64.b64decode("".join(str(data).split()), validate=True)
        except ValueError:
            raise BadInput(f"{name}-data of the kubeconfig is not base64") from None
    if not row.get(name):
        return b""
    try:
        return Path(folder, row[name]).read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read the {name} {folder / row[name]}: {error.strerror}") from None


# ------------------------------------------------------------------------------------ who we are


def _headers(user: Mapping[str, Any], folder: Path) -> Headers:
    if user.get("tokenFile"):
        return _TokenFile(folder / user["tokenFile"])
    if user.get("token"):
        return _Fixed(_bearer(str(user["token"]), "the kubeconfig"))
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return _Fixed({"Authorization": f"Basic {base64.b64encode(pair).decode()}"})
    if user.get("exec"):
        return _Plugin(user["exec"])
    return _anonymous


def _bearer(token: str, where: str) -> dict[str, str]:
    """Whoever would send an odd one is told so by a message that quotes it: better by ours."""
    token = token.strip()
    if not token.isascii() or not token.isprintable():
        raise BadInput(f"the token of {where} holds characters that no token has")
    return {"Authorization": f"Bearer {token}"}


class _Fixed:
    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers: Final = dict(headers)

    def __call__(self) -> dict[str, str]:
        return self._headers


class _TokenFile:
    """Read again now and then: it is renewed."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._headers: dict[str, str] = {}
        self._until = -1.0

    def __call__(self) -> dict[str, str]:
        if monotonic() > self._until:
            self._headers = _bearer(self._read(), str(self._path))
            self._until = monotonic() + _TOKEN_READ_EVERY_S
        return self._headers

    def _read(self) -> str:
        try:
            return self._path.read_text(errors="replace")
        except OSError as error:
            raise BadInput(f"cannot read the token in {self._path}: {error.strerror}") from None


class _Plugin:
    """A program that prints a token, as clouds have them (client.authentication.k8s.io)."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._words: Final = [told["command"], *(told.get("args") or ())]
        extra = {row["name"]: row["value"] for row in told.get("env") or ()}
        spec: dict[str, Any] = {
            "apiVersion": told.get("apiVersion"),
            "kind": "ExecCredential",
            "spec": {},
        }
        self._env: Final = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(spec)}
        self._headers: dict[str, str] = {}
        self._until = -1.0

    def __call__(self) -> dict[str, str]:
        if time() > self._until:
            status = self._asked()
            self._headers = _bearer(str(status["token"]), repr(self._words[0]))
            expires = status.get("expirationTimestamp")
            at = datetime.fromisoformat(expires).timestamp() if expires else float("inf")
            self._until = at - _EARLY_S
        return self._headers

    def _asked(self) -> Mapping[str, Any]:
        try:
            done = subprocess.run(
                self._words,
                check=False,
                env=self._env,
                capture_output=True,
                timeout=_PLUGIN_WITHIN_S,
            )
            status = json.loads(done.stdout)["status"]
            if "token" in status:
                return dict(status)
        except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
            pass
        raise BadInput(f"{self._words[0]!r}, which the kubeconfig names, has given no token")
