"""Checkpoints on a claim, copied or removed by a short-lived pod that mounts it."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, sleep
from typing import Any, Final
from uuid import uuid4

from dovetail.core.errors import DovetailError
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import Access
from dovetail.worlds.kubernetes.manifest import NO_MORE, saved_in
from dovetail.worlds.kubernetes.settings import HOME, MANAGED_BY, Settings

_WITHIN_S: Final = 300.0
_LOOK_S: Final = 0.1
_NONE: Final = 3  # the exit code where nobody has saved anything
_ALL: Final = "/all"

# The first of the folders that has something in it, under another name, as a whole or not at all.
_COPY: Final = f"""
cd "$1" || exit {_NONE}
to=$2; shift 2
for from in "$@"; do
  if [ -d "$from" ] && [ -n "$(ls -A "$from")" ]; then
    rm -rf "$to" "$to.part" && cp -a "$from" "$to.part" && mv "$to.part" "$to" && exit 0
    exit 1
  fi
done
exit {_NONE}
"""
_DROP: Final = 'rm -rf "$1/$2"'


class Copier:
    def __init__(self, access: Access, settings: Settings) -> None:
        self._access: Final = access
        self._settings: Final = settings

    def copy(self, namespace: str, node: str, sources: Sequence[str], name: str) -> bool:
        code = self._run(namespace, node, _COPY, [name, *sources])
        if code not in (0, _NONE):
            raise DovetailError(f"the checkpoint of job {sources[0]} could not be copied")
        return code == 0

    def drop(self, namespace: str, node: str, name: str) -> None:
        self._run(namespace, node, _DROP, [name])

    def _run(self, namespace: str, node: str, script: str, names: Sequence[str]) -> int:
        """Blocks until it is done. Its exit code."""
        if not self._settings.checkpoints:
            return _NONE
        if wrong := [name for name in names if "/" in name or name.startswith((".", "-"))]:
            raise DovetailError(f"{wrong[0]!r} is no name of a checkpoint")
        api = Api(self._access)  # with a name of its own it is in nobody's way: no lease is needed
        try:
            return self._run_with(api, namespace, self._pod(node, script, names))
        finally:
            api.close_all()

    @staticmethod
    def _run_with(api: Api, namespace: str, pod: dict[str, Any]) -> int:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        made = api.create(pods, pod)
        path, until = f"{pods}/{made['metadata']['name']}", monotonic() + _WITHIN_S
        try:
            while monotonic() < until:
                status = api.get(path)["status"]
                if status.get("phase") in ("Succeeded", "Failed"):
                    return _exit_code(status)
                sleep(_LOOK_S)
            raise DovetailError(f"checkpoints were not copied within {_WITHIN_S:g} s")
        finally:
            api.delete(path, 0)

    def _pod(self, node: str, script: str, names: Sequence[str]) -> dict[str, Any]:
        folder = f"{_ALL}/{saved_in(self._settings.home)}"
        claim = {"persistentVolumeClaim": {"claimName": self._settings.checkpoints}}
        container = {
            "name": "copy",
            "image": self._settings.image,
            "command": ["/bin/sh", "-c", script.replace("$", "$$"), "sh", folder, *names],
            "volumeMounts": [{"name": "checkpoints", "mountPath": _ALL}],
            "securityContext": NO_MORE,
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"dt-copy-{uuid4().hex[:12]}",
                "labels": {MANAGED_BY: self._settings.name, HOME: self._settings.home},
            },
            "spec": {
                "nodeName": node,
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "containers": [container],
                "volumes": [{"name": "checkpoints", **claim}],
            },
        }


def _exit_code(status: dict[str, Any]) -> int:
    rows = status.get("containerStatuses") or [{}]
    ended = (rows[0].get("state") or {}).get("terminated") or {}
    return int(ended.get("exitCode", 1))
