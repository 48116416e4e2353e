"""An API server as somebody sees it who is no administrator of it."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import yaml

from dovetail.worlds.kubernetes.client import Api, ApiError
from dovetail.worlds.kubernetes.config import Access

_RBAC: Final = "rbac.authorization.k8s.io"
FORBIDDEN: Final = 403


def token_of(admin: Api, namespace: str, account: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(admin.create(path, asked)["status"]["token"])


def as_account(admin: Api, kubeconfig: Path, namespace: str, account: str) -> Api:
    """By its token alone: the certificate of an administrator would be heard first."""
    known = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    authority = base64.b64decode(known["certificate-authority-data"]).decode()
    tls, token = ssl.create_default_context(cadata=authority), token_of(admin, namespace, account)
    own, headers = admin.access, {"Authorization": f"Bearer {token}"}
    return Api(Access(own.host, own.port, own.prefix, tls, namespace, lambda: headers))


def editor_of(admin: Api, kubeconfig: Path, namespace: str) -> Api:
    """Somebody who may do what users may, in a namespace that is made for them."""
    admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    admin.create(accounts, {"metadata": {"name": "ann"}})
    binding = {
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "ann", "namespace": namespace}],
    }
    admin.create(f"/apis/{_RBAC}/v1/namespaces/{namespace}/rolebindings", binding)
    return as_account(admin, kubeconfig, namespace, "ann")


def is_forbidden(call: Callable[[], object]) -> bool:
    try:
        call()
    except ApiError as error:
        return error.code == FORBIDDEN
    return False
