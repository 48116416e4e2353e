"""The objects of a gateway: a pod with our image, and a Service with the name of what it answers for.

They are known by the journal and the id of the service in their labels. Whoever may change labels in a
namespace may end what is in it in any case.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from dovetail.worlds.gateway_settings import GatewaySettings
from dovetail.worlds.hosting import GatewayOrder
from dovetail.worlds.kubernetes.settings import GROUP, HOME, MANAGED_BY, Settings

GATEWAY: Final = "gateway"  # the container
SERVICE: Final = f"{GROUP}/service"  # the id of a service
HTTP_PORT, CONTROL_PORT = 8080, 8081  # of a gateway in its pod
_USER: Final = 1000  # as in our image
_SERVICE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_AWAY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_AWAY_S: Final = 10  # then its pod is ended, and another started elsewhere
_END_S: Final = 15

Json = dict[str, Any]


def name_trouble(name: str) -> str:
    """Why no Service can be called so; "" if one can."""
    if _SERVICE_NAME.fullmatch(name):
        return ""
    return (
        f"name: {name!r} is no name that a Service takes: small letters, digits and dashes, a letter "
        "first, at most 63"
    )


def services_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services"


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def labels(service_id: str, settings: Settings) -> dict[str, str]:
    return {MANAGED_BY: settings.name, HOME: settings.home, SERVICE: service_id}


def selector(found: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in found.items())


def is_ours(thing: Mapping[str, Any], service_id: str, settings: Settings) -> bool:
    known = thing["metadata"].get("labels") or {}
    return labels(service_id, settings).items() <= known.items()


def service(order: GatewayOrder, namespace: str, settings: Settings) -> Json:
    own = labels(order.id, settings)
    port = {"name": "http", "port": order.port, "targetPort": HTTP_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": order.service, "namespace": namespace, "labels": own},
        "spec": {"selector": own, "ports": [port]},
    }


def pod(
    order: GatewayOrder, namespace: str, image: str, controller: bytes, settings: Settings
) -> Json:
    """Without rights or an account; nothing in it is a secret. Its name is never used twice."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{order.service}-gateway-{uuid4().hex[:6]}",
            "namespace": namespace,
            "labels": labels(order.id, settings),
        },
        "spec": {
            "restartPolicy": "OnFailure",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": _END_S,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "tolerations": [
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _AWAY_S,
                }
                for key in _AWAY
            ],
            "containers": [_container(order, image, controller)],
        },
    }


def _container(order: GatewayOrder, image: str, controller: bytes) -> Json:
    settings = GatewaySettings(
        service=order.service,
        host="0.0.0.0",
        port=HTTP_PORT,
        control=str(CONTROL_PORT),
        slo_s=order.slo_s,
        bounds=order.bounds,
        controller=b64encode(controller).decode(),
        percentile=order.percentile,
    )
    return {
        "name": GATEWAY,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "dovetail.gateway", settings.text().replace("$", "$$")],
        "ports": [{"name": "http", "containerPort": HTTP_PORT}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"memory": "512Mi"},
        },
        "readinessProbe": {"tcpSocket": {"port": HTTP_PORT}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
