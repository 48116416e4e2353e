"""One trial of a Python function: `python -m dovetail.tune.worker train:objective`.

The function is called with the settings of the trial. It reports through `dovetail.sdk`; if it does
not report the metric itself, its return value (a number or a dict of metrics) is the report of the
last step.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from dovetail import sdk
from dovetail.core.errors import BadInput

NAME = "dovetail.tune.worker"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m {NAME}", description="One trial of a study.")
    parser.add_argument("function", help="module:function or file.py:function")
    parser.add_argument("--metric", required=True, help="what a returned number is")
    parser.add_argument("--step", type=int, required=True, help="the last step of a whole trial")
    asked = parser.parse_args(words)
    try:
        function = find(asked.function)
    except BadInput as error:
        sys.exit(f"dovetail: {error}")
    before = len(_reports())
    told = metrics(function(sdk.settings()), asked.metric)
    if told and json.dumps(asked.metric).encode() not in _reports()[before:]:
        sdk.report(int(os.environ.get("DOVETAIL_STEPS", asked.step)), **told)


def _reports() -> bytes:
    """The bytes of the report file: all reports of this trial, by earlier processes, too."""
    path = os.environ.get("DOVETAIL_REPORT", "")
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def find(text: str) -> Callable[[dict[str, Any]], Any]:
    """The function that `module:function` or `file.py:function` names."""
    where, _, name = text.rpartition(":")
    found: Any = _module(where)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise BadInput(f"there is no function {name!r} in {where}")
    function: Callable[[dict[str, Any]], Any] = found
    return function


def _module(where: str) -> ModuleType:
    if where.endswith(".py"):
        return _from_file(os.path.abspath(where))
    try:
        return import_module(where)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{where}.".startswith(f"{error.name}."):
            raise  # a module that it imports itself
        raise BadInput(f"there is no module {where!r} to be found from {os.getcwd()}") from None


def _from_file(path: str) -> ModuleType:
    """Import the file as a module with its folder on the path, so that code under `__main__` is not
    run."""
    if not os.path.isfile(path):
        raise BadInput(f"there is no file {path}")
    name = os.path.basename(path).removesuffix(".py")
    sys.path.insert(0, os.path.dirname(path))
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path} cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def metrics(returned: object, metric: str) -> dict[str, Any]:
    """The return value of a function, as metrics by name."""
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        return {str(name): value for name, value in returned.items()}
    return {metric: returned}


if __name__ == "__main__":
    main()
