"""The measurements are carried by whatever maps: this process, others, or Dask's."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from dovetail.insight.decision import decision
from dovetail.insight.factors import factors
from dovetail.insight.features import features_of
from dovetail.insight.made_up import FACTORS
from dovetail.insight.predictive import predictive
from insight_traces import CLUSTER, busy


def test_other_processes_find_the_same() -> None:
    trace = busy(jobs=150)
    features = features_of(trace)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        spread = predictive(features, repeats=3, quick=True, map=executor.map)
        decided = decision(trace, CLUSTER, features=features, quick=True, map=executor.map)
    assert spread == predictive(features, repeats=3, quick=True)
    assert decided == decision(trace, CLUSTER, features=features, quick=True)


@pytest.mark.filterwarnings("default")  # Dask's own
def test_dask_carries_a_measurement() -> None:
    distributed = pytest.importorskip("distributed")
    small: dict[str, Any] = {
        "trajectories": 2,
        "samples": 4,
        "policies": ("srtf",),
        "box": FACTORS[:2],
    }
    heard: list[tuple[int, int]] = []
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client, client.get_executor() as executor:
        found = factors(
            **small, map=executor.map, progress=lambda done, of: heard.append((done, of))
        )
    assert found == factors(**small)
    assert heard[-1][0] == heard[-1][1]
