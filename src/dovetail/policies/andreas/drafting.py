"""From a view to a problem, and from an assignment back to actions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias, final

from dovetail.core.entries import Action, Note, Wake
from dovetail.core.inventory import Pool
from dovetail.core.model import WHOLE_GPU, Job, JobId, Option, Seconds
from dovetail.core.plan import Place, Plan
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.track import STARTING, Track
from dovetail.core.view import ENDS, PARKS, RUNS, WAITS, View
from dovetail.models.cost import Costs
from dovetail.models.power import HASTE, UNLIMITED, Limited
from dovetail.policies.andreas.problem import Assignment, Demand, Menu, NodePool, Problem, Spot, Way
from dovetail.predict.duration import Predictor

_SEEN: Final = "paces: seen"  # as it is noted
WEIGHT: Final = 0.2  # of the latest of several
Method: TypeAlias = Callable[[Problem], Assignment]

SAME_TIME_S: Final = 1e-7  # closer together than that is at once
SAME_PART: Final = 1e-9  # of a job: less than that is nothing


@final
class SeenPaces:
    """By model and kind, on one node or several, else without the model: how much work of a second at
    speed 1 the last jobs did in a second."""

    def __init__(self, view: View) -> None:
        self._view: Final = view
        self._seen: Final[dict[tuple[str, str, bool], float]] = {}
        self.changes = 0  # how often any of them became another
        for model, kind, over_nodes, speed in view.notes.get(_SEEN, ()):
            self._seen[model, kind, over_nodes] = speed
        self.learns = not self._seen  # what runs already when this is made has been noted

    def notes(self) -> list[Action]:
        """What is to be known after a restart."""
        value = [[*key, speed] for key, speed in sorted(self._seen.items())]
        return [Note(_SEEN, value)] if value and self._view.notes.get(_SEEN) != value else []

    def of(self, model: str, kind: str, over_nodes: bool = False) -> float:
        own = self._seen.get((model, kind, over_nodes))
        return self._seen.get(("", kind, over_nodes), 1.0) if own is None else own

    def note(self, track: Track) -> None:
        """The job got GPUs, or runs on them at another speed than 1."""
        job, placement = track.job, track.placement
        if job.options or track.speed == 1.0 or placement is None or not self.learns:
            return
        if placement.limit or placement.share != WHOLE_GPU:  # then that may be why
            return
        kind, over_nodes = (
            self._view.room.nodes[placement.slices[0].node].kind,
            len(placement.slices) > 1,
        )
        for key in {(job.model, kind, over_nodes), ("", kind, over_nodes)}:
            known = self._seen.get(key)
            if known == track.speed:
                continue
            self.changes += 1
            self._seen[key] = (
                track.speed if known is None else known + WEIGHT * (track.speed - known)
            )


@final
class Books:
    """Known facts of every job that has not ended, and when jobs last ended or gave way."""

    def __init__(self, costs: Costs, predictor: Predictor, haste: float, view: View) -> None:
        self.watches = WAITS | RUNS | ENDS | PARKS
        self.costs: Final = costs
        self._haste: Final = haste
        self._predictor: Final = predictor
        self._view: Final = view
        self._menus: Final[dict[JobId, tuple[Seconds, Menu | None]]] = {}  # and for what duration
        self._changes = (-1, -1)
        self.left_at: Final[dict[int, Seconds]] = {}  # by pool: when a job last gave its GPUs back
        self.changed_at = view.now  # when a job last came or ended, or we were made
        self.paces: Final = SeenPaces(view)

    def waits(self, track: Track) -> None:
        if track.left is None:
            self.changed_at = self._view.now
        self._note_leaving(track)

    def runs(self, track: Track) -> None:
        self.paces.note(track)
        if track.job.settles:
            self._menus.pop(track.job.id, None)

    def parks(self, track: Track) -> None:
        self._note_leaving(track)

    def ends(self, track: Track) -> None:
        self._menus.pop(track.job.id, None)
        self._note_leaving(track)
        self.changed_at = self._view.now

    def _note_leaving(self, track: Track) -> None:
        if track.left is not None:
            for piece in track.left.slices:
                self.left_at[self._view.room.pool_of[piece.node].index] = self._view.now

    def menu(self, track: Track) -> Menu | None:
        """The ways to run the job on a single node; None if it needs more than that."""
        if not track.shape.fits_one:
            return None
        job, room = track.job, self._view.room
        changes = room.changes, self.paces.changes
        if changes != self._changes:
            self._changes = changes
            self._menus.clear()
        timed = bool(job.options)
        seconds = job.options[0].seconds if timed else self._predictor.duration_s(job, self._view)
        known = self._menus.get(job.id)
        if known is None or known[0] != seconds:
            own = self._open_to(track) if timed else self._predicted(job, seconds)
            known = self._menus[job.id] = seconds, self._menu(room, track, own, seconds)
        return known[1]

    def _open_to(self, track: Track) -> Sequence[Option]:
        """Its options; for a job that settled on one, only that one."""
        job, placement = track.job, track.placement or track.left
        if not job.settles or placement is None:
            return job.options
        kinds = {self._view.room.nodes[piece.node].kind for piece in placement.slices}
        return [o for o in job.options if o.gpus == placement.gpus and o.kind in kinds]

    def _predicted(self, job: Job, seconds: Seconds) -> Sequence[Option]:
        """Scaled by the speeds at which similar jobs were seen to run on each kind."""
        kinds = dict.fromkeys(pool.kind for pool in self._view.room.pools)
        return [
            Option(kind, job.gpus, seconds / self.paces.of(job.model, kind))
            for kind in kinds
            if not job.kinds or kind in job.kinds
        ]

    def _menu(
        self, room: Room, track: Track, options: Sequence[Option], reference_s: Seconds
    ) -> Menu | None:
        shape = track.shape
        tenant = room.tenants.get(shape.tenant)
        most = inf if tenant is None else tenant.gpu_quota
        ways = [
            self._way(pool.index, option, step, track.job.model)
            for option in sorted(options, key=_kind_and_number)
            if option.gpus <= most
            for pool in room.pools
            if pool.kind == option.kind and option.gpus <= pool.width and room.admits(pool, shape)
            for step in self._limits(track.job, option.kind)
        ]
        return Menu(ways, reference_s) if ways else None

    def _limits(self, job: Job, kind: str) -> Sequence[Limited]:
        """A deadline says until when time costs nothing; without one, time is worth energy."""
        if not self.costs.power:
            return UNLIMITED
        if job.deadline is None:
            return self.costs.power.choices_in_haste(job.model, kind, self._haste)
        return self.costs.power.choices(job.model, kind)

    def _way(self, pool: int, option: Option, step: Limited, model: str) -> Way:
        kind, gpus, seconds = option
        per_hour = self.costs.per_hour(kind, gpus)
        if step.watts is None:
            return Way(pool, gpus, seconds, per_hour * seconds)
        seconds *= step.slowdown
        extra = gpus * self.costs.extra_per_hour(model, kind, step.limit)
        return Way(pool, gpus, seconds, (per_hour + extra) * seconds, step.limit, extra)


def _kind_and_number(option: Option) -> tuple[str, int]:
    return option.kind, option.gpus


@final
class BooksSpec:
    """The key under which a view keeps a policy's books; the policy has it as a field."""

    def __init__(self, costs: Costs, predictor: Predictor, haste: float = HASTE) -> None:
        self._costs: Final = costs
        self._predictor: Final = predictor
        self._haste: Final = haste

    def build(self, view: View) -> Books:
        return Books(self._costs, self._predictor, self._haste, view)

    def of(self, view: View) -> Books:
        books = view.index(self)
        assert isinstance(books, Books)
        books.paces.learns = True
        return books


@final
class ProblemDraft:
    """A problem, and the tracks behind its demands."""

    def __init__(
        self,
        view: View,
        books: Books,
        movable: bool,
        may_go: Callable[[Track], bool] = lambda track: True,
    ) -> None:
        self._view: Final = view
        self._costs: Final = books.costs
        self.tracks: Final[list[Track]] = []
        self.others: Final[list[Track]] = []  # waiting, and no matter of a single node
        self.about_to_end = False  # is a job as good as done?
        demands: list[Demand] = []
        for track in view.tracks.values():
            running = track.placement is not None
            if track.barred and not running:
                continue
            menu = books.menu(track)
            if running and (
                menu is None or not (movable and _may_move(track, view.room) and may_go(track))
            ):
                self.about_to_end = self.about_to_end or _is_done(track, menu, view.now)
            elif menu is None:
                self.others.append(track)
            else:
                self.about_to_end = self.about_to_end or (
                    running and _is_done(track, menu, view.now)
                )
                self.tracks.append(track)
                demands.append(_demand(track, menu, view.now, books.costs))
        self.problem = Problem(view.now, demands, pools_of(view, demands, books.costs))

    def leave_out(self, decided: Collection[JobId]) -> None:
        """These are to start or stop by a plan that was begun meanwhile."""
        demands = self.problem.demands
        if decided:
            demands = [demand for demand in demands if demand.job_id not in decided]
            if len(demands) < len(self.tracks):
                self.tracks[:] = [track for track in self.tracks if track.job.id not in decided]
            self.others[:] = [track for track in self.others if track.job.id not in decided]
        pools = pools_of(self._view, demands, self._costs)
        self.problem = Problem(self._view.now, demands, pools)


def _may_move(track: Track, room: Room) -> bool:
    placement = track.placement
    assert placement is not None
    return (
        not track.pinned
        and track.phase is not STARTING
        and placement.share == WHOLE_GPU
        and len(placement.slices) == 1
        and room.is_open_at(placement)
    )


def _is_done(track: Track, menu: Menu | None, now: Seconds) -> bool:
    if menu is None or track.working_since < 0:
        return False
    left_s = menu.reference_s - track.executed_by(now)
    return abs(left_s) <= max(SAME_TIME_S, SAME_PART * menu.reference_s)


def _demand(track: Track, menu: Menu, now: Seconds, costs: Costs) -> Demand:
    job, placement = track.job, track.placement
    done_s = track.executed_by(now)
    left = 1.0 - done_s / max(menu.reference_s, SAME_TIME_S) if done_s else 1.0
    deadline = inf if job.deadline is None else job.deadline
    late_per_s = costs.late_per_s(job)
    left = max(left, SAME_PART)
    if placement is None:
        return Demand(job.id, menu, left, deadline, late_per_s)
    node, gpus, limit = placement.slices[0].node, placement.gpus, placement.limit
    return Demand(job.id, menu, left, deadline, late_per_s, node, gpus, limit)


def pools_of(view: View, demands: Iterable[Demand], costs: Costs) -> list[NodePool]:
    """The open nodes by pool; the GPUs of movable jobs count as free."""
    room, factor = view.room, costs.price_factor(view.now)
    given_up: dict[int, int] = {}
    for demand in demands:
        if demand.node >= 0:
            given_up[demand.node] = given_up.get(demand.node, 0) + demand.gpus
    return [_pool(room, pool, given_up, costs, factor) for pool in room.pools]


def _pool(
    room: Room, pool: Pool, given_up: Mapping[int, int], costs: Costs, factor: float
) -> NodePool:
    nodes = sorted([n for n in pool.members if room.open[n]], key=lambda n: room.nodes[n].id)
    free = [room.count[n] + given_up.get(n, 0) for n in nodes]
    strangers = [room.occupied.get(n, 0).bit_count() for n in nodes]
    kept = [
        room.nodes[n].gpus - count - others
        for n, count, others in zip(nodes, free, strangers, strict=True)
    ]
    per_hour = [costs.per_hour(pool.kind, k) * factor for k in range(pool.width + 1)]
    return NodePool(pool.kind, nodes, free, kept, per_hour, factor)


# ------------------------------------------------------------------------------------------ actions


def replanned(view: View, spec: BooksSpec, method: Method, place: Place) -> Sequence[Action]:
    """Plan everything anew when a job has come or ended; at other times only fill free GPUs."""
    books = spec.of(view)
    anew = not view.running or books.changed_at == view.now
    draft = ProblemDraft(view, books, movable=anew)
    notes = books.paces.notes()
    if draft.about_to_end:
        return [*notes, Wake(view.now + 4 * SAME_TIME_S)]  # it will be out of the way by then
    return [*notes, *actions_of(draft, method(draft.problem), Plan(view, place))]


def actions_of(
    draft: ProblemDraft,
    assignment: Assignment,
    plan: Plan,
    patient: Container[int] = (),
) -> Sequence[Action]:
    """The difference between the present and the planned assignment; as few jobs as possible move.
    Patient jobs do not start though there might be room for them."""
    demands, tracks = draft.problem.demands, draft.tracks
    spots = with_fewest_moves(draft.problem, assignment)
    starting = []
    for i, demand in enumerate(demands):
        spot = spots.get(i)
        if demand.node >= 0:
            if spot is not None and (spot.node, spot.way.gpus) == (demand.node, demand.gpus):
                if spot.way.limit != demand.limit:
                    plan.limit(tracks[i], spot.way.limit)
                continue
            plan.stop(tracks[i])
        if spot is not None:
            starting.append((tracks[i], spot))
    for track, spot in starting:
        placement = plan.room.first_gpus(spot.node, spot.way.gpus).limited_to(spot.way.limit)
        if not plan.room.tenants or plan.room.allows(placement, track.shape):
            plan.start_at(track, placement)
    # Those that are planned on one node may go to several, which was never timed for jobs with options.
    over_nodes = [
        track
        for i, track in enumerate(tracks)
        if not track.job.options and i not in spots and i not in patient
    ]
    without: set[Shape] = set()  # no place for one, none for the next
    for track in (*draft.others, *over_nodes):
        if track.shape not in without and not plan.start(track):
            without.add(track.shape)
    return plan.actions


def with_fewest_moves(problem: Problem, assignment: Assignment) -> Assignment:
    """The same assignment, with equivalent nodes exchanged so that jobs stay where they are."""
    demands = problem.demands
    if all([demand.node < 0 for demand in demands]):
        return assignment
    alike = {
        node: (number, free, kept)
        for number, pool in enumerate(problem.pools)
        for node, free, kept in zip(pool.nodes, pool.free, pool.kept, strict=True)
    }
    stays: dict[tuple[int, int], int] = {}  # planned node, node now: jobs that need not move
    for i, spot in assignment.items():
        demand = demands[i]
        if demand.gpus == spot.way.gpus and alike.get(demand.node) == alike[spot.node]:
            key = (spot.node, demand.node)
            stays[key] = stays.get(key, 0) + 1
    renamed: dict[int, int] = {}
    taken: set[int] = set()
    for planned, now in sorted(stays, key=lambda key: (-stays[key], key[0] != key[1], key)):
        if planned not in renamed and now not in taken:
            renamed[planned] = now
            taken.add(now)
    _rename_the_rest(renamed, taken)
    return {i: Spot(way, renamed.get(node, node)) for i, (way, node) in assignment.items()}


def _rename_the_rest(renamed: dict[int, int], taken: set[int]) -> None:
    """A node that was given to another takes the place of the node which that one leaves free."""
    who_took = {now: planned for planned, now in renamed.items()}
    for node in sorted(taken - renamed.keys()):
        free = node
        while free in who_took:
            free = who_took[free]
        renamed[node] = free
