"""A real cluster for the tests of this folder, started once: `make test-kubernetes`.

With KUBECONFIG in the environment it is that one, and tests that would break its nodes are skipped.
Without DOVETAIL_TEST_KUBERNETES the tests that need a cluster are left out; those that are marked
`long` run only if it is "all" (`make storm-kubernetes`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.kubernetes import building, needs
from tools.kubernetes.cluster import Cluster, claim, take_down

from dovetail.worlds.kubernetes.client import Api
from real_cluster import RealCluster, found_cluster, own_cluster

_ASKED_FOR = "DOVETAIL_TEST_KUBERNETES"
_REAL = {"cluster", "control_plane", "real_machine"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Where nothing of ours has been installed yet, nothing has to be removed first: most of a minute.
    items.sort(key=lambda item: item.path.name != "test_howto.py")
    asked_for = os.environ.get(_ASKED_FOR)
    if asked_for == "all":
        return
    is_left_out = _is_long if asked_for else _needs_cluster
    here = Path(__file__).parent
    left_out = [item for item in items if here in item.path.parents and is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker("long") is not None


def _needs_cluster(item: pytest.Item) -> bool:
    return not _REAL.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    if os.environ.get("KUBECONFIG"):
        found = found_cluster(Path(os.environ["KUBECONFIG"]))
        yield found
        found.api.close_all()
        return
    try:
        needs.require()
    except needs.Missing as trouble:
        pytest.fail(str(trouble), pytrace=False)
    with own_cluster(tmp_path_factory.mktemp("images")) as made:
        yield made


@pytest.fixture(scope="session")
def real_machine() -> None:
    """One on which a test may start clusters itself."""
    if os.environ.get("KUBECONFIG"):
        pytest.skip("this test starts a cluster here, and KUBECONFIG names another")
    if trouble := needs.trouble():
        pytest.fail(trouble, pytrace=False)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Path]:
    """The kubeconfig of an API server without nodes, where made-up ones are left in peace."""
    folder = claim()
    try:
        made = Cluster(folder, building.build(), 0, ("*", "-nodelifecycle"))
        made.start()
        yield made.kubeconfig
    finally:
        take_down(folder)


@pytest.fixture(scope="session")
def api(cluster: RealCluster) -> Api:
    return cluster.api
