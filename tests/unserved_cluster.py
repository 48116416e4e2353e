"""A cluster of no server: nobody is asked there. It has noted one launch of job 7, on node1."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dovetail.core.model import JobId
from dovetail.core.state import State
from dovetail.worlds.agent import RunId
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.cluster import Cluster
from dovetail.worlds.kubernetes.config import Access
from dovetail.worlds.kubernetes.launch_notes import GangNote
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.kubernetes.shelf import PodShelf
from dovetail.worlds.world import Ground, Order

SETTINGS: Final = Settings(home="0a1b2c3d")
RUN: Final = RunId(JobId("7"), 1)


def order(job_id: JobId) -> Order:
    return Order(job_id, ("train",), {}, "/", "ann")


@contextmanager
def unserved_cluster(folder: Path) -> Iterator[Cluster]:
    ground = Ground(
        *(State(), lambda: 0.0, lambda: None, order),
        *(lambda job_id: None, lambda job_id: {}),
    )
    shelf = PodShelf(folder / "runs", folder / "environments", folder / "socket")
    (folder / "runs" / "7").mkdir(parents=True)
    made = Cluster(Api(Access("127.0.0.1", 1)), SETTINGS, shelf, ground)
    made._roster.gang(RUN).keep_note(GangNote("team-a", ("node1",), (1,), is_made=True))
    yield made
    made._workers.shutdown(wait=False, cancel_futures=True)
