from dovetail.core.entries import Resize, Start
from dovetail.models.cost import Costs
from dovetail.models.power import Limited, PowerTable
from dovetail.policies.powercap.policy import Powercap
from dovetail.predict.duration import Oracle
from dovetail.testing import arrival, nodes, run_trace

# The worked example: 100, 92 and 75 samples a second for 300, 220 and 160 watts.
TABLE = PowerTable(
    {
        ("net", "gpu"): [
            Limited(0, 1.0, 300.0),
            Limited(220, 100 / 92, 220.0),
            Limited(160, 100 / 75, 160.0),
        ]
    }
)


def limits_used(watts: float) -> list[int]:
    arrivals = [arrival("a", 0.0, 100.0, 1, model="net")]
    policy = Powercap(
        predictor=Oracle({came.job.id: came.work_s for came in arrivals}),
        costs=Costs(power=TABLE),
        watts=watts,
    )
    run = run_trace(policy, arrivals, nodes(1, 1))
    return [one.placement.limit for _, one in run.entries if isinstance(one, Start | Resize)]


def test_without_a_cap_no_limit_is_set_and_under_a_tight_one_the_lowest() -> None:
    assert limits_used(-1.0) == [0]
    assert limits_used(250.0) == [220]
    assert limits_used(200.0) == [160]


def test_elastic_jobs_get_all_gpus_where_nothing_is_capped() -> None:
    arrivals = [arrival(name, 0.0, 100.0, 1, min_gpus=1, max_gpus=4) for name in ("a", "b")]
    run = run_trace("powercap", arrivals, nodes(2, 4))
    given = [one.placement.gpus for _, one in run.entries if isinstance(one, Start)]
    assert given == [4, 4]
