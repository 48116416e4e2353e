"""What a scheduler may know of jobs and nodes. No ground truth lives here (see `dovetail.models`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from json.encoder import encode_basestring_ascii as quote
from math import inf, isinf
from operator import attrgetter
from typing import Any, Final, NamedTuple, NewType, TypeAlias, final

JobId = NewType("JobId", str)
Seconds = float
Setting: TypeAlias = float | int | str | bool  # the value of one hyper-parameter

WHOLE_GPU: Final = 1000  # shares of a GPU are counted in thousandths
_WHOLE_TEXT: Final = str(WHOLE_GPU)


def remade(value: Any) -> tuple[object, ...]:
    """For pickling, said outright, because a compiled frozen dataclass does not unpickle by itself."""
    return type(value), tuple(getattr(value, item.name) for item in fields(value) if item.init)


@dataclass(frozen=True, slots=True)
class Interruption:
    """What it costs to take the GPUs away from a job and to give them back later."""

    save_s: Seconds = 0.0  # the GPUs stay busy that long after a preemption
    restore_s: Seconds = 0.0  # and that long after every later start
    lost_s: Seconds = inf  # work lost at most when it is killed without warning

    def __reduce__(self) -> tuple[object, ...]:
        return remade(self)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A belief about a duration: the middle, and an interval where there is one."""

    seconds: Seconds
    low: Seconds | None = None
    high: Seconds | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return remade(self)


class Option(NamedTuple):
    """One way to run a job: GPUs of a kind, how many, and how long all of it takes there."""

    kind: str
    gpus: int
    seconds: Seconds


NO_INTERRUPTION_COST = Interruption()


@dataclass(frozen=True, slots=True)
class Job:
    """What a user asked for. Holds no ground truth: only what a scheduler may know."""

    id: JobId
    gpus: int = 1
    share: int = WHOLE_GPU
    kinds: tuple[str, ...] = ()  # GPU kinds it accepts; empty means any
    cpus: float = 0.0  # in all; split over nodes in proportion to the GPUs
    memory_gb: float = 0.0
    user: str = ""
    tenant: str = ""
    name: str = ""
    group: str = ""  # the jobs it belongs together with
    model: str = ""
    priority: float = 0.0  # higher goes first
    weight: float = 1.0
    deadline: Seconds | None = None
    min_gpus: int | None = None  # elastic range: any number in it may be given, and changed later;
    max_gpus: int | None = None  # None: `gpus`. CPUs and memory go in proportion
    interruption: Interruption = NO_INTERRUPTION_COST
    estimate: Estimate | None = None  # what the user said it would take
    retries: int = 0
    time_limit_s: Seconds | None = None  # of one attempt; it is stopped when it has run that long
    after: tuple[JobId, ...] = ()  # jobs that must have finished before this one may start
    preemptible: bool = True  # may it be made to give way at all?
    restartable: bool = False  # may it be killed and begun anew, if nothing gentler works?
    gpu_memory_gb: float = 0.0  # every GPU must have as much
    member: int | None = None  # which one of its group it is, counted from 0; see `core.groups`
    settings: tuple[tuple[str, Setting], ...] = ()  # of a member: what it was given to try
    late_cost_per_s: float | None = None  # money for each second after the deadline; None: unsaid
    options: tuple[Option, ...] = ()  # every way to run it; the first is what speed 1 means
    settles: bool = False  # once begun it keeps its option: real processes cannot be told another
    last_step: int | None = None  # of a stage that members of a group share: where it ends
    alike: tuple[str, ...] = ()  # digests of what it runs, from the very command to its script
    amount: float | None = None  # epochs or steps that its command names
    nodes: int = (
        0  # exactly so many, with equal parts of all it asks for; 0: however many there are
    )
    after_any: tuple[JobId, ...] = ()  # jobs that must have ended, however that was
    after_failed: tuple[JobId, ...] = ()  # jobs that must have failed or been cancelled
    simple: bool = field(init=False, repr=False, compare=False)  # nothing set but size and owner?

    def __post_init__(self) -> None:
        if self.gpus < 0 or (self.gpus == 0 and self.cpus <= 0):
            raise ValueError(
                f"job {self.id!r} asks for {self.gpus} GPUs; ask for at least 1, or for CPUs alone"
            )
        if not 1 <= self.share <= WHOLE_GPU:
            raise ValueError(
                f"job {self.id!r} asks for {self.share}/1000 of a GPU; ask for 1 to 1000"
            )
        if self.share != WHOLE_GPU and self.gpus != 1:
            raise ValueError(
                f"job {self.id!r} asks for a share of {self.gpus} GPUs; shares go with exactly 1 GPU"
            )
        if not (0 <= self.cpus < inf and 0 <= self.memory_gb < inf):
            raise ValueError(
                f"job {self.id!r} asks for {self.cpus:g} CPUs and {self.memory_gb:g} GB"
            )
        if not 0 <= self.gpu_memory_gb < inf:
            raise ValueError(f"job {self.id!r} asks for {self.gpu_memory_gb:g} GB of GPU memory")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise ValueError(
                f"job {self.id!r} has a time limit of {self.time_limit_s:g} s; give more than 0"
            )
        if not 0 < self.weight < inf:
            raise ValueError(f"job {self.id!r} has weight {self.weight:g}; give a positive number")
        if self.late_cost_per_s is not None and not 0 <= self.late_cost_per_s < inf:
            raise ValueError(
                f"job {self.id!r} costs {self.late_cost_per_s:g} a second when late; give 0 or more"
            )
        if self.options:
            self._check_options()
        if self.nodes:
            self._check_nodes()
        object.__setattr__(self, "simple", _rest_of(self) == _REST_UNSET)
        low = self.gpus if self.min_gpus is None else self.min_gpus
        high = self.gpus if self.max_gpus is None else self.max_gpus
        if not low <= self.gpus <= high:
            raise ValueError(
                f"job {self.id!r} asks for {self.gpus} GPUs outside its range {low} to {high}"
            )

    def _check_options(self) -> None:
        for kind, gpus, seconds in self.options:
            if gpus < 1 or not 0 < seconds < inf:
                raise ValueError(
                    f"job {self.id!r} has an option of {gpus} GPUs of kind {kind!r} for {seconds:g} s; "
                    "give at least 1 GPU and more than 0 s"
                )
        ways = [(option.kind, option.gpus) for option in self.options]
        if len(set(ways)) < len(ways):
            raise ValueError(f"job {self.id!r} has two options of one kind and number of GPUs")
        missing = [kind for kind in self.kinds if (kind, self.gpus) not in ways]
        if missing or not self.kinds:
            known = "|".join([f"{kind}:{gpus}" for kind, gpus in ways])
            raise ValueError(
                f"job {self.id!r} asks for {self.gpus} GPUs of {' or '.join(missing) or 'any kind'}, "
                f"which is none of its options ({known}): add that option, or ask for kinds and a "
                "number of GPUs that have one"
            )

    def _check_nodes(self) -> None:
        if self.nodes < 0:
            raise ValueError(f"job {self.id!r} asks for {self.nodes} nodes; ask for 1 or more")
        sizes = [self.gpus, self.min_gpus, self.max_gpus, *[option.gpus for option in self.options]]
        for gpus in sizes:
            if gpus is not None and gpus % self.nodes:
                raise ValueError(
                    f"job {self.id!r} asks for {gpus} GPUs on {self.nodes} nodes, which cannot have "
                    f"equally many; ask for {-(-gpus // self.nodes) * self.nodes}"
                )

    @property
    def least_gpus(self) -> int:
        return self.gpus if self.min_gpus is None or self.share != WHOLE_GPU else self.min_gpus

    @property
    def most_gpus(self) -> int:
        return self.gpus if self.max_gpus is None or self.share != WHOLE_GPU else self.max_gpus

    @property
    def elastic(self) -> bool:
        """May it have more or fewer GPUs than before, each time it is given some?"""
        if self.options:
            return not self.settles and any([way.gpus != self.gpus for way in self.options])
        return self.least_gpus < self.most_gpus

    def option(self, kind: str, gpus: int) -> Option | None:
        """The option with that many GPUs of that kind, if it is one."""
        for option in self.options:
            if option.gpus == gpus and option.kind == kind:
                return option
        return None

    def __reduce__(self) -> tuple[object, ...]:
        return remade(self)

    def text(self) -> str:
        """As JSON: most jobs are told by id, size and owner, the others by every field they set."""
        if not self.simple:
            return json.dumps(own_fields(self), separators=(",", ":"))
        text = f'{{"id":{quote(self.id)},"gpus":{self.gpus}'
        if self.user:
            text += f',"user":{quote(self.user)}'
        if self.tenant:
            text += f',"tenant":{quote(self.tenant)}'
        return text + "}"


_TOLD_OF_ALL: Final = ("id", "gpus", "user", "tenant")  # of jobs that set nothing else
_REST: Final = tuple([item for item in fields(Job) if item.init and item.name not in _TOLD_OF_ALL])
_rest_of: Final = attrgetter(*[item.name for item in _REST])
_REST_UNSET: Final = tuple([item.default for item in _REST])


def own_fields(value: Any) -> dict[str, Any]:
    """The fields that differ from their defaults; infinity, which JSON lacks, as text."""
    row = {}
    for item in fields(value):
        if not item.init:
            continue
        own = getattr(value, item.name)
        if item.default is MISSING or own != item.default:
            if isinstance(own, Interruption | Estimate):
                own = own_fields(own)
            elif isinstance(own, float) and isinf(own):
                own = str(own)  # inf or -inf
            row[item.name] = own
    return row


@dataclass(frozen=True, slots=True)
class Node:
    """A machine: its GPUs, its host and its place in the topology."""

    id: str
    gpus: int
    kind: str = "gpu"
    gpu_memory_gb: float = 0.0
    cpus: float = inf
    memory_gb: float = inf
    rack: str = ""
    island: int = 0  # GPUs joined by fast links come in groups of this size; 0 means all of them
    tenant: str = ""  # only this tenant's jobs may use it; empty means everyone's
    idle_watts: float = 0.0
    gpu_watts: float = 0.0
    labels: tuple[tuple[str, str], ...] = ()
    prompt: bool = False  # jobs with nothing to restore work here the moment they get GPUs
    keeps: bool = False  # who is suspended here keeps its CPUs and memory, see `core.keeping`

    def __post_init__(self) -> None:
        if self.gpus < 0:
            raise ValueError(f"node {self.id!r} has {self.gpus} GPUs; it needs 0 or more")
        if self.island and self.gpus % self.island:
            raise ValueError(
                f"node {self.id!r}: islands of {self.island} do not divide its {self.gpus} GPUs"
            )

    def __reduce__(self) -> tuple[object, ...]:
        return remade(self)


class Slice(NamedTuple):
    """The GPUs of one node that a placement uses: bit i of the mask stands for GPU i."""

    node: int
    mask: int


@final
class Placement:
    """Which GPUs, or which share of one, on which nodes. Nodes are named by their index.

    `limit` is the watts that each GPU may draw; 0: as many as it can.
    """

    def __init__(
        self,
        slices: tuple[Slice, ...],
        share: int = WHOLE_GPU,
        limit: int = 0,
        parts: Sequence[Placement] = (),  # those on its nodes one by one, where they are at hand
    ) -> None:
        self.slices: Final = slices
        self.share: Final = share
        self.whole: Final = share == WHOLE_GPU
        self.limit: Final = limit
        gpus, pieces = 0, ""
        uses: tuple[tuple[int, int, int], ...] = ()
        for part in parts:
            gpus += part.gpus
            pieces += part.pieces
            uses += part.uses
        if not parts:
            for n, mask in slices:
                number = mask.bit_count()
                gpus += number
                pieces += f",[{n},{mask}]"
                if number:
                    uses += ((n, mask, number),)
        self.gpus: Final[int] = gpus
        self.holds: Final = gpus * share / WHOLE_GPU  # GPUs, a share counted as a part
        # The slices and their number of GPUs, for the book of what is free: in plain tuples, which
        # are taken apart twice as fast as named ones.
        self.uses: Final[tuple[tuple[int, int, int], ...]] = uses
        self.pieces: Final[str] = pieces  # the nodes and masks as JSON
        # Shared GPUs one by one, as pairs of a node and a GPU: they are counted often.
        self.shared: Final[tuple[tuple[int, int], ...]] = () if self.whole else _one_by_one(slices)
        # As JSON: the share, nodes and masks, then any limit.
        said = _WHOLE_TEXT if self.whole else str(share)
        self.text: Final = f"[{said}{pieces},{limit}]" if limit else f"[{said}{pieces}]"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Placement)
            and self.slices == other.slices
            and self.share == other.share
            and self.limit == other.limit
        )

    def __hash__(self) -> int:
        return hash((self.slices, self.share, self.limit))

    def __repr__(self) -> str:
        return f"Placement({self.slices!r}, share={self.share}, limit={self.limit})"

    def __reduce__(self) -> tuple[object, ...]:
        return Placement, (self.slices, self.share, self.limit)

    def row(self) -> list[Any]:
        """What `text` says."""
        pieces = [[piece.node, piece.mask] for piece in self.slices]
        return [self.share, *pieces, self.limit] if self.limit else [self.share, *pieces]

    def limited_to(self, watts: int) -> Placement:
        """The same GPUs, with that power limit."""
        return self if watts == self.limit else Placement(self.slices, self.share, watts)


def joined(parts: Sequence[Placement]) -> Placement:
    """The whole GPUs of several nodes, from the placements on each of them."""
    slices: tuple[Slice, ...] = ()
    for part in parts:
        slices += part.slices
    return Placement(slices, WHOLE_GPU, 0, parts)


def gpus_of(placement: Placement) -> Sequence[tuple[int, int]]:
    """Its GPUs one by one, as pairs of a node and a GPU."""
    return _one_by_one(placement.slices) if placement.whole else placement.shared


def _one_by_one(slices: tuple[Slice, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(
        [(n, gpu) for n, mask in slices for gpu in range(mask.bit_length()) if mask >> gpu & 1]
    )


@dataclass(frozen=True, slots=True)
class Tenant:
    """A group of users with a limit on the GPUs they hold together."""

    name: str
    gpu_quota: float = inf
    weight: float = 1.0
    labels: tuple[tuple[str, str], ...] = field(default=())
    users: tuple[str, ...] = ()  # who may use it, by name or by a group of theirs;
    groups: tuple[str, ...] = ()  # where neither is said, everybody

    def __post_init__(self) -> None:
        if not (self.gpu_quota >= 0 and 0 < self.weight < inf):
            raise ValueError(
                f"tenant {self.name!r} has quota {self.gpu_quota:g} and weight {self.weight:g}; "
                "give 0 or more GPUs and a positive weight"
            )

    def __reduce__(self) -> tuple[object, ...]:
        return remade(self)


EVERYBODY: Final = "*"


@dataclass(frozen=True, slots=True)
class Limit:
    """How much one user may have; infinity where there is no limit, None where those of EVERYBODY
    count, and at last what the daemon takes for granted."""

    user: str  # or EVERYBODY
    queued: float | None = None  # jobs that have not ended
    running: float | None = None  # of them in line or at work at once
    gpus: float | None = None  # that these have
    gpu_hours: float | None = None  # in thirty days
    priority: float | None = None  # of any job
    megabytes: float | None = None  # handed in within a day

    def __reduce__(self) -> tuple[object, ...]:
        return remade(self)
