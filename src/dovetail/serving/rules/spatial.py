"""gpulet and iGniter: services side by side on parts of GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from dovetail.core.errors import BadInput
from dovetail.serving.planners.demand import ShareDemand, largest_batch, rate_within
from dovetail.serving.planners.duty import duty_cycle
from dovetail.serving.planners.gpulet import Gpulet, split_gpus
from dovetail.serving.planners.igniter import SharedGpu, SharingModel, least_share, share_gpus
from dovetail.serving.planners.igniter import smallest_batch as igniter_batch
from dovetail.serving.rules.parts import GpuPart, PartsController, PartUse, parts_of_pool
from dovetail.serving.server import ServerGroup
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite

MOST_RESIDENTS = 8  # of a GPU under iGniter
_SPLITS = range(1, 65)
_HARDLY_ANY = 1e-6  # requests a second

Services = Mapping[str, ServedModel]


class LatencyByShare:
    """Looked up: planners ask for the same again and again."""

    def __init__(self, service: ServedModel, kind: str) -> None:
        self._service = service
        self._kind = kind
        self._tables: dict[int, list[float]] = {}

    def __call__(self, batch: int, share: int) -> float:
        table = self._tables.get(share)
        if table is None:
            table = self._tables[share] = self._service.seconds(self._kind, share)
        return table[batch]


class Latencies:
    """Of all services."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._made: dict[tuple[str, str], LatencyByShare] = {}

    def of(self, name: str, kind: str) -> Callable[[int, int], float]:
        key = (name, kind)
        if key not in self._made:
            self._made[key] = LatencyByShare(self._services[name], kind)
        return self._made[key]


@dataclass(frozen=True)
class GpuletParts:
    """gpulet: a GPU in up to two parts, each as large as still pays; planned again every epoch_s.
    `split=false`: whole GPUs, shared in turns alone."""

    epoch_s: float = 20.0
    split: bool = True

    def __post_init__(self) -> None:
        _check_epoch(self.epoch_s)

    def groups(self, services: Services, gpus: Sequence[str]) -> Sequence[ServerGroup]:
        return parts_of_pool(services, gpus, 2)

    def controller(self, site: ServingSite) -> PartsController:
        return PartsController(GpuletPlanner(site.services, self.split), self.epoch_s, site)


class GpuletPlanner:
    """From rates to parts."""

    def __init__(self, services: Services, split: bool) -> None:
        self._services = services
        self._split = split
        self._latencies = Latencies(services)

    def parts(self, rates: Mapping[str, float], gpus: int, kind: str) -> Sequence[GpuPart] | None:
        demands = [
            ShareDemand(name, rates[name], own.slo_s, self._latencies.of(name, kind), own.max_batch)
            for name, own in self._services.items()
        ]
        demands = [own for own in demands if rate_within(own)]  # the others are never in time
        found = split_gpus(demands, gpus, self._interference, self._split)
        return None if found is None else [_part_of(own) for own in found]

    def _interference(self, own: str, share: int, neighbour: str, other_share: int) -> float:
        return 1.0 + self._services[own].sensitivity * self._services[neighbour].pressure


def _part_of(own: Gpulet) -> GpuPart:
    if len(own.served) == 1:
        batches = [largest_batch(own.served[0], own.share)]
    else:
        cycle = duty_cycle(own.served, own.share) or 0.0
        batches = [max(ceil(demand.rate * cycle - 1e-9), 1) for demand in own.served]
    uses = [
        PartUse(demand.name, demand.rate, batch)
        for demand, batch in zip(own.served, batches, strict=True)
    ]
    return GpuPart(own.gpu, own.share, tuple(uses))


@dataclass(frozen=True)
class IgniterParts:
    """iGniter: each service has a share of a GPU, as small as keeps it in time beside its neighbours;
    placed where the least has to be added; planned again every epoch_s."""

    epoch_s: float = 60.0

    def __post_init__(self) -> None:
        _check_epoch(self.epoch_s)

    def groups(self, services: Services, gpus: Sequence[str]) -> Sequence[ServerGroup]:
        return parts_of_pool(services, gpus, MOST_RESIDENTS)

    def controller(self, site: ServingSite) -> PartsController:
        return PartsController(IgniterPlanner(site.services), self.epoch_s, site)


class IgniterPlanner:
    """From rates to shares. A service too busy for one GPU is planned as several equal ones."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._latencies = Latencies(services)
        self._gpu = SharedGpu()

    def parts(self, rates: Mapping[str, float], gpus: int, kind: str) -> Sequence[GpuPart] | None:
        models: list[SharingModel] = []
        for name, own in self._services.items():
            pieces = self._pieces(name, own, rates[name], kind)
            if pieces is None or len(models) + len(pieces) > gpus * MOST_RESIDENTS:
                return None
            models += pieces
        found = share_gpus(models, self._gpu, gpus)
        if found is None or any(len(residents) > MOST_RESIDENTS for residents in found):
            return None
        return [
            GpuPart(gpu, one.share, (PartUse(one.model.name, one.model.rate, one.batch),))
            for gpu, residents in enumerate(found)
            for one in residents
        ]

    def _pieces(
        self, name: str, own: ServedModel, rate: float, kind: str
    ) -> list[SharingModel] | None:
        model = SharingModel(
            name,
            rate,
            own.slo_s,
            self._latencies.of(name, kind),
            own.max_batch,
            cache=own.pressure,
            cache_slope=own.sensitivity,
        )
        if least_share(model._replace(rate=_HARDLY_ANY), 1, self._gpu) is None:
            return []  # it is never in time, and others are not to suffer for that
        for n in _SPLITS:
            piece = model._replace(rate=rate / n)
            if least_share(piece, igniter_batch(piece, self._gpu), self._gpu) is not None:
                return [piece] * n
        return None


def _check_epoch(epoch_s: float) -> None:
    if not epoch_s > 0:
        raise BadInput(f"epoch_s={epoch_s:g}: it is above 0")
