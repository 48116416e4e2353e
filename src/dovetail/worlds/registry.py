"""Worlds by name, made from text such as `pretend:nodes=3`: where the jobs of a daemon run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Final, Protocol

from dovetail.catalogue import Catalogue, settable
from dovetail.core.errors import BadInput, DovetailError
from dovetail.home import Home
from dovetail.worlds.world import MachineAsked, World

LOCAL: Final = "local"
BUILTIN: Mapping[str, tuple[str, str]] = {
    LOCAL: ("dovetail.worlds.local.making", "Local"),
    "kubernetes": ("dovetail.worlds.kubernetes.making", "Kubernetes"),
}
WORLDS = Catalogue(
    "world",
    "dovetail catalogue worlds",
    "dovetail.worlds",
    BUILTIN,
    "make",
    filled=dict.fromkeys([own.name for own in fields(MachineAsked)], ""),
)


class WorldMaker(Protocol):
    """A frozen dataclass whose fields are the parameters of the world; those of `MachineAsked` are
    filled in, as `dovetail up` was told."""

    def make(self) -> World: ...


def maker(asked: str | None) -> Callable[[MachineAsked], World]:
    """Makes the world that the text describes; None: the one of last time, else this machine."""

    def make(machine: MachineAsked) -> World:
        home, text = machine.home, asked or _noted(machine.home)
        given = {own.name: partial(getattr, machine, own.name) for own in fields(MachineAsked)}
        _refuse_unheeded(text, machine)
        found: WorldMaker = WORLDS.make(text, given)
        try:
            world = found.make()
        except (DovetailError, OSError):
            raise
        except Exception as error:  # somebody else's mistake
            told = " ".join(f"{type(error).__name__}: {error}".split())
            raise BadInput(f"the world {text!r} cannot be made: {told}") from error
        home.world_note.write_text(text)
        return world

    return make


def _refuse_unheeded(text: str, machine: MachineAsked) -> None:
    known = settable(WORLDS.find(text.partition(":")[0]))
    for name in ("gpus", "free_memory"):
        if getattr(machine, name) and name not in known:
            raise BadInput(f"--{name.replace('_', '-')} is for this machine, not for {text!r}")


def _noted(home: Home) -> str:
    try:
        return home.world_note.read_text() or LOCAL
    except FileNotFoundError:
        return LOCAL
