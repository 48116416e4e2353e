"""The settings of a trial: what a study has chosen for the hyper-parameters."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def settings(**usual: Any) -> dict[str, Any]:
    """The settings chosen for this trial, over the usual ones: `settings(lr=0.1, units=64)`.

    Outside a study these are the usual ones.
    """
    told = os.environ.get("DOVETAIL_SETTINGS")
    if not told:
        return usual
    import json

    return {**usual, **json.loads(told)}
