"""Quantities as Kubernetes writes them: 500m, 16Gi, 1e3."""

from __future__ import annotations

import re
from typing import Any, Final

_WRITTEN: Final = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?\d+)|(m|[kKMGTPE]i?|[un]))?")
_FACTORS: Final = {
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    **{name: 1000.0 ** (i + 1) for i, name in enumerate("kMGTPE")},
    **{f"{name}i": 1024.0 ** (i + 1) for i, name in enumerate("KMGTPE")},
}


def amount(written: Any) -> float:
    """0 for what is not there or cannot be read: nobody counts with it."""
    found = _WRITTEN.fullmatch(str(written).strip()) if written is not None else None
    if found is None:
        return 0.0
    number, exponent, suffix = found.groups()
    try:
        return float(number + (exponent or "")) * _FACTORS.get(suffix or "", 1.0)
    except ValueError:
        return 0.0


def cpus(number: float) -> str:
    return f"{max(round(number * 1000), 1)}m"


def memory(gigabytes: float) -> str:
    """A GB is a thousand million bytes, as in a job file."""
    return str(round(gigabytes * 1e9))
