"""The costs of a run, read from the state as jobs start, stop and end: energy, carbon, lateness,
moves."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final, final

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU, JobId, Placement, Seconds, gpus_of
from dovetail.core.track import Track
from dovetail.core.view import DUE, ENDS, PARKS, RUNS, WAITS, View
from dovetail.models.cost import GRAMS_IN_KG, WATTS_IN_KW, Costs
from dovetail.models.hourly import HOUR_S, Hourly

_ON_TIME_S: Final = 1e-6  # later is late: rounding errors of sums are smaller


@final
class Charges:
    """The accounts of one run. A node is charged by its busy GPUs, from change to change."""

    def __init__(self, costs: Costs) -> None:
        by_power = costs.rates or costs.by_node or costs.switch_on or costs.power
        self.watches = RUNS | WAITS | ENDS | PARKS if by_power else DUE
        self.costs: Final = costs
        self.energy_cost = 0.0
        self.energy_kwh = 0.0
        self.co2_kg = 0.0
        self.tardiness_s = 0.0
        self.tardiness_cost = 0.0
        self.deadline_misses = 0
        self.migrations = 0
        self.switch_ons = 0
        self._busy: Final[list[int]] = []  # GPUs, by node
        self._since: Final[
            list[Seconds]
        ] = []  # and from when on; of a node that is off: when it was
        self._extra: Final[list[float]] = []  # watts beyond those of the number of busy GPUs
        self._users: Final[dict[tuple[int, int], int]] = {}  # of a shared GPU
        self._on: Final[dict[JobId, Placement]] = {}
        self._view: View | None = None

    def build(self, view: View) -> Charges:
        self._view = view
        return self

    def runs(self, track: Track) -> None:
        job_id, placement = track.job.id, track.placement
        before = self._on.get(job_id)
        if before is placement or placement is None:
            return
        model = track.job.model
        if before is not None:
            self._change(model, before, -1)
        self._on[job_id] = placement
        self._change(model, placement, 1)

    def waits(self, track: Track) -> None:
        before = self._on.pop(track.job.id, None)
        if before is not None:
            self._change(track.job.model, before, -1)

    def parks(self, track: Track) -> None:
        self.waits(track)

    def ends(self, track: Track) -> None:
        if self._on:
            self.waits(track)
        if track.migrations:
            self.migrations += track.migrations
        job = track.job
        if job.deadline is not None and track.ended_at > job.deadline:
            late_s = track.ended_at - job.deadline
            self.tardiness_s += late_s
            self.tardiness_cost += late_s * self.costs.late_per_s(job)
            self.deadline_misses += late_s > _ON_TIME_S

    def _change(self, model: str, placement: Placement, sign: int) -> None:
        view = self._view
        assert view is not None
        now, costs = view.now, self.costs
        while len(self._busy) < len(view.room.nodes):
            self._busy.append(0)
            self._since.append(-inf)
            self._extra.append(0.0)
        for n, busy in self._busy_by(placement, sign):
            before, since = self._busy[n], self._since[n]
            if before:
                self._charge(n, before, since, now)
            elif busy and now > since:
                self.switch_ons += 1
                self.energy_cost += costs.switch_on
            self._busy[n] = before + busy
            self._since[n] = now
            if costs.power and placement.share == WHOLE_GPU:
                kind = view.room.nodes[n].kind
                extra = busy * costs.extra_watts(model, kind, placement.limit)
                self._extra[n] = self._extra[n] + extra if self._busy[n] else 0.0

    def _settle_up_to(self, now: Seconds) -> None:
        """Charge the nodes that are on and stay on."""
        for n, busy in enumerate(self._busy):
            if busy and now > self._since[n]:
                self._charge(n, busy, self._since[n], now)
                self._since[n] = now

    def _busy_by(self, placement: Placement, sign: int) -> list[tuple[int, int]]:
        """By node, the change of the number of busy GPUs."""
        if placement.share == WHOLE_GPU:
            return [(n, sign * mask.bit_count()) for n, mask in placement.slices]
        changes = []
        for gpu in gpus_of(placement):
            users = self._users.get(gpu, 0)
            self._users[gpu] = users + sign
            if (users > 0) != (users + sign > 0):
                changes.append((gpu[0], sign))
        return changes

    def _charge(self, n: int, busy: int, start: Seconds, end: Seconds) -> None:
        if end <= start:
            return
        self._check_table(self.costs.price, n, end)
        view, costs = self._view, self.costs
        assert view is not None
        node = view.room.nodes[n]
        extra = self._extra[n]
        per_hour = costs.per_hour(node.kind, busy) + costs.usually(extra)
        self.energy_cost += per_hour * costs.usual_hours(start, end)
        if costs.by_node:
            self.energy_cost += costs.by_node.get(node.id, 0.0) * (end - start) / HOUR_S
        kilowatts = (costs.watts(node.kind, busy) + extra) / WATTS_IN_KW
        if kilowatts:
            self._check_table(costs.carbon, n, end)
            self.energy_kwh += kilowatts * (end - start) / HOUR_S
            self.co2_kg += kilowatts * costs.carbon.total(start, end) / HOUR_S / GRAMS_IN_KG

    def figures(self, now: Seconds | None = None) -> Mapping[str, float | int]:
        """For the summary of a run that is over, or up to now."""
        if now is not None:
            self._settle_up_to(now)
        move_cost = self.migrations * self.costs.move
        return {
            "energy_cost": self.energy_cost,
            "tardiness_cost": self.tardiness_cost,
            "move_cost": move_cost,
            "total_cost": self.energy_cost + self.tardiness_cost + move_cost,
            "tardiness_s": self.tardiness_s,
            "deadline_misses": self.deadline_misses,
            "energy_kwh": self.energy_kwh,
            "co2_kg": self.co2_kg,
            "migrations": self.migrations,
            "switch_ons": self.switch_ons,
        }

    def _check_table(self, table: Hourly, n: int, end: Seconds) -> None:
        if end > table.ends:
            assert self._view is not None
            raise BadInput(
                f"node {self._view.room.nodes[n].id!r} is in use until hour {int(end / HOUR_S)}, and "
                f"the {table.what} has {len(table.values)} hours; give a longer one, or one of 24 "
                "hours for every day"
            )
