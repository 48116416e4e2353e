"""The book of free GPUs against a naive model: one number for every GPU."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dovetail.core.model import WHOLE_GPU, Node, Placement, Slice, Tenant
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.policies.placement import PLACEMENTS
from dovetail.testing import job

SHARES = st.sampled_from([WHOLE_GPU, WHOLE_GPU, 500, 250, 700])


class RoomAgainstNaiveModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.room = Room()
        self.left: dict[tuple[int, int], int] = {}  # (node, GPU): thousandths
        self.cpus: dict[int, float] = {}
        self.held = 0.0
        self.open: list[bool] = []
        self.taken: list[tuple[Placement, Shape]] = []
        self.before: Any = None  # the model at the first draft
        self.drafts: list[tuple[bool, Placement, Shape]] = []

    @initialize(sizes=st.lists(st.integers(0, 8), min_size=1, max_size=4))
    def join(self, sizes: list[int]) -> None:
        self.room.set_tenant(Tenant("us", 12.0))
        for n, gpus in enumerate(sizes):
            self.room.add(Node(f"n{n}", gpus, kind="ab"[n % 2], cpus=16.0))
            self.left.update({(n, gpu): WHOLE_GPU for gpu in range(gpus)})
            self.cpus[n] = 16.0
            self.open.append(True)

    # ---------------------------------------------------------------------------- what is done

    @precondition(lambda self: not self.drafts)
    @rule(gpus=st.integers(1, 10), share=SHARES, place=st.sampled_from(sorted(PLACEMENTS)))
    def take(self, gpus: int, share: int, place: str) -> None:
        self._try(gpus, share, place, self.room.take)

    @precondition(lambda self: self.taken and not self.drafts)
    @rule(which=st.integers(0, 99))
    def give(self, which: int) -> None:
        placement, shape = self.taken.pop(which % len(self.taken))
        self.room.give(placement, shape)
        self._change(placement, shape, 1)

    @rule(gpus=st.integers(1, 10), share=SHARES, place=st.sampled_from(sorted(PLACEMENTS)))
    def draft_take(self, gpus: int, share: int, place: str) -> None:
        self._remember()
        found = self._try(gpus, share, place, self.room.draft_take)
        if found is not None:
            self.drafts.append((True, *found))

    @precondition(lambda self: self.taken)
    @rule(which=st.integers(0, 99))
    def draft_give(self, which: int) -> None:
        self._remember()
        placement, shape = self.taken.pop(which % len(self.taken))
        self.room.draft_give(placement, shape)
        self._change(placement, shape, 1)
        self.drafts.append((False, placement, shape))

    @precondition(lambda self: self.drafts)
    @rule()
    def rollback(self) -> None:
        self.room.rollback()
        self._forget()

    @precondition(lambda self: self.drafts)
    @rule()
    def confirm_all(self) -> None:
        for draft in self.drafts:
            assert self.room.confirm(*draft)
        self.drafts, self.before = [], None

    @precondition(lambda self: len(self.drafts) > 1)
    @rule()
    def confirm_something_else(self) -> None:
        taken, placement, shape = self.drafts[0]
        assert not self.room.confirm(not taken, placement, shape)
        self._forget()

    @precondition(lambda self: not self.drafts)
    @rule(which=st.integers(0, 99), is_open=st.booleans())
    def open_or_close(self, which: int, is_open: bool) -> None:
        n = which % len(self.open)
        self.room.set_open(n, is_open)
        self.open[n] = is_open

    # ------------------------------------------------------------------------------- the model

    def _remember(self) -> None:
        if not self.drafts:
            self.before = deepcopy((self.left, self.cpus, self.held)), list(self.taken)

    def _forget(self) -> None:
        (self.left, self.cpus, self.held), self.taken = self.before
        self.drafts, self.before = [], None

    def _try(
        self, gpus: int, share: int, place: str, take: Callable[[Placement, Shape], None]
    ) -> tuple[Placement, Shape] | None:
        gpus = gpus if share == WHOLE_GPU else 1
        asked = job("j", gpus, share=share, cpus=float(gpus) if gpus % 3 == 0 else 0.0)
        shape = Shape(0, asked, "us" if gpus % 2 else "")
        found = PLACEMENTS[place](self.room, shape)
        assert (found is not None) == self._fits(shape), f"{place} of {shape}: {found}"
        if found is None:
            return None
        for n, gpu in _gpus(found):
            assert self.open[n]
            assert self.left[n, gpu] >= found.share
        assert found.gpus == gpus
        take(found, shape)
        self._change(found, shape, -1)
        self.taken.append((found, shape))
        return found, shape

    def _fits(self, shape: Shape) -> bool:
        """Is there room at all, by counting?"""
        if shape.tenant and self.held + shape.gpus * shape.share / WHOLE_GPU > 12.0 + 1e-9:
            return False
        for kind in "ab":
            most = 0
            for n in range(len(self.open)):
                if self.open[n] and "ab"[n % 2] == kind:
                    free = sum(
                        left == WHOLE_GPU or (shape.share < WHOLE_GPU and left >= shape.share)
                        for (node, _), left in self.left.items()
                        if node == n
                    )
                    if shape.cpus:
                        free = min(free, int(self.cpus[n] * shape.gpus / shape.cpus + 1e-9))
                    most += free
            if most >= shape.gpus:
                return True
        return False

    def _change(self, placement: Placement, shape: Shape, sign: int) -> None:
        for gpu in _gpus(placement):
            self.left[gpu] += sign * placement.share
        for n, mask in placement.slices:
            self.cpus[n] += sign * shape.cpus * mask.bit_count() / placement.gpus
        if shape.tenant:
            self.held -= sign * placement.gpus * placement.share / WHOLE_GPU

    # --------------------------------------------------------------------------------- agreement

    @invariant()
    def gpus_agree(self) -> None:
        for (n, gpu), left in self.left.items():
            whole = bool(self.room.free[n] >> gpu & 1)
            assert whole == (left == WHOLE_GPU)
            assert self.room.shares.get((n, gpu), WHOLE_GPU if whole else 0) == left

    @invariant()
    def pools_agree(self) -> None:
        for pool in self.room.pools:
            free = {
                n: sum(left == WHOLE_GPU for (node, _), left in self.left.items() if node == n)
                for n in pool.members
                if self.open[n]
            }
            assert pool.free == sum(free.values())
            assert not pool.by_count[0]
            for k in range(1, pool.width + 1):
                assert pool.by_count[k] == sum(1 << n for n in free if free[n] == k)

    @invariant()
    def hosts_and_quotas_agree(self) -> None:
        for n, cpus in self.cpus.items():
            assert abs(self.room.cpus[n] - cpus) < 1e-6
        if "us" in self.room.held:
            assert abs(self.room.held["us"] - self.held) < 1e-6


def _gpus(placement: Placement) -> list[tuple[int, int]]:
    return [
        (n, gpu)
        for n, mask in placement.slices
        for gpu in range(mask.bit_length())
        if mask >> gpu & 1
    ]


TestRoomAgainstNaiveModel = RoomAgainstNaiveModel.TestCase
TestRoomAgainstNaiveModel.settings = settings(max_examples=60, stateful_step_count=40)


def test_a_draft_can_be_undone_back_to_a_mark() -> None:
    room = Room()
    room.add(Node("n0", 4))
    shape = Shape(0, job("j", 1), "")
    room.draft_take(Placement((Slice(0, 1),)), shape)
    mark = room.mark()
    room.draft_take(Placement((Slice(0, 2),)), shape)
    room.draft_take(Placement((Slice(0, 4),)), shape)
    room.rollback_to(mark)
    assert room.free[0] == 0b1110
    room.rollback()
    assert room.free[0] == 0b1111
    assert not room.drafted
