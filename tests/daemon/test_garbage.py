"""The daemon's loop does not wait for searches through everything that it keeps."""

import gc
import weakref

from dovetail.daemon.garbage import seldom_collected


class Kept:
    def __init__(self) -> None:
        self.own: Kept | None = None


def test_what_was_there_is_not_looked_through_and_all_is_as_before_afterwards() -> None:
    before = gc.get_threshold()
    kept = [Kept() for _ in range(1000)]
    with seldom_collected():
        assert gc.get_freeze_count() > len(kept)
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_cycles_that_come_meanwhile_still_go() -> None:
    with seldom_collected():
        cyclic = Kept()
        cyclic.own = cyclic
        watched = weakref.ref(cyclic)
        del cyclic
        gc.collect(0)
        assert watched() is None
