"""Packages that only some commands need, and the extra of Dovetail that installs each."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from dovetail.core.errors import DovetailError

# As pyproject.toml has them, by the names under which they are imported. A package of several extras
# is told under the first.
LIVE: Final = ("fastapi", "numpy", "pydantic", "pynvml", "uvicorn", "yaml")
_EXTRAS: Final = {
    "analyze": ("numpy", "scipy", "sklearn"),
    "live": (*LIVE, "starlette"),
    "optuna": ("cmaes", "optuna"),
    "parquet": ("pyarrow",),
}
_SOLVE: Final = ("numpy", "scipy")


class NotInstalled(DovetailError):
    """A package that this command needs and that is not here."""


def install(extra: str) -> str:
    """The command that brings it."""
    return f"pip install 'dovetail[{extra}]'"


def explained(error: ModuleNotFoundError) -> NotInstalled | None:
    """The failed import in one line, or None if no extra would have brought the package."""
    package = (error.name or "").partition(".")[0]
    for extra, packages in _EXTRAS.items():
        if package in packages:
            return NotInstalled(f"this needs {package}, which is not installed: {install(extra)}")
    return None


def needed_by(policy: str, error: Exception) -> NotInstalled | None:
    """What a policy that solves programs lacks, in one line; None: that was not the matter."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package not in _SOLVE:
        return None
    return NotInstalled(
        f"policy {policy!r} needs {package}, which is not installed: {install('solve')}"
    )


def check_live() -> None:
    """Before a daemon is started, which could only write into its log what it misses."""
    missing = [package for package in LIVE if find_spec(package) is None]
    if missing:
        raise NotInstalled(
            f"the daemon needs {', '.join(missing)}, not installed here: {install('live')}"
        )
