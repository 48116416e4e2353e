"""Predictors that learn from jobs that finished: what they see, what they say, how sure they are."""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import pytest

from dovetail.core.entries import Finished, Submitted
from dovetail.core.errors import BadInput
from dovetail.core.model import Estimate, Job, JobId, Node
from dovetail.core.snapshot import restore, take
from dovetail.core.state import State
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.models.workload import Arrival
from dovetail.predict.boosting import fitted
from dovetail.predict.calibration import Shown, Side
from dovetail.predict.chronicle import Chronicle
from dovetail.predict.grown import Trust
from dovetail.predict.intervals import Belief
from dovetail.predict.learned import LEARNED, Learned
from stand_in_months import lived, months


def answers(predictor: Learned, state: State) -> list[Belief]:
    new = [Job(JobId(f"new{n}"), gpus, tenant="a") for n, gpus in enumerate((1, 2, 4, 8))]
    jobs = [track.job for track in state.tracks.values()]
    return [predictor.belief(job, state) for job in (*jobs, *new)]


@pytest.mark.parametrize("way", LEARNED)
def test_after_a_restart_a_predictor_says_what_it_would_have_said(way: str) -> None:
    """One is asked all along, one is built from the replayed journal, one from a snapshot."""
    if way != "recent-mean":
        pytest.importorskip("sklearn")
    state, copy, predictor = State(10_000), State(10_000), Learned(way)
    for entry in lived(months(240, 1.8), until=1.6 * 86_400.0):
        state.record(entry)
        copy.record(entry)
        if isinstance(entry, Submitted):
            predictor.duration_s(entry.job, state)
    assert len(state.past) > 150
    said = answers(predictor, state)
    if way != "recent-mean":
        assert any("trees" in belief.source for belief in said)
    assert answers(Learned(way), copy) == said
    assert answers(Learned(way), restore(take(state), 10_000)) == said


def test_a_submission_sees_what_ended_before_it_and_nothing_else() -> None:
    job, early, late = (Job(JobId(name), user="ann", name="train") for name in ("a", "b", "c"))
    chronicle = Chronicle()
    chronicle.finishes(early, 10.0, 100.0)
    chronicle.finishes(late, 20.0, 900.0)
    assert chronicle.submits(job, 10.0).number == 0
    assert chronicle.submits(job, 20.0).number == 1
    assert chronicle.now_of(job, 20.0).number == 2


def test_what_comes_later_changes_nothing_that_was_said_before() -> None:
    pytest.importorskip("sklearn")
    from dovetail.predict.rolling import _said

    arrivals = months(260, 1.8)  # trees are fitted once, when about 140 have ended
    changed = [*arrivals[:230], *(replace(a, work_s=a.work_s * 50) for a in arrivals[230:])]
    one, other = (_said(own, ("boosted", "mixture"), 200, None) for own in (arrivals, changed))
    for way, rows in one.items():
        assert (rows[:30] == other[way][:30]).all()
        assert (rows[30:] != other[way][30:]).any()


def test_newer_jobs_count_more_than_older_ones() -> None:
    state, predictor = State(), Learned("recent-mean")
    predictor.duration_s(Job(JobId("x"), tenant="a"), state)
    arrivals = [
        Arrival(1e4 * n, Job(JobId(str(n)), tenant="a"), 100.0 if n < 20 else 1000.0)
        for n in range(31)
    ]
    for entry in lived(arrivals, until=3e5):
        state.record(entry)
    said = predictor.duration_s(Job(JobId("x"), tenant="a"), state)
    assert 1.5 * (100.0**20 * 1000.0**10) ** (1 / 30) < said < 1000  # their geometric mean


def test_a_users_word_counts_more_than_other_jobs_of_that_user() -> None:
    state, predictor = State(10), Learned("recent-mean")
    for entry in lived([Arrival(0.0, Job(JobId("1"), user="ann", name="x"), 50.0)], 0.0):
        state.record(entry)
    state.record(Finished(50.0, JobId("1")))
    told = Job(JobId("2"), user="ann", name="y", estimate=Estimate(700.0))
    assert predictor.duration_s(told, state) == pytest.approx(700.0)
    assert 300 < predictor.duration_s(replace(told, name="x"), state) < 700  # one run is one run
    assert predictor.belief(told, state).source == "its user's estimate"


def test_without_history_the_answer_is_a_guess_and_says_so() -> None:
    belief = Learned("recent-mean").belief(Job(JobId("x")), State())
    assert belief.source == "a guess: no job like it has finished yet"
    assert belief.high / belief.low > 100


def test_a_guess_stays_wide_however_well_other_answers_were_confirmed() -> None:
    """How long other jobs are says nothing of the first trial of a study."""
    state, predictor = State(10_000), Learned("recent-mean")
    arrivals = [Arrival(1e3 * n, Job(JobId(str(n)), tenant="a"), 100.0) for n in range(30)]
    for entry in lived(arrivals, until=3e4):
        state.record(entry)
    trial = Job(JobId("x"), tenant="a", group="s", member=0)
    belief = predictor.belief(trial, state)
    assert belief.source.startswith("a guess")
    assert belief.high / belief.low > 100


def test_one_row_is_answered_as_scikit_learn_answers_it() -> None:
    """Trees are read out of the model, where scikit-learn gives no promise."""
    numpy = pytest.importorskip("numpy")
    ensemble = pytest.importorskip("sklearn.ensemble")
    chance = numpy.random.default_rng(0)
    rows = chance.normal(size=(500, 4))
    rows[chance.random(rows.shape) < 0.1] = numpy.nan
    targets = numpy.nan_to_num(rows[:, 0]) * 2 + chance.normal(size=500)
    kept = []
    plain = ensemble.HistGradientBoostingRegressor.fit

    class Watched(ensemble.HistGradientBoostingRegressor):  # type: ignore[name-defined,misc]
        def fit(self, *given: object) -> object:
            kept.append(self)
            return plain(self, *given)

    ensemble.HistGradientBoostingRegressor, before = Watched, ensemble.HistGradientBoostingRegressor
    try:
        trees = fitted(rows.tolist(), targets.tolist(), 0.5)
    finally:
        ensemble.HistGradientBoostingRegressor = before
    said = [trees.of(row) for row in rows.tolist()]
    assert said == pytest.approx(kept[0].predict(rows).tolist(), abs=1e-9)


def test_without_scikit_learn_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    experiment = Experiment(months(20, 1.0), [Node("n0", 8)])
    with pytest.raises(BadInput, match=r"scikit-learn; pip install 'dovetail\[predict\]'"):
        experiment.policy("qssf:predictor=mixture")
    assert simulate(experiment, "qssf:predictor=recent-mean").summary["finished"] == 20


def test_a_side_that_is_missed_too_often_moves_outwards() -> None:
    calm, missed = Side(0.1), Side(0.1)
    for number in range(3000):
        calm.judge(float(number % 10), number)
        missed.judge(float(number % 10) + number / 100, number - 300)
    assert calm.width() == pytest.approx(8.0, abs=1.0)
    nine_of_ten = sorted(number % 10 + number / 100 for number in range(3000))[2700]
    assert missed.width() > nine_of_ten + 2  # what the memory alone would give


def test_qssf_with_the_mixture_lies_between_the_oracle_and_fifo() -> None:
    pytest.importorskip("sklearn")
    experiment = Experiment(months(600, 6.0), [Node("n0", 8)])

    def mean(policy: str) -> float:
        return float(simulate(experiment, policy).summary["mean_jct_s"])

    assert mean("qssf") < mean("qssf:predictor=mixture") < mean("fifo")


def test_an_interval_reaches_as_far_as_what_was_shown_has_needed() -> None:
    chance, shown = Random(0), Shown(0.1)
    assert shown.reach() == (-2.353, 2.353)  # before anything has shown it: heavy tails
    for _ in range(300):
        shown.judge(chance.gauss(0.5, 0.2))
    low, high = shown.reach()
    assert -0.2 <= low <= 0.0
    assert 0.65 < high < 0.95
    for _ in range(40):
        shown.judge(3.0)  # all of a sudden
    assert shown.reach().high >= 3.0


def test_who_has_put_more_pairs_in_order_lately_is_trusted_more() -> None:
    chance, trust = Random(0), Trust(2)
    for _ in range(200):
        truth = chance.gauss(5.0, 1.0)
        noise = chance.gauss(0.0, 1.0)
        trust.judge(
            [truth + 1.0 + 0.01 * noise, 6.0 + abs(truth - 5.0) * (-1) ** (truth > 5)], truth
        )
    first, second = trust.weights()
    assert first > 0.9 > 0.1 > second
