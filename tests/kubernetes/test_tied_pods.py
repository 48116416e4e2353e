"""A suspended pod that does not save itself goes on only on its node: it is not tried elsewhere."""

from __future__ import annotations

from pathlib import Path

from counting_jobs import FOREVER, begin, cancel, resume, run_through, suspend
from dovetail.core.entries import Displaced, Saved, Start
from dovetail.core.model import JobId
from dovetail.daemon.foresight.why import why
from kubernetes_daemon import pods_box
from real_cluster import RealCluster


def test_one_whose_node_is_full_waits_for_it_and_leaves_the_seat_elsewhere_to_others(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """A seat on each of two nodes."""
    with pods_box(cluster, tmp_path / "box", policy="fifo-skip", slots=1) as here:
        first, one = begin(here, FOREVER)
        suspend(here, first, one)
        second, two = begin(here, FOREVER)
        tracks = here.daemon.state.tracks
        assert tracks[JobId(second)].placement == tracks[JobId(first)].home
        resume(here, first)
        run_through(here, 5)
        one.stands_still(lambda: run_through(here, 5))
        text = " ".join(why(here.service, first).text.split())
        assert "can go on only there; of its 1 GPU none is free" in text
        cancel(here, second, two)
        one.grows()
        cancel(here, first, one)
        entries = here.journal()
    assert [own.tied for own in entries if isinstance(own, Saved)] == [True]
    assert not [own for own in entries if isinstance(own, Displaced)]
    starts = [own.placement for own in entries if isinstance(own, Start) and own.job_id == first]
    assert starts[0] == starts[1]
    assert len(starts) == 2
