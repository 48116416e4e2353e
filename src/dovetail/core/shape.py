"""What must be free for a job to start."""

from __future__ import annotations

from typing import Any, Final, TypeAlias, final

from dovetail.core.model import WHOLE_GPU, Job, Placement

Home: TypeAlias = tuple[tuple[int, int], ...]  # nodes, and how many GPUs of each


def home_at(where: Placement | None) -> Home:
    """() also where it has parts of GPUs: those are looked for anew."""
    if where is None or where.share != WHOLE_GPU:
        return ()
    return tuple([(n, mask.bit_count()) for n, mask in where.slices])


@final
class Shape:
    """What must be free for a job to start. Jobs of one shape are interchangeable to placement.

    The state keeps one object per shape; `lane` numbers them.
    """

    def __init__(
        self,
        lane: int,
        job: Job,
        tenant: str,
        way: tuple[str, int] | None = None,
        settled: bool = False,
        full: Shape | None = None,
        home: Home = (),
    ) -> None:
        self.lane: Final = lane
        self.job: Final = job  # one of those that have this shape
        # As it asked, or in another of its ways: GPUs of that kind ("": of those it asked for), and
        # how many. What it needs beside them goes in proportion.
        self.gpus: Final = job.gpus if way is None else way[1]
        self.kinds: Final = (way[0],) if way is not None and way[0] else job.kinds
        self.share: Final = job.share
        part = self.gpus / job.gpus if job.gpus else 1.0
        # Of a job that keeps its CPUs and memory where it is (see `core.keeping`): that with them.
        self.full: Final = self if full is None else full
        self.cpus: Final = job.cpus * part if full is None else 0.0
        self.memory_gb: Final = job.memory_gb * part if full is None else 0.0
        # Exactly so many nodes, alike; 0: no matter how many. (One GPU is on one node anyway.)
        self.nodes: Final = job.nodes if job.nodes > 1 or self.gpus > 1 else 0
        self.each: Final = self.gpus // max(self.nodes, 1)  # GPUs on each of its nodes
        self.gpu_memory_gb: Final = job.gpu_memory_gb
        self.tenant: Final = tenant
        self.settled: Final = settled  # has it begun in this way, and can it go on in no other?
        self.options: Final = (
            (way,)
            if settled and way is not None
            else tuple([(option.kind, option.gpus) for option in job.options])
        )
        self.home: Final = home  # it can go on only there
        # Most jobs ask for whole GPUs and nothing else (those are bare), wherever they are: those take
        # the short way everywhere.
        self.bare: Final = (
            self.gpus > 0 and job.share == WHOLE_GPU and self.cpus == 0 and self.memory_gb == 0
        )
        self.plain: Final = self.bare and self.nodes == 0 and not home
        # May it be on any single node?
        self.fits_one: Final = self.bare and self.nodes <= 1 and not home
        self.pools: Any = None  # kept here by the room, see Room.eligible
        self.searches: Any = None  # likewise, see Room.search
        self._sizes: dict[tuple[str, int], Shape] = {}

    def sized(self, gpus: int, kind: str = "") -> Shape:
        """The same with so many GPUs, of that kind if one is named: for elastic jobs, and for those
        with options."""
        if gpus == self.gpus and (not kind or self.kinds == (kind,)):
            return self
        way = (kind or self._only_kind(), gpus)
        found = self._sizes.get(way)
        if found is None:
            full = None if self.full is self else self.full.sized(gpus, kind)
            home = self.home if gpus == self.gpus else ()
            what = (self.lane, self.job, self.tenant, way, self.settled, full, home)
            found = self._sizes[way] = Shape(*what)
        return found

    def _only_kind(self) -> str:
        return self.kinds[0] if len(self.kinds) == 1 else ""

    def __str__(self) -> str:
        nodes = max(self.nodes, 1)
        parts = [f"{self.each} GPU{'' if self.each == 1 else 's'}"] if self.gpus else []
        if self.share != WHOLE_GPU:
            parts = [f"{self.share}/1000 of a GPU"]
        if self.kinds:
            parts[-1:] = [f"{parts[-1] if parts else 'a node'} of kind {' or '.join(self.kinds)}"]
        if self.gpu_memory_gb:
            parts[-1:] = [f"{parts[-1] if parts else 'a GPU'} with {self.gpu_memory_gb:g} GB"]
        if self.cpus:
            parts.append(f"{self.cpus / nodes:g} CPU{'' if self.cpus == nodes else 's'}")
        if self.memory_gb:
            parts.append(f"{self.memory_gb / nodes:g} GB of memory")
        text = ", ".join(parts)
        if self.nodes:
            text = f"{nodes} nodes, each with {text}" if nodes > 1 else f"{text} on one node"
        return f"{text} for tenant {self.tenant!r}" if self.tenant else text
