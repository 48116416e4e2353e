"""The true workload as a value."""

from __future__ import annotations

import pickle

from dovetail.core.model import Estimate, Interruption, Job, JobId, Tenant
from dovetail.models.workload import Arrival


def test_an_arrival_can_be_sent_to_another_process() -> None:
    job = Job(
        JobId("a"), 2, interruption=Interruption(3.0, 4.0), estimate=Estimate(60.0), name="bert"
    )
    arrival = Arrival(1.0, job, 50.0, (10.0,), 70.0)
    sent = pickle.loads(pickle.dumps((arrival, Tenant("lab", 8.0))))
    assert sent == (arrival, Tenant("lab", 8.0))
    assert sent[0].job.simple is job.simple
