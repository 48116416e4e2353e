"""Hyper-parameter studies: spaces, samplers, and the rules that say which trial matters most.

    from dovetail.tune import Choice, Log, tune

Names are imported when they are first used. `tune` is found by name: it speaks to the daemon, which
everything else here knows nothing of.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_SPACE = "dovetail.tune.space"
_HOMES = {
    **dict.fromkeys(("Choice", "Float", "Integer", "Log", "Space"), _SPACE),
    **dict.fromkeys(("Result", "TrialResult", "tune"), "dovetail.client.tune_function"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
