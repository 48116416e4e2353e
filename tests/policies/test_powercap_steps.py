from itertools import product

import pytest

from dovetail.policies.powercap.steps import PowerCaps, PowerJob, PowerWay, shared_out

# One GPU at three frequencies: samples a second, and watts.
FREQUENCIES = [
    PowerWay("gpu", 1, 60, 75, 160),
    PowerWay("gpu", 1, 80, 92, 220),
    PowerWay("gpu", 1, 0, 100, 300),
]


def example() -> PowerJob:
    return PowerJob(10_000, [FREQUENCIES])


def test_energy_and_time_of_the_worked_example() -> None:
    job = example()
    assert [job.joules(way) / 1000 for way in FREQUENCIES] == pytest.approx(
        [21.3, 23.9, 30.0], abs=0.05
    )
    assert [job.seconds(way) for way in FREQUENCIES] == pytest.approx(
        [133.3, 108.7, 100.0], abs=0.05
    )


@pytest.mark.parametrize(
    ("caps", "rate"),
    [
        (PowerCaps(), 100),
        (PowerCaps(watts=300), 100),
        (PowerCaps(watts=250), 92),
        (PowerCaps(watts=170), 75),
        (PowerCaps(joules=22_000), 75),
        (PowerCaps(joules=25_000), 92),
    ],
)
def test_without_a_cap_the_fastest_is_chosen_and_the_tighter_it_is_the_less_is_drawn(
    caps: PowerCaps, rate: float
) -> None:
    (way,) = shared_out([example()], {"gpu": 1}, caps)
    assert way is not None
    assert way.rate == rate


def test_a_job_for_which_there_is_no_power_waits() -> None:
    assert shared_out([example(), example()], {"gpu": 2}, PowerCaps(watts=300))[1] is None
    assert shared_out([example()], {"gpu": 1}, PowerCaps(watts=100)) == [None]


def test_no_cap_is_ever_broken_and_nothing_that_helps_is_left_out() -> None:
    ladder = [
        [
            PowerWay("gpu", gpus, limit, gpus**0.8 * speed, gpus * watts)
            for limit, speed, watts in STEPS
        ]
        for gpus in (1, 2, 4)
    ]
    jobs = [PowerJob(work, ladder) for work in (1000.0, 100.0, 5000.0)]
    for gpus, watts in product((2, 3, 8), (-1.0, 400.0, 1000.0)):
        ways = [way for way in shared_out(jobs, {"gpu": gpus}, PowerCaps(watts)) if way is not None]
        assert sum(way.gpus for way in ways) <= gpus
        assert watts < 0 or sum(way.watts for way in ways) <= watts
    assert [way and way.gpus for way in shared_out(jobs, {"gpu": 12}, PowerCaps())] == [4, 4, 4]


STEPS = [(60, 0.75, 160.0), (80, 0.92, 220.0), (0, 1.0, 300.0)]


def test_the_step_that_saves_most_time_for_its_energy_goes_first() -> None:
    long, short = PowerJob(10_000, [FREQUENCIES]), PowerJob(100, [FREQUENCIES])
    ways = shared_out([short, long], {"gpu": 2}, PowerCaps(joules=26_000))
    assert [way and way.rate for way in ways] == [100, 92]
