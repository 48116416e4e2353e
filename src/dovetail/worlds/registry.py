"""Worlds by name, made from text such as `pretend:nodes=3`: where the jobs of a daemon run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from dovetail.catalogue import Catalogue
from dovetail.core.errors import BadInput, DovetailError
from dovetail.home import Home
from dovetail.worlds.world import World

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
    filled={"home": "", "slots": "", "suspended_gb": ""},
)


class WorldMaker(Protocol):
    """A frozen dataclass whose fields are the parameters of the world; `home`, `slots` and
    `suspended_gb` are filled in, as `dovetail up` was told."""

    def make(self) -> World: ...


def maker(asked: str | None) -> Callable[[Home, int | None, float | None], World]:
    """Makes the world that the text describes; None: the one of last time, else this machine."""

    def make(home: Home, slots: int | None, suspended_gb: float | None) -> World:
        text = asked or _noted(home)
        given = {
            "home": lambda: home,
            "slots": lambda: slots,
            "suspended_gb": lambda: suspended_gb,
        }
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


def _noted(home: Home) -> str:
    try:
        return home.world_note.read_text() or LOCAL
    except FileNotFoundError:
        return LOCAL
