"""`python -m dovetail.planning`: one decision in a process of its own, with bounds of its own.

Its input is JSON: `request`, `policy`, `limit_s`; so is what it prints: `answer` and `notes`, or
`code` and `error`. A policy may search without end, or want all the memory there is.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.planning.answer import planned
from dovetail.planning.request import BadRequest, read_request
from dovetail.worlds.shortage import bound_this_process

_MOST_BYTES = 1 << 30
_MOST_CPU_S = 10.0


def _told(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        found = planned(read_request(asked["request"]), asked["policy"], asked["limit_s"])
    except BadRequest as error:
        return {"code": error.code, "error": str(error)}
    except BadInput as error:
        return {"code": None, "error": str(error)}
    return {"answer": found.answer, "notes": found.notes}


if __name__ == "__main__":
    bound_this_process(_MOST_CPU_S, _MOST_BYTES)
    json.dump(_told(json.load(sys.stdin)), sys.stdout)
