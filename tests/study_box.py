"""Studies on a real daemon with real processes on processor slots."""

from __future__ import annotations

import os
import sys
from typing import Any

from dovetail.api.wire import plain
from dovetail.daemon.submissions import Opening
from dovetail.daemon.users.callers import Caller
from live_box import ME, Box
from waiting import LONG_S

# It makes a step every so often, tells of it, saves it, and goes on from there when started again.
TRAIN = """
import json, os, sys, time
told = json.loads(os.environ["DOVETAIL_SETTINGS"])
saved = os.path.join(os.environ["DOVETAIL_CHECKPOINT_DIR"], "step")
done = int(open(saved).read()) if os.path.exists(saved) else 0
print("begins at", done, "on", os.environ["CUDA_VISIBLE_DEVICES"] or "a processor", flush=True)
for step in range(done + 1, int(os.environ["DOVETAIL_STEPS"]) + 1):
    for _ in range(round({pace} / 0.02)):  # counted: what is frozen meanwhile is not done sooner
        time.sleep(0.02)
    with open(saved + ".part", "w") as file:
        file.write(str(step))
    os.replace(saved + ".part", saved)
    with open(os.environ["DOVETAIL_REPORT"], "a") as file:
        file.write(json.dumps({{"step": step, "loss": abs(told["lr"] - 0.5) + 1 / step}}) + "\\n")
"""


def command(script: str) -> list[str]:
    """Braces of the script's own are no settings."""
    return [sys.executable, "-I", "-S", "-c", script.replace("{", "{{").replace("}", "}}")]


def study(script: str = TRAIN, pace: float = 0.15, **fields: Any) -> dict[str, Any]:
    script = script.replace("{pace}", str(pace)).replace("{{", "{").replace("}}", "}")
    usual = {"space": {"lr": {"float": [0, 1]}}, "metric": "loss", "steps": 4, "trials": 4}
    return {
        "name": "digits",
        "command": command(script),
        "policy": "round-robin",
        **usual,
        **fields,
    }


def opened(here: Box, caller: Caller = ME, **fields: Any) -> dict[str, Any]:
    opening = Opening(study(**fields), {"PATH": os.environ["PATH"]}, str(here.home.state))
    found: dict[str, Any] = plain(here.daemon.studies.open(opening, caller))
    return found


def open_study(here: Box, **fields: Any) -> list[str]:
    """The ids of its jobs."""
    return list(opened(here, **fields)["trials"])


def page(here: Box, name: str = "digits") -> dict[str, Any]:
    found: dict[str, Any] = plain(here.daemon.studies.one(name, ME))
    return found


def closed(here: Box, name: str = "digits", seconds: float = LONG_S) -> dict[str, Any]:
    """The page of a study that is over, once it is."""
    here.wait_for(lambda: page(here, name)["state"] == "closed", seconds)
    return page(here, name)


def steps_told(found: dict[str, Any]) -> list[list[float]]:
    return [[point[0] for point in trial["points"]] for trial in found["trials"]]
