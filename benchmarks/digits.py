"""The digits study as benchmarks need it: its 27 settings, each trained alone, and in any order.

The settings are those that study.yaml draws at random from its space by its seed. An order is the
27 of them shuffled by a seed of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, TypeAlias

import yaml

from dovetail.tune.described import read_space
from dovetail.tune.sampling import randomly
from dovetail.tune.space import Settings

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "study_digits"
WITHIN = 0.01  # of the way from the best to the median
RUN_SCRIPT = "exec sh {script}"
Curve: TypeAlias = tuple[float, ...]  # the validation loss after each epoch


def described() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "study.yaml").read_text())
    return found


def settings() -> list[Settings]:
    study = described()
    space = read_space(study["space"])
    return [randomly.suggest(study["seed"], space, number) for number in range(study["trials"])]


def command(
    chosen: Mapping[str, Any], *more: str, script: str = str(FOLDER / "train.py")
) -> list[str]:
    words = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    return [sys.executable, script, *words, *more]


def order(seed: int, trials: int = 27) -> list[int]:
    return Random(seed).sample(range(trials), trials)


def alone(commands: Sequence[Sequence[str]], folder: Path, at_once: int = 2) -> list[Curve]:
    """Each command run by itself to its end, outside Dovetail; what it reported."""

    def run(number: int) -> Curve:
        reports = folder / f"alone-{number}.jsonl"
        environment = {**as_we_run(), "DOVETAIL_REPORT": str(reports)}
        subprocess.run(
            commands[number], env=environment, check=True, cwd=folder, stdout=subprocess.DEVNULL
        )
        return tuple(json.loads(line)["val_loss"] for line in reports.read_text().splitlines())

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run, range(len(commands))))


def alone_or_known(commands: Sequence[Sequence[str]], folder: Path) -> list[Curve]:
    """As `alone`, unless the same was done here before: it takes minutes."""
    known = ROOT / ".benchmarks" / f"digits-{_fingerprint(commands)}.json"
    if not known.exists():
        found = alone(commands, folder)
        known.parent.mkdir(exist_ok=True)
        known.write_text(json.dumps(found))
    return [tuple(curve) for curve in json.loads(known.read_text())]


def _fingerprint(commands: Sequence[Sequence[str]]) -> str:
    """Other scripts, settings, libraries or processors may give other bits."""
    kind = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        "",
    )
    scripts = [path.read_text() for path in sorted(FOLDER.glob("*.py"))]
    what = [scripts, [list(words[1:]) for words in commands], version("numpy"), sys.version, kind]
    return sha256(json.dumps(what).encode()).hexdigest()[:12]


def as_we_run() -> dict[str, str]:
    """What a training script needs to find NumPy and Dovetail where we found them."""
    kept = ("PATH", "HOME", "PYTHONPATH", "LD_LIBRARY_PATH")
    return {name: os.environ[name] for name in kept if name in os.environ}


def target(curves: Sequence[Curve]) -> float:
    """As in the replay of recorded curves: best + 0.01 x (median - best) of the lowest losses."""
    ends = [min(curve) for curve in curves]
    return min(ends) + WITHIN * (median(ends) - min(ends))


def as_study(
    policy: str,
    scripts: Sequence[str],
    numbers: Sequence[int],
    *,
    target: float | None,
    name: str = "digits",
    **more: Any,
) -> dict[str, Any]:
    """A description of the study whose trials are these settings in this order."""
    study = described()
    return {
        "name": name,
        "run": RUN_SCRIPT,
        "space": {"script": {"choice": [scripts[number] for number in numbers], "text": True}},
        "sampler": "grid",
        "metric": study["metric"],
        "steps": study["steps"],
        "trials": len(numbers),
        "policy": policy,
        "seed": 0,
        **({} if target is None else {"target": target, "stop_at_target": True}),
        **more,
    }


def write_scripts(commands: Sequence[Sequence[str]], folder: Path) -> list[str]:
    """One shell script a setting: that is how a study is given settings in an order of our own."""
    paths = []
    for number, words in enumerate(commands):
        path = folder / f"setting-{number}.sh"
        path.write_text(f"exec {' '.join(words)}\n")
        paths.append(str(path))
    return paths
