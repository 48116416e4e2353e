"""A world of this machine on which jobs and studies can be declared, as in a cluster."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from dovetail.daemon.main import MakeWorld
from dovetail.worlds.declared import JOB, Declared, DeclaredStatus
from dovetail.worlds.local.making import local_world
from dovetail.worlds.world import MachineAsked, World


class Board:
    """What a cluster's API server would hold."""

    def __init__(self) -> None:
        self._things: dict[str, Declared] = {}
        self._told: dict[str, list[DeclaredStatus]] = {}
        self._news = threading.Event()

    def apply(
        self, name: str, spec: dict[str, Any], kind: str = JOB, tenant: str = "team-a"
    ) -> None:
        key = f"uid of {tenant}/{name}"
        old = self._things.get(key)
        revision = 1 if old is None else old.revision + 1
        self._things[key] = Declared(key, kind, name, tenant, spec, revision)
        self._news.set()

    def delete(self, name: str, tenant: str = "team-a") -> None:
        del self._things[f"uid of {tenant}/{name}"]
        self._news.set()

    def told(self, name: str, tenant: str = "team-a") -> list[DeclaredStatus]:
        return self._told.get(f"uid of {tenant}/{name}", [])

    def status(self, name: str, tenant: str = "team-a") -> DeclaredStatus:
        found = self.told(name, tenant)
        return found[-1] if found else DeclaredStatus("")

    # ------------------------------------------------------------------------- as the seam has it

    def await_news(self, within_s: float) -> None:
        self._news.wait(within_s)
        self._news.clear()

    def rouse(self) -> None:
        self._news.set()

    def standing(self) -> Sequence[Declared]:
        return list(self._things.values())

    def tell(self, declared: Declared, status: DeclaredStatus) -> None:
        told = self._told.setdefault(declared.key, [])
        if not told or told[-1] != status:
            told.append(status)

    def world(self) -> MakeWorld:
        def make(asked: MachineAsked) -> World:
            made = local_world(asked)
            made.declarations = self  # type: ignore[misc]
            return made

        return make
