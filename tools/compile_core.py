"""Compile the hot modules with mypyc while the wheel is built, where a C compiler allows it.

There is one readable source. Without a compiler or Python's headers, or with DOVETAIL_PURE=1, the
same files run as they are, about half as fast.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = (
    "core/errors.py",
    "core/model.py",
    "core/shape.py",
    "core/entry.py",
    "core/events.py",
    "core/actions.py",
    "core/inventory.py",
    "core/closings.py",
    "core/room.py",
    "core/paces.py",
    "core/track.py",
    "core/measuring.py",
    "core/freed.py",
    "core/view.py",
    "core/queue.py",
    "core/keeping.py",
    "core/lifecycle.py",
    "core/cluster_changes.py",
    "core/state.py",
    "core/orders.py",
    "core/line.py",
    "core/plan.py",
    "core/loop.py",
    "core/journal.py",
    "workloads/service/design.py",
    "workloads/service/entries.py",
    "workloads/study/design.py",
    "workloads/study/entries.py",
    "models/hourly.py",
    "models/cost.py",
    "models/failures.py",
    "models/course.py",
    "models/leases.py",
    "models/workload.py",
    "predict/duration.py",
    "policies/placement.py",
    "policies/keys.py",
    "policies/narrowing.py",
    "policies/outlook.py",
    "policies/backfill/backlog.py",
    "policies/backfill/free_over_time.py",
    "policies/backfill/reservations.py",
    "policies/backfill/first_blocked.py",
    "policies/bundles.py",
    "policies/victims.py",
    "policies/listing.py",
    "policies/packing/partners.py",
    "policies/packing/pairing.py",
    "policies/gavel/problem.py",
    "policies/gavel/ledger.py",
    "policies/gavel/choosing.py",
    "policies/gavel/claiming.py",
    "policies/gavel/dealing.py",
    "policies/gavel/rounds.py",
    "worlds/simulated/stints.py",
    "worlds/simulated/cluster.py",
    "results/charges.py",
    "results/outcomes.py",
    "serving/request.py",
    "serving/engine.py",
    "serving/over_time.py",
    "serving/tally.py",
    "serving/site.py",
    "serving/language/step_costs.py",
    "serving/language/kv_memory.py",
    "serving/language/adapters.py",
    "serving/language/settings.py",
    "serving/language/sequence.py",
    "serving/language/batch.py",
    "serving/language/replica.py",
)


class CompileCore(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get("DOVETAIL_PURE"):
            return
        self._folder = Path(tempfile.mkdtemp(prefix="dovetail-core-"))
        built = compile_into(Path(self.root) / "src", self._folder)
        if not built:
            self.app.display_warning("dovetail: no compiled core; the pure-Python one is used")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for file in built:
            build_data["force_include"][str(file)] = str(file.relative_to(self._folder / "src"))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(getattr(self, "_folder", ""), ignore_errors=True)


def compile_into(source: Path, folder: Path) -> list[Path]:
    """Compile a copy of the sources; the extension modules, or none if that is not possible."""
    copy = folder / "src"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    command = [sys.executable, "-m", "mypyc", *(f"dovetail/{name}" for name in MODULES)]
    environment = {**os.environ, "MYPYC_OPT_LEVEL": "3", "MYPYC_DEBUG_LEVEL": "0"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
        return []
    return [file for file in copy.rglob("*.so") if "build" not in file.relative_to(copy).parts]
