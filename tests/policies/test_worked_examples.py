"""Small cases worked out by hand: every finish time is a number that one can check on paper."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path

import pytest

from dovetail import traces
from dovetail.core.entries import JournalEntry, Preempt, Promote, Start
from dovetail.core.loop import run
from dovetail.core.model import Estimate, Job, JobId, Node, Seconds
from dovetail.core.state import State
from dovetail.experiments.experiment import Experiment, simulate, with_interruption_cost
from dovetail.models.failures import NodeFailures
from dovetail.models.workload import Arrival
from dovetail.policies.keys import GittinsIndex, Queues
from dovetail.policies.placement import count
from dovetail.policies.registry import Knowledge, make
from dovetail.testing import told_to
from dovetail.worlds.simulated import SimulatedCluster

ONE_GPU = [Node("n0", 1)]
FOUR_GPUS = [Node("n0", 4)]


def job(name: str, at: Seconds, work_s: Seconds, gpus: int = 1, **wishes: object) -> Arrival:
    return Arrival(at, Job(JobId(name), gpus, **wishes), work_s)  # type: ignore[arg-type]


def finish_times(policy: str, arrivals: list[Arrival], nodes: list[Node]) -> dict[str, Seconds]:
    rows = simulate(Experiment(arrivals, nodes, placement="count"), policy, rows=True).jobs
    assert all(row.outcome == "finished" for row in rows)
    return {row.job_id: row.end_s for row in sorted(rows, key=lambda row: row.job_id)}


def mean_jct(policy: str, arrivals: list[Arrival], nodes: list[Node]) -> float:
    return float(simulate(Experiment(arrivals, nodes), policy).summary["mean_jct_s"])


def decisions(policy: str, arrivals: list[Arrival], nodes: list[Node]) -> list[tuple[Seconds, str]]:
    """When a job was given GPUs (+), lost them (-) or was promoted (^)."""
    seen: list[tuple[Seconds, str]] = []
    signs = {Start: "+", Preempt: "-", Promote: "^"}

    def note(entry: JournalEntry, now: Seconds) -> None:
        if isinstance(entry, Start | Preempt | Promote):
            seen.append((now, signs[type(entry)] + entry.job_id))

    state = State()
    decider = make(policy, count, Knowledge({}, ""))
    run(SimulatedCluster(nodes, arrivals), [decider], state, told_to(note))
    assert not state.tracks
    return seen


# ------------------------------------------------------------ first come, first served; backfilling

WIDE_HEAD = [
    job("P", 0, 10, gpus=3),
    job("Q", 1, 5, gpus=4),
    job("R", 2, 4, gpus=1),
    job("S", 3, 20, gpus=1),
]


@pytest.mark.parametrize(
    ("policy", "ends", "mean"),
    [
        ("fifo", {"P": 10, "Q": 15, "R": 19, "S": 35}, 18.25),
        ("fifo-skip", {"P": 10, "Q": 31, "R": 6, "S": 26}, 16.75),
        ("easy", {"P": 10, "Q": 15, "R": 6, "S": 35}, 15.0),
        ("conservative", {"P": 10, "Q": 15, "R": 6, "S": 35}, 15.0),
    ],
)
def test_a_wide_head_blocks_is_starved_or_has_the_gap_before_it_filled(
    policy: str, ends: Mapping[str, float], mean: float
) -> None:
    assert finish_times(policy, WIDE_HEAD, FOUR_GPUS) == pytest.approx(ends)
    assert mean_jct(policy, WIDE_HEAD, FOUR_GPUS) == pytest.approx(mean)


def test_easy_trusts_the_users_estimates_when_told_to() -> None:
    """R says 9 s instead of 4: it would end at 11, after Q's shadow time of 10, so it must wait."""
    arrivals = [
        job("P", 0, 10, gpus=3, estimate=Estimate(10)),
        job("Q", 1, 5, gpus=4, estimate=Estimate(5)),
        job("R", 2, 4, gpus=1, estimate=Estimate(9)),
    ]
    assert finish_times("easy:predictor=user-estimate", arrivals, FOUR_GPUS)["R"] == 19
    assert finish_times("easy", arrivals, FOUR_GPUS)["R"] == 6


# ------------------------------------------------------------------------------- by size, by service

TOGETHER = [job("a", 0, 8), job("b", 0, 4), job("c", 0, 2)]
STAGGERED = [job("A", 0, 10), job("B", 2, 3), job("C", 4, 1)]
TWO_DIMENSIONS = [job("X", 0, 3, gpus=4), *(job(f"y{i}", 0, 4) for i in range(4))]
EQUAL = [job("a", 0, 4), job("b", 0, 4), job("c", 0, 4)]


@pytest.mark.parametrize(
    ("policy", "mean"),
    [
        ("fifo", 34 / 3),
        ("sjf", 22 / 3),
        ("sjf-skip", 22 / 3),
        ("psjf", 22 / 3),
        ("srtf", 22 / 3),
        ("srsf", 22 / 3),
    ],
)
def test_jobs_of_8_4_and_2_seconds_that_come_together(policy: str, mean: float) -> None:
    assert mean_jct(policy, TOGETHER, ONE_GPU) == pytest.approx(mean)


def test_least_service_tends_to_a_mean_of_10_on_8_4_and_2_as_its_quantum_shrinks() -> None:
    """In the limit they share until 6 (c ends), then two share until 10 (b), then a until 14."""
    means = [mean_jct(f"las:quantum={q}", TOGETHER, ONE_GPU) for q in (1, 0.1, 0.01)]
    assert means == [pytest.approx(10, abs=2 * q) for q in (1, 0.1, 0.01)]
    assert abs(means[2] - 10) < abs(means[0] - 10)


@pytest.mark.parametrize(
    ("policy", "ends", "mean"),
    [
        ("fifo", {"A": 10, "B": 13, "C": 14}, 31 / 3),
        ("sjf", {"A": 10, "B": 14, "C": 11}, 29 / 3),
        ("srtf", {"A": 14, "B": 5, "C": 6}, 19 / 3),
        ("las:quantum=1", {"A": 14, "B": 7, "C": 5}, 20 / 3),
    ],
)
def test_shorter_jobs_that_come_later(policy: str, ends: Mapping[str, float], mean: float) -> None:
    found = finish_times(policy, STAGGERED, ONE_GPU)
    assert found == pytest.approx(ends)
    assert mean_jct(policy, STAGGERED, ONE_GPU) == pytest.approx(mean)


def test_a_short_but_wide_job_is_small_in_time_and_large_in_service() -> None:
    assert mean_jct("srtf", TWO_DIMENSIONS, FOUR_GPUS) == pytest.approx(6.2)
    assert mean_jct("srsf", TWO_DIMENSIONS, FOUR_GPUS) == pytest.approx(4.6)


def test_preemptive_sjf_looks_at_the_whole_duration_and_srtf_at_what_is_left() -> None:
    """At t=8 A has 2 of 10 s left; B is 5 s long in all."""
    arrivals = [job("A", 0, 10), job("B", 8, 5)]
    assert finish_times("psjf", arrivals, ONE_GPU) == {"A": 15, "B": 13}
    assert finish_times("srtf", arrivals, ONE_GPU) == {"A": 10, "B": 15}


def test_srtf_with_a_gain_leaves_a_job_alone_that_is_hardly_longer() -> None:
    arrivals = [job("A", 0, 10), job("B", 2, 6)]
    assert finish_times("srtf", arrivals, ONE_GPU) == {"A": 16, "B": 8}
    assert finish_times("srtf:gain_s=3", arrivals, ONE_GPU) == {"A": 10, "B": 16}


def test_least_service_loses_to_fifo_when_all_jobs_are_alike() -> None:
    assert mean_jct("fifo", EQUAL, ONE_GPU) == pytest.approx(8)
    assert mean_jct("las:quantum=1", EQUAL, ONE_GPU) == pytest.approx(11)
    assert mean_jct("round-robin:slice_s=1", EQUAL, ONE_GPU) == pytest.approx(11)


# --------------------------------------------------------------------------------- Tiresias' queues


def test_tiresias_demotes_one_gpu_at_exactly_3250_s() -> None:
    arrivals = [job("old", 0, 5000), job("new", 100, 100)]
    assert decisions("tiresias", arrivals, ONE_GPU)[:3] == [
        (0, "+old"),
        (3250, "-old"),
        (3250, "+new"),
    ]
    assert finish_times("tiresias", arrivals, ONE_GPU) == {"old": 5100, "new": 3350}


def test_tiresias_demotes_four_gpus_at_exactly_812_and_a_half_seconds() -> None:
    arrivals = [job("old", 0, 5000, gpus=4), job("new", 100, 100, gpus=4)]
    assert decisions("tiresias", arrivals, FOUR_GPUS)[1:3] == [(812.5, "-old"), (812.5, "+new")]


def test_tiresias_late_looks_when_the_original_simulator_does() -> None:
    """At t=1 it plans to look after ceil((3250 - 1) // 4) = 812 s, half a second too late."""
    arrivals = [job("old", 0, 5000, gpus=4), job("new", 1, 100, gpus=4)]
    late = decisions("tiresias:late=true", arrivals, FOUR_GPUS)
    assert next(at for at, what in late if what == "-old") == 813


def test_a_job_just_below_a_limit_is_still_in_the_upper_queue() -> None:
    queues = Queues((3250.0, 7200.0))
    assert queues.step(3249.99) == (0, 3250)
    assert queues.step(3250) == (1, 7200)
    assert queues.step(7200) == (2, inf)


def test_tiresias_with_one_queue_is_fifo() -> None:
    for policy in ("tiresias:queues=1:limits=", "fifo"):
        assert finish_times(policy, STAGGERED, ONE_GPU) == {"A": 10, "B": 13, "C": 14}


def test_tiresias_with_a_queue_for_each_second_is_least_service() -> None:
    limits = "/".join(str(second) for second in range(1, 21))
    ends = finish_times(f"tiresias:queues=21:limits={limits}", STAGGERED, ONE_GPU)
    assert ends == pytest.approx({"A": 14, "B": 7, "C": 5})


def test_promotion_lets_a_demoted_job_back_in_after_waiting_long_enough() -> None:
    """`old` is demoted at 10 in favour of a stream of short jobs; with promote=2 it has run 10 s, so
    after 20 s of waiting it starts again at the top."""
    stream = [job(f"s{i:02}", 5 + 9 * i, 9.5) for i in range(10)]
    arrivals = [job("old", 0, 30), *stream]
    base = "tiresias:queues=2:limits=10"
    assert finish_times(base, arrivals, ONE_GPU)["old"] == pytest.approx(30 + 10 * 9.5)
    told = decisions(f"{base}:promote=2", arrivals, ONE_GPU)
    assert (10, "-old") in told
    assert (30, "^old") in told
    resumed = [at for at, what in told if what == "+old"]
    assert 30 <= resumed[1] < 48
    assert finish_times(f"{base}:promote=2", arrivals, ONE_GPU)["old"] < 30 + 10 * 9.5


# ------------------------------------------------------------------------------------------ Gittins

MOSTLY_SHORT = (1.0, 1.0, 1.0, 10.0)


def test_the_gittins_index_with_one_horizon() -> None:
    fixed = GittinsIndex(MOSTLY_SHORT, quantum=1.0, horizon=1.0)
    assert fixed.index(0) == pytest.approx(0.75)
    assert fixed.index(1) == 0


def test_the_gittins_index_takes_the_best_horizon() -> None:
    best = GittinsIndex(MOSTLY_SHORT, quantum=1.0)
    assert best.index(0) == pytest.approx(0.75)
    assert best.index(1) == pytest.approx(1 / 9)
    assert best.index(9) == pytest.approx(1.0)
    assert best.index(10) == 0


def test_gittins_prefers_a_fresh_job_to_a_survivor_and_an_old_survivor_to_a_fresh_job() -> None:
    """`long` is 10 s; the fresh ones are 1 s. At 1 s it must give way, at 9.5 s it must not."""
    services = "1/1/1/10"
    early = [job("long", 0, 10), job("fresh", 1, 1)]
    late = [job("long", 0, 10), job("fresh", 9.5, 1)]
    policy = f"gittins:services={services}:quantum=1"
    assert finish_times(policy, early, ONE_GPU) == {"long": 11, "fresh": 2}
    assert finish_times(policy, late, ONE_GPU) == {"long": 10, "fresh": 11}


# ----------------------------------------------------------------------------------------- Gandiva


def last_end_of_a_pair(pair_speed: float, second_comes_at: Seconds) -> Seconds:
    arrivals = [job("a", 0, 100), job("b", second_comes_at, 100)]
    experiment = Experiment(arrivals, ONE_GPU, pair_speed=pair_speed)
    return max(row.end_s for row in simulate(experiment, "gandiva:slice_s=10", rows=True).jobs)


@pytest.mark.parametrize("second_comes_at", [0, 1])
def test_gandiva_keeps_a_pair_that_does_more_together_than_apart(second_comes_at: float) -> None:
    """0.6 + 0.6 = 1.2: the two stay on one GPU and are through in 100 / 0.6 s."""
    assert last_end_of_a_pair(0.6, second_comes_at) == pytest.approx(100 / 0.6, rel=0.02)


@pytest.mark.parametrize("second_comes_at", [0, 1])
def test_gandiva_parts_a_pair_that_does_less_together_than_apart(second_comes_at: float) -> None:
    """0.45 + 0.45 = 0.9: they are tried once for a slice, parted, and take turns."""
    assert last_end_of_a_pair(0.45, second_comes_at) == pytest.approx(200, abs=3)


def test_with_time_slices_n_equal_jobs_all_finish_in_the_last_round() -> None:
    arrivals = [job(name, 0, 100) for name in "abcde"]
    ends = finish_times("gandiva:slice_s=10:pack=false", arrivals, ONE_GPU)
    assert all(400 <= end <= 500 for end in ends.values())
    assert max(ends.values()) == 500


# -------------------------------------------------------------------------------------------- QSSF

FOUR_WISHES = [
    job("now", 0, 1, gpus=4),
    job("wide", 0.1, 2, gpus=4),
    job("long", 0.2, 5, gpus=1),
    job("middle", 0.3, 3, gpus=2),
]


def test_qssf_with_a_perfect_predictor_starts_the_smallest_service_first() -> None:
    """Services 8, 5 and 6 GPU-seconds: `long`, then `middle` beside it, then `wide`."""
    ends = finish_times("qssf", FOUR_WISHES, FOUR_GPUS)
    assert ends == pytest.approx({"now": 1, "long": 6, "middle": 4, "wide": 8})


def test_qssf_with_a_constant_predictor_starts_the_smallest_gang_first() -> None:
    """Nobody has given an estimate, so all are guessed alike: 1, 2 and 4 GPUs in that order."""
    told = decisions_with_guesses("qssf:predictor=user-estimate", FOUR_WISHES)
    assert told == ["now", "long", "middle", "wide"]


def decisions_with_guesses(policy: str, arrivals: list[Arrival]) -> list[str]:
    rows = simulate(Experiment(arrivals, FOUR_GPUS), policy, rows=True).jobs
    return [row.job_id for row in sorted(rows, key=lambda row: (row.start_s or 0, row.gpus))]


def test_qssf_never_preempts() -> None:
    record = simulate(Experiment(STAGGERED, ONE_GPU), "qssf")
    assert record.summary["preemptions"] == 0


# --------------------------------------------------------------------------------------- deadlines

DEADLINES = [
    job("x", 0, 2, deadline=3.0),
    job("y", 0, 1, deadline=10.0),
    job("z", 0, 2, deadline=4.0),
]


@pytest.mark.parametrize(
    ("policy", "missed"),
    [("edf", set()), ("least-laxity", set()), ("sjf", {"z"})],
)
def test_deadline_policies_meet_what_sjf_misses(policy: str, missed: set[str]) -> None:
    ends = finish_times(policy, DEADLINES, ONE_GPU)
    due = {arrival.job.id: arrival.job.deadline or inf for arrival in DEADLINES}
    assert {name for name, end in ends.items() if end > due[JobId(name)] + 1e-9} == missed


def test_edf_preempts_for_an_earlier_deadline_and_serves_jobs_without_one_last() -> None:
    arrivals = [job("whenever", 0, 5), job("soon", 1, 2, deadline=4.0)]
    assert finish_times("edf", arrivals, ONE_GPU) == {"whenever": 7, "soon": 3}
    assert finish_times("edf:preempt=false", arrivals, ONE_GPU) == {"whenever": 5, "soon": 7}


# ------------------------------------------------------------------------------ priority and rounds


def test_the_highest_priority_goes_first_and_may_interrupt() -> None:
    arrivals = [job("low", 0, 5), job("high", 1, 2, priority=9.0)]
    assert finish_times("priority", arrivals, ONE_GPU) == {"low": 7, "high": 3}
    assert finish_times("priority:preempt=false", arrivals, ONE_GPU) == {"low": 5, "high": 7}


def test_round_robin_gives_each_waiting_job_its_slice_in_turn() -> None:
    told = decisions("round-robin:slice_s=2", [job(name, 0, 4) for name in "abc"], ONE_GPU)
    assert [what for _, what in told if what.startswith("+")] == [
        "+a", "+b", "+c", "+a", "+b", "+c",
    ]  # fmt: skip
    assert [at for at, what in told if what.startswith("+")] == [0, 2, 4, 6, 8, 10]


def test_multilevel_feedback_lets_new_jobs_overtake_one_that_has_used_up_its_slice() -> None:
    """Slices of 2, 4, 8: `old` sinks at 2 (nobody waits), `new` arrives at 3 and goes first."""
    arrivals = [job("old", 0, 10), job("new", 3, 2)]
    policy = "multilevel-feedback:levels=3:slice_s=2"
    assert finish_times(policy, arrivals, ONE_GPU) == {"old": 12, "new": 5}


# -------------------------------------------------------------------------- the cost of interrupting


def test_saving_and_restoring_are_charged_around_a_preemption() -> None:
    """A runs 2 s; saving it takes 1, B runs 3 to 4, restoring A takes 2, and its 8 s are left."""
    arrivals = with_interruption_cost([job("A", 0, 10), job("B", 2, 1)], save_s=1, restore_s=2)
    record = simulate(Experiment(arrivals, ONE_GPU), "srtf", rows=True)
    assert {row.job_id: row.end_s for row in record.jobs} == {"A": 14, "B": 4}
    assert record.summary["gpu_seconds_lost"] == pytest.approx(3)
    assert record.summary["preemptions"] == 1


@pytest.mark.parametrize("policy", ["fifo-skip", "srtf", "las:quantum=300", "round-robin"])
def test_gpu_seconds_used_are_the_work_asked_for_and_what_was_lost(policy: str) -> None:
    """Saving, restoring and nodes that die: nothing is booked twice, and nothing is forgotten."""
    nodes = [Node(f"n{i}", 4) for i in range(4)]
    recipe = traces.Recipe(jobs=200, gpus=16, load=1.0, mean_duration_s=900, c2=4, seed=2)
    arrivals = with_interruption_cost(traces.generate(recipe), save_s=5, restore_s=20)
    failures = NodeFailures(40_000, 600, seed=1)
    summary = simulate(Experiment(arrivals, nodes, failures=failures), policy).summary
    work = sum(arrival.work_s * arrival.job.gpus for arrival in arrivals)
    assert summary["finished"] == 200
    assert float(summary["gpu_seconds_lost"]) > 0
    assert summary["gpu_seconds_used"] == pytest.approx(work + float(summary["gpu_seconds_lost"]))


def test_least_laxity_meets_the_deadlines_that_can_be_met() -> None:
    jobs = [
        Arrival(0.0, Job(JobId("long"), deadline=1250.0), 1000.0),
        Arrival(100.0, Job(JobId("short"), deadline=200.0), 50.0),
    ]
    record = simulate(Experiment(jobs, [Node("n0", 1)]), "least-laxity", rows=True)
    assert {row.job_id: row.end_s for row in record.jobs} == {"short": 150.0, "long": 1050.0}


def test_least_laxity_looks_again_when_slack_runs_out_and_not_before(tmp_path: Path) -> None:
    jobs = [
        Arrival(0.0, Job(JobId("early"), deadline=1200.0), 1000.0),  # slack 200, kept while it runs
        Arrival(
            0.0, Job(JobId("later"), deadline=900.0), 500.0
        ),  # slack 400, shrinks while it waits
    ]
    journal = tmp_path / "journal.jsonl"
    record = simulate(Experiment(jobs, [Node("n0", 1)]), "least-laxity", rows=True, journal=journal)
    starts = {row.job_id: row.start_s for row in record.jobs}
    # its slack is 30 s less than the other's 200 at t = 230
    assert starts == {"early": 0.0, "later": pytest.approx(230.0, abs=1e-3)}
    assert journal.read_text().count('"woke"') < 40


def test_multilevel_feedback_counts_seconds_also_for_a_share_of_a_gpu() -> None:
    jobs = [
        Arrival(0.0, Job(JobId("half"), share=500), 100.0),
        Arrival(1.0, Job(JobId("whole")), 5.0),
    ]
    text = "multilevel-feedback:levels=2:slice_s=10"
    record = simulate(Experiment(jobs, [Node("n0", 1)]), text, rows=True)
    assert {row.job_id: row.start_s for row in record.jobs} == {"half": 0.0, "whole": 10.0}


@pytest.mark.parametrize("policy", ["las:quantum=0.05", "round-robin:slice_s=0.05"])
def test_short_turns_come_to_an_end_also_late_on_the_clock(policy: str) -> None:
    """At t = 10^7 the clock knows no less than two billionths of a second."""
    jobs = [Arrival(1e7 + i / 7, Job(JobId(str(i))), 1 / 3) for i in range(200)]
    assert simulate(Experiment(jobs, [Node("n0", 1)]), policy).summary["finished"] == 200


def test_least_laxity_takes_turns_that_are_worth_their_interruption() -> None:
    """Two jobs of equal slack share a GPU: at most a tenth of its time goes on changing them."""
    jobs = [job(name, 0.0, 20_000.0, deadline=50_000.0) for name in ("a", "b")]
    costly = with_interruption_cost(jobs, 30.0, 60.0)
    record = simulate(Experiment(costly, [Node("n0", 1)]), "least-laxity", rows=True)
    assert sum(row.preemptions for row in record.jobs) > 1  # they do take turns
    assert float(record.summary["makespan_s"]) < 1.1 * 40_000.0
