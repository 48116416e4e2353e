"""No namespace starves another, whatever it declares: many jobs, high priorities, wide ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from live_box import Box
from made_up_cluster import Json, MadeUpCluster, made_up_box
from real_cluster import create, eventually
from waiting import LONG_S

GREEDY, MODEST = "team-greedy", "team-modest"
_JOBS: Final = "/apis/dovetail.dev/v1alpha1/namespaces/{}/dovetailjobs"
_FLOOD: Final = 30
_FEW: Final = 4


@pytest.fixture(scope="module")
def cluster(control_plane: Path) -> Iterator[MadeUpCluster]:
    with MadeUpCluster(control_plane) as made:
        made.add_node("node1", gpus=2)
        for name in (GREEDY, MODEST):
            create(made.api, "/api/v1/namespaces", {"metadata": {"name": name}})
            accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
            eventually(partial(_has_some, made, accounts))
        yield made


def _has_some(cluster: MadeUpCluster, path: str) -> bool:
    return bool(cluster.api.get(path)["items"])


class Teams:
    """Two namespaces that declare jobs, and pods that end when a test says so."""

    def __init__(self, cluster: MadeUpCluster, here: Box) -> None:
        self.cluster, self.here = cluster, here
        self.started: list[str] = []  # namespaces, in the order of their pods
        self._known: set[str] = set()

    def declare(self, namespace: str, number: int, **fields: Any) -> None:
        kind = {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DovetailJob"}
        for i in range(number):
            spec = {"command": ["train"], "resources": {"gpus": 1}, **fields}
            thing = {**kind, "metadata": {"name": f"job-{i}"}, "spec": spec}
            self.cluster.api.create(_JOBS.format(namespace), thing)
        eventually(lambda: len(self._taken_on(namespace)) == number, LONG_S)

    def _taken_on(self, namespace: str) -> list[str]:
        tracks = self.here.daemon.state.tracks.values()
        return [track.job.id for track in list(tracks) if track.job.tenant == namespace]

    def pods(self) -> list[Json]:
        """Those at work; new ones are written down."""
        found = [own for own in self.cluster.pods() if own["status"]["phase"] == "Running"]
        for pod in sorted(found, key=lambda own: str(own["metadata"]["creationTimestamp"])):
            if pod["metadata"]["uid"] not in self._known:
                self._known.add(pod["metadata"]["uid"])
                self.started.append(pod["metadata"]["namespace"])
        return found

    def full(self) -> list[Json]:
        return eventually(lambda: found if len(found := self.pods()) == 2 else None, LONG_S)  # type: ignore[no-any-return]

    def end_one(self) -> None:
        """The oldest, and the next one has come up."""
        before = len(self.started)
        oldest = min(self.full(), key=self._age)
        self.cluster.end(oldest)
        eventually(lambda: self.pods() and len(self.started) > before, LONG_S)

    @staticmethod
    def _age(pod: Json) -> tuple[str, str]:
        return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]

    def clear(self) -> None:
        for namespace in (GREEDY, MODEST):
            path = _JOBS.format(namespace)
            for own in self.cluster.api.get(path)["items"]:
                self.cluster.api.delete(f"{path}/{own['metadata']['name']}")


@pytest.fixture(params=["fair-share", "drf"])
def teams(
    cluster: MadeUpCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Teams]:
    with made_up_box(cluster, tmp_path / "box", policy=request.param) as here:
        made = Teams(cluster, here)
        yield made
        made.clear()


def test_who_floods_the_queue_with_urgent_jobs_keeps_nobody_from_their_share(
    teams: Teams,
) -> None:
    teams.declare(GREEDY, _FLOOD, priority=1000)
    teams.full()
    teams.declare(MODEST, _FEW)
    for _ in range(2 * _FEW):
        teams.end_one()
    came = Counter(teams.started[2:])
    assert came[MODEST] == _FEW, teams.started
    assert came[GREEDY] > 0, teams.started
    assert teams.started[2] == MODEST, teams.started


def test_who_asks_for_whole_nodes_keeps_nobody_from_their_share(teams: Teams) -> None:
    """A job of all GPUs would have to wait for an empty node: it does not hold them for itself."""
    teams.declare(MODEST, _FEW)
    teams.full()
    teams.declare(GREEDY, 3, priority=1000, resources={"gpus": 2})
    teams.end_one()
    teams.end_one()
    assert teams.started == [MODEST] * _FEW, teams.started
