"""The studies among the examples, in short, and their trials run alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from dovetail.api.wire import plain
from dovetail.daemon.submissions import Opening
from dovetail.jobfiles.study_model import expand, read_study
from live_box import ME, Box

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
DIGITS, VIDEO = EXAMPLES / "study_digits", EXAMPLES / "study_video"


def described(folder: Path, shorter: str, **changes: Any) -> dict[str, Any]:
    """study.yaml with a shorter training, and whatever else is to be different."""
    study: dict[str, Any] = yaml.safe_load((folder / "study.yaml").read_text())
    return {**study, "run": f"{study['run']} {shorter}", **changes}


def environment() -> dict[str, str]:
    """`python` is the one that runs the tests, and finds Dovetail where they do."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    return {"PATH": path, **kept}


def closed(
    here: Box, study: dict[str, Any], folder: Path, within_s: float = 120.0
) -> dict[str, Any]:
    """The page of the study once it is over."""
    here.daemon.studies.open(Opening(study, environment(), str(folder)), ME)
    name = study["name"]
    here.wait_for(lambda: here.daemon.studies.one(name, ME).state == "closed", within_s)
    found: dict[str, Any] = plain(here.daemon.studies.one(name, ME))
    return found


def alone(
    study: dict[str, Any], number: int, settings: dict[str, Any], tmp_path: Path
) -> list[Any]:
    """What the trial reports when it is run by hand, step by step."""
    job = expand(read_study(study), settings, number)
    reports = tmp_path / f"{number}.jsonl"
    assert job.run is not None
    subprocess.run(
        ["sh", "-c", job.run],
        env={**environment(), "DOVETAIL_REPORT": str(reports)},
        cwd=DIGITS,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    told = [json.loads(line) for line in reports.read_text().splitlines()]
    return [[one["step"], one["val_loss"]] for one in told]
