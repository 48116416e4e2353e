from dovetail.core.model import Job, JobId, Node
from dovetail.models.adaptive_epochs import AdaptiveRun, adaptive
from dovetail.models.applications import (
    Application,
    BatchLimits,
    EpochCurves,
    LocalSteps,
    ScatteredSteps,
    StepTime,
)
from dovetail.models.epochs import RoundRules, Training, TrainingRun
from dovetail.models.goodput_agent import read_goodput
from dovetail.models.workload import Arrival
from dovetail.testing import nodes, placement, run_trace

NODES = [Node("n0", 4), Node("n1", 4)]
STEPS = {  # a GPU needs 0.1 s and 0.01 s a sample; several agree in 0.05 s
    str(gpus): LocalSteps(
        (8, 64),
        tuple(
            [
                StepTime(0.1 + 0.01 * local + (gpus > 1) * 0.05, (gpus > 1) * 0.05)
                for local in (8, 64)
            ]
        ),
    )
    for gpus in (1, 2, 4)
}


def application(var: float = 100.0, epochs: int = 3) -> Application:
    """Samples are worth about the same in any batch as long as the variance is large."""
    rows = (tuple([float(10 * e) for e in range(1, epochs + 1)]),) * 2
    curves = EpochCurves(
        batches=(32, 256),
        iterations=rows,
        grad_sqr=((1.0,) * epochs,) * 2,
        grad_var=((var,) * epochs,) * 2,
        progress=tuple([500.0 * e for e in range(1, epochs + 1)]),
    )
    nowhere = ScatteredSteps((), ())
    return Application(
        "net", BatchLimits(32, 256, 8, 64), curves, STEPS, nowhere, lambda _: lambda _: None
    )


def run(var: float = 100.0) -> TrainingRun:
    return TrainingRun(application(var), 32, 1, RoundRules(60.0, 30.0))


def test_a_job_learns_tells_and_then_takes_the_batch_that_pays() -> None:
    course = AdaptiveRun(run())()
    first = course.begin(60.0, placement((0, 3)), NODES)
    slow = course.speed
    assert first.at == 120.0  # the end of the round; it has worked since 90
    told, _ = course.reach(120.0)
    goodput = read_goodput(told.metrics)
    assert goodput is not None
    assert goodput.most_gpus == 2
    assert course.speed > 1.5 * slow


def test_a_job_whose_gradients_are_not_noisy_keeps_its_batch() -> None:
    course = AdaptiveRun(run(var=0.0))()
    course.begin(60.0, placement((0, 3)), NODES)
    before = course.speed
    course.reach(120.0)
    assert course.speed == before


def test_what_was_done_is_kept_when_a_job_halts_in_the_middle_of_a_round() -> None:
    course = AdaptiveRun(run())()
    course.begin(0.0, placement((0, 1)), NODES)
    speed = course.speed
    assert course.halt(40.0) == 10.0 * speed
    assert course.begin(100.0, placement((0, 1)), NODES).at == 120.0  # no first start any more


def test_an_epoch_ends_at_a_whole_second_and_the_last_one_ends_the_job() -> None:
    course = AdaptiveRun(run())()
    next_ = course.begin(0.0, placement((0, 15)), NODES)
    while not next_.ends:
        _, next_ = course.reach(next_.at)
    assert next_.at == round(next_.at)


def test_jobs_of_a_workload_become_adaptive_and_end_under_pollux() -> None:
    training = Training({"net": application()}, RoundRules(60.0, 30.0))
    fixed = [
        training.arrival(JobId(f"j{i}"), 10.0 * i, training.run("net", 32, 2)) for i in range(3)
    ]
    arrivals = [adaptive(one) for one in fixed]
    assert [(one.job.gpus, one.job.most_gpus) for one in arrivals] == [(1, 32)] * 3
    ended = run_trace("pollux", arrivals, nodes(1, 4))
    alone = run_trace("fifo", fixed, nodes(1, 4))
    assert set(ended.ends_at) == {"j0", "j1", "j2"}
    assert sum(ended.ends_at.values()) < sum(alone.ends_at.values())


def test_other_jobs_stay_as_they_are() -> None:
    plain = Arrival(0.0, Job(JobId("a")), 10.0)
    assert adaptive(plain) is plain
