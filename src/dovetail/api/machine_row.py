"""The daemon and its nodes, as the daemon tells them."""

from __future__ import annotations

from dataclasses import field

from dovetail.api.service_row import ServiceCost
from dovetail.api.wire import about, row


@row
class ProblemTold:
    """An error."""

    error: str = field(metadata=about("One line: what could not be done, why, and the way out."))


@row
class PolicyTold:
    """The policy that decides."""

    policy: str
    trouble: str = field(
        metadata=about("Why the policy that was asked for does not decide, if so.")
    )


@row
class Counts:
    """Jobs that have not ended."""

    running: int
    waiting: int


@row
class Health(PolicyTold):
    """The state of the daemon."""

    version: str
    uptime_s: float
    pid: int
    jobs: Counts
    full: bool = field(metadata=about("Is the disk full, so that no job is accepted?"))
    keep: str = field(metadata=about("How long ended jobs are kept."))
    notices: list[str] = field(
        metadata=about("Those that nobody has acknowledged; as a rule none.")
    )
    system: bool = field(metadata=about("Is it for everybody on this machine?"))
    power: list[str] = field(
        metadata=about("Why GPUs run without power limits; as a rule nothing.")
    )
    costs: str = field(metadata=about("What is counted as 0 for want of watts; as a rule nothing."))
    threads: str = field(metadata=about("What keeps the daemon from its work; as a rule nothing."))
    seq: int = field(metadata=about("Of the last entry of the journal."))


@row
class Acknowledged:
    """Notices that an administrator has seen."""

    notices: list[str] = field(metadata=about("Those that are no longer shown."))


@row
class Stopping:
    """The daemon stops."""

    stopping: bool


@row
class Occupant:
    """A job on a GPU."""

    job: str
    name: str
    user: str
    share: float


@row
class Gpu:
    """A GPU or processor slot."""

    index: int = field(metadata=about("As nvidia-smi counts, where a machine has one kind."))
    uuid: str | None = field(metadata=about("null for a processor slot."))
    jobs: list[Occupant]
    strangers: bool = field(metadata=about("Do processes use it that are not ours?"))
    closed: str = field(default="", metadata=about("By whom and why; empty: it is open."))
    to_vacate: bool = field(default=False, metadata=about("Do jobs there give way?"))
    others: list[str] = field(
        default_factory=list, metadata=about("Who else computes there, where that can be seen.")
    )


@row
class NodeRow:
    """A node of the cluster."""

    id: str
    kind: str
    gpus: list[Gpu]
    free: int
    up: bool
    open: bool
    gpu_memory_gb: float
    gpu_watts: float
    cpus: float | None
    memory_gb: float | None


@row
class Nodes:
    """All nodes."""

    nodes: list[NodeRow]


@row
class SettingRow:
    """A setting of the daemon."""

    name: str = field(metadata=about("Of the option of `dovetail up`, with _ for -."))
    value: str = field(metadata=about("As text; empty: as the world has it."))
    source: str = field(metadata=about("typed, a file and its line, last time, or usual."))


@row
class SettingsTold:
    """With what the daemon runs."""

    settings: list[SettingRow]


@row
class FindingRow:
    """Something that `dovetail doctor` found."""

    what: str
    state: str = field(metadata=about("good, note or bad."))
    text: str


@row
class Findings:
    """The features that the machines offer to jobs, and those that they lack."""

    findings: list[FindingRow]


@row
class CostsTold:
    """Money is in the unit of the prices that the daemon was given."""

    energy_cost: float
    tardiness_cost: float
    move_cost: float
    total_cost: float
    tardiness_s: float
    deadline_misses: int
    energy_kwh: float
    co2_kg: float
    migrations: int
    switch_ons: int
    since: float
    file: str = field(metadata=about("Where prices and watts were read; none if nowhere."))
    currency: str = field(default="", metadata=about("Of the money; empty: the file names none."))
    services: list[ServiceCost] = field(
        metadata=about("Those that are open, from their beginning on.")
    )
