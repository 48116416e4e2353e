"""Errors that nobody has thought of: a few are told in full, the others are not.

The log lies on the daemon's disk, and whoever finds such an error could fill it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

_TOLD: Final = 10


class FewTroubles:
    """An exception handler of a loop."""

    def __init__(self) -> None:
        self._left = _TOLD

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self._left:
            self._left -= 1
            loop.default_exception_handler(context)
