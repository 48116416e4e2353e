"""The question of an analysis: a trace, a cluster, and how thoroughly."""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from dovetail import traces
from dovetail.core.errors import BadInput
from dovetail.core.model import Node, Seconds, Tenant
from dovetail.experiments.experiment import Experiment, with_interruption_cost
from dovetail.models.workload import Arrival
from dovetail.policies import registry
from dovetail.traces.readers.andreas_folder import is_instance
from dovetail.traces.readers.text_files import STDIN
from dovetail.traces.trace import Trace

_MEASURING = (  # packages whose code decides what is measured
    *("core/", "experiments/", "insight/", "models/", "policies/", "predict/", "results/"),
    *("traces/", "worlds/simulated/", "catalogue.py", "sobol.py"),
    *(f"analysis/{name}.py" for name in ("contenders", "driver", "policy_contest")),
)


@dataclass(frozen=True)
class Question:
    """All input of the parts of an analysis."""

    trace: Trace
    nodes: Sequence[Node]
    tenants: Sequence[Tenant] = ()
    policies: tuple[str, ...] = ()  # to be tried beside the usual ones
    placement: str = "consolidated"
    save_s: Seconds = 0.0  # of jobs that name no cost of interruption of their own
    restore_s: Seconds = 30.0
    quick: bool = False
    seed: int = 0
    arrivals: list[Arrival] = field(init=False, repr=False)  # with that cost of interruption

    def __post_init__(self) -> None:
        charged = with_interruption_cost(self.trace.arrivals, self.save_s, self.restore_s)
        object.__setattr__(self, "arrivals", charged)

    def experiment(self, arrivals: Sequence[Arrival]) -> Experiment:
        return Experiment(
            arrivals,
            self.nodes,
            tenants=self.tenants,
            placement=self.placement,
            seed=self.seed,
        )

    def check_policies(self) -> None:
        """A wrong name, parameter or predictor is reported before anything runs."""
        experiment = self.experiment(self.arrivals[:1])
        for text in self.policies:
            experiment.policy(text)

    def key(self, path: str | Path) -> str:
        """The same for the same bytes, the same options and the same version of the code."""
        trace = self.trace
        asked = (
            *(trace.format, trace.lacking, tuple(self.nodes), tuple(self.tenants), self.policies),
            *(self.placement, self.save_s, self.restore_s, self.quick, self.seed),
        )
        found = sha256(Path(_file(path)).read_bytes())
        found.update(array("d", [a.work_s for a in self.arrivals]).tobytes())  # --durations
        found.update(f"{path}\n{asked!r}\n{_learners()}\n{_own_code()}".encode())
        for text in self.policies:
            found.update(_code_of(text))
        return found.hexdigest()[:24]


def _file(path: str | Path) -> str:
    """Without the part of a Pollux file."""
    text = str(path)
    return text if Path(text).exists() else text.rpartition("#")[0]


def _learners() -> str:
    """A report made without scikit-learn is out of date once it is installed."""
    try:
        return version("scikit-learn")
    except PackageNotFoundError:
        return "none"


def _code_of(policy: str) -> bytes:
    """The source of a policy, which may be a third party's and change."""
    path = inspect.getsourcefile(registry.find(policy.partition(":")[0]))
    return Path(path).read_bytes() if path else b""


def _own_code() -> str:
    """A change of the measuring code changes the key: no old result is taken for a new one."""
    root = Path(str(files("dovetail")))
    found = sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".toml", ".json") and _measures(
            path.relative_to(root).as_posix()
        ):
            found.update(path.read_bytes())
    return found.hexdigest()


def _measures(path: str) -> bool:
    """Does the file measure, rather than show results or serve the live daemon?"""
    return path.startswith(_MEASURING)


def read_trace(
    path: str, format: str | None = None, durations: Mapping[str, Seconds] | None = None
) -> traces.Trace:
    """The usable part of the file: without bad rows, if need be without durations or times."""
    if path == STDIN or is_instance(path):
        raise BadInput(f"cannot analyze {path!r}: name a file of jobs, such as jobs.csv")
    try:
        return traces.read(path, format, skip_bad_rows=True, durations=durations)
    except BadInput as error:
        found = _without(path, "duration_s") or _without(path, "submit_s")
        if found is None or not Path(path).exists():
            raise
        return replace(found, notes=(*found.notes, str(error)))


def _without(path: str, needed: str) -> traces.Trace | None:
    try:
        return traces.read(path, skip_bad_rows=True, lacking=(needed,))
    except BadInput:
        return None
