"""The job of one call: `python -m dovetail.library.worker FOLDER`."""

from __future__ import annotations

import os
import pickle
import runpy
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from dovetail.core.errors import BadInput

CALL, RESULT = "call", "result"


def main(folder: Path) -> int:
    try:
        around, call = pickle.loads((folder / CALL).read_bytes())
        sys.path[:] = [*around["path"], *sys.path]
        _take_on_main(around["main"])
        function, args, named = pickle.loads(call)
        return _write(folder, True, function(*args, **named))
    except Exception as error:
        traceback.print_exc()
        trace = traceback.format_exc()
        try:
            return _write(folder, False, (error, trace)) or 1
        except Exception:
            return _write(folder, False, (None, trace)) or 1


def _take_on_main(path: str | None) -> None:
    """The script that the function is of, under a name by which it knows that it is not run."""
    if path is None or not path.endswith(".py") or not os.path.exists(path):
        return
    module = ModuleType("__mp_main__")
    module.__dict__.update(runpy.run_path(path, run_name="__mp_main__"))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def refuse_while_imported() -> None:
    """A script that begins jobs whenever it is imported would begin them in each of those jobs."""
    imported = sys.modules.get("__mp_main__")
    if imported is not None and imported is not sys.modules["__main__"]:
        raise BadInput(
            "a job imports this file, and must not submit jobs itself; "
            "put connect(…), submit(…) and map(…) below: if __name__ == '__main__':"
        )


def _write(folder: Path, is_good: bool, value: Any) -> int:
    part = folder / f"{RESULT}.part"
    part.write_bytes(pickle.dumps((is_good, value)))
    part.replace(folder / RESULT)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
