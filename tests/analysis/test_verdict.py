"""The verdict: three policies, how sure, where measurements disagree, what to record."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from analysis_samples import (
    a_contest,
    a_decision,
    a_factors,
    a_predictive,
    a_rolling,
    an_analysis,
    important,
    tried,
    with_worth,
)
from dovetail.analysis.page import render, write
from dovetail.analysis.policy_choice import choices
from dovetail.insight.factors import EVERYBODY, MORRIS, SOBOL, Factors, Leaders
from dovetail.insight.worth import Worth
from html_page import assert_drawn, browsed


def test_the_three_are_the_fastest_the_best_without_predictions_and_the_best_without_preemption() -> (
    None
):
    found = choices(a_contest())
    assert [own.policy for own in found] == [
        "srtf:predictor=mixture",
        "tiresias",
        "qssf:predictor=mixture",
    ]
    assert "interrupt nobody" in found[2].why


def test_a_policy_that_is_all_three_is_named_once_and_the_next_fill_up() -> None:
    contest = a_contest(
        tried("las", 2.0), tried("tiresias", 3.0), tried("easy", 4.0), tried("fifo", 10.0)
    )
    found = choices(contest)
    assert [own.policy for own in found] == ["las", "tiresias", "easy"]
    assert "need no prediction" in found[0].why
    assert "interrupt nobody" in found[0].why


def test_nothing_is_recommended_that_knows_the_truth_or_is_no_better_than_fifo() -> None:
    contest = a_contest(tried("srtf", 1.0, "oracle"), tried("las", 12.0), tried("fifo", 10.0))
    assert choices(contest) == ()


def test_a_clear_lead_is_called_so_and_a_close_one_names_the_others() -> None:
    others = (tried("las", 4.0), tried("fifo", 10.0))
    clear = a_contest(replace(tried("srsf", 2.0), best=0.97), *others)
    assert any("clear lead" in line for line in an_analysis(contest=clear).verdict.sureness)
    unsure = a_contest(replace(tried("srsf", 2.0), best=0.85), *others)
    said = "srsf is the best in 85 % of the resamples; las is next, its mean 100.0 % longer."
    assert said in an_analysis(contest=unsure).verdict.sureness
    close = a_contest(tried("srsf", 2.0), tried("las", 2.1), tried("fifo", 10.0))
    assert any("las is as good" in line for line in an_analysis(contest=close).verdict.sureness)


def test_a_feature_that_predicts_but_does_not_pay_is_a_finding() -> None:
    found = an_analysis().verdict.disagreements
    assert any("tenant predicts durations best, but size is worth most" in line for line in found)
    assert any("tenant predicts durations, yet knowing it" in line for line in found)


def test_measurements_that_agree_are_not_called_a_disagreement() -> None:
    same = with_worth(
        a_decision(), Worth("tenant", 900.0, 800.0, 999.0), Worth("size", 300.0, 200.0, 400.0)
    )
    found = an_analysis(decision=same, factors=None, rolling=None).verdict.disagreements
    assert not any("worth most" in line or "by nothing" in line for line in found)


def test_a_member_of_a_group_that_was_shuffled_as_one_counts_as_that_group() -> None:
    both = (important("user and name", 0.9, 0.994), important("size", 0.0, 0.006))
    paid = with_worth(
        a_decision(), Worth("user", 900.0, 800.0, 999.0), Worth("name", 850.0, 700.0, 950.0)
    )
    own = replace(a_predictive(), importance=both, dropped=())
    found = an_analysis(predictive=own, decision=paid, factors=None, rolling=None)
    assert found.verdict.disagreements == ()


def test_what_was_not_measured_is_not_taken_for_nothing() -> None:
    """Neither a feature that was not simulated nor one that was not shuffled."""
    own = replace(a_predictive(), importance=(important("tenant", 0.4, 1.0),), dropped=())
    paid = with_worth(a_decision(), Worth("size", 900.0, 800.0, 999.0))
    found = an_analysis(predictive=own, decision=paid, factors=None, rolling=None)
    assert found.verdict.disagreements == ()


def test_a_group_shuffled_as_one_that_does_not_pay_is_still_a_finding() -> None:
    own = replace(a_predictive(), importance=(important("user and name", 0.9, 1.0),), dropped=())
    paid = with_worth(a_decision(), Worth("user", 5.0, -9.0, 20.0), Worth("name", 1.0, -9.0, 20.0))
    found = an_analysis(predictive=own, decision=paid, factors=None, rolling=None)
    assert found.verdict.disagreements == (
        "user and name predict durations, yet knowing them shortens the schedule by nothing.",
    )


def test_a_feature_that_others_can_replace_is_a_finding() -> None:
    found = an_analysis().verdict.disagreements
    assert any("Shuffling tenant hurts predictions" in line for line in found)


def test_a_predictor_that_orders_better_but_schedules_worse_is_a_finding() -> None:
    found = an_analysis().verdict.disagreements
    assert any(
        "mixture orders more pairs of jobs rightly than history-mean" in line for line in found
    )


def test_what_moves_the_gain_is_told_with_the_value_here() -> None:
    found = an_analysis().verdict.dominant
    assert any("load (60 %)" in line and "Here: load 0.63" in line for line in found)


def with_leaders(*of_morris: str) -> Factors:
    own = a_factors()
    others = tuple(lead for lead in own.leaders if lead.method != MORRIS)
    return replace(own, leaders=(*others, Leaders(MORRIS, EVERYBODY, of_morris)))


def test_screening_and_variance_that_name_different_factors_are_a_finding() -> None:
    found = an_analysis(factors=with_leaders("tail weight")).verdict.disagreements
    assert any("tail weight has the largest effects" in line for line in found)
    assert not any("Morris" in line for line in an_analysis().verdict.disagreements)


def test_leaders_that_chance_could_turn_round_are_no_disagreement() -> None:
    found = an_analysis(factors=with_leaders("tail weight", "load")).verdict.disagreements
    assert not any("Morris" in line for line in found)


def test_which_factor_leads_is_said_as_far_as_the_runs_can_tell() -> None:
    sure = an_analysis().verdict.dominant
    assert any("That load comes first is beyond chance." in line for line in sure)
    own = a_factors()
    both = (Leaders(SOBOL, EVERYBODY, ("load", "tail weight")),)
    unsure = an_analysis(factors=replace(own, leaders=both)).verdict.dominant
    assert any("Which of load, tail weight comes first, these runs cannot" in s for s in unsure)


def test_a_feature_that_misleads_the_schedule_is_a_finding() -> None:
    worse = with_worth(a_decision(), Worth("recent jobs", -3600.0, -5000.0, -100.0))
    found = an_analysis(decision=worse).verdict.disagreements
    assert any("Knowing recent jobs makes the schedule longer" in line for line in found)


def test_the_share_of_the_oracles_gain_that_was_kept_is_told_with_its_interval() -> None:
    said = an_analysis().verdict.worth_knowing[0]
    assert "qssf with predictions (mixture) kept 62 % (95 % interval 57 % to 68 %)" in said


def test_what_was_kept_over_plain_fifo_does_not_hide_what_was_lost_over_its_sister() -> None:
    contest = a_contest()
    sister = replace(contest.kept[0], baseline="fifo-skip", baseline_s=4 * 3600.0)
    for share, said in ((0.4, "Over fifo-skip it kept 40 %"), (-0.2, "It loses against fifo-skip")):
        both = (contest.kept[0], replace(sister, share=share))
        found = an_analysis(contest=replace(contest, kept=both)).verdict.worth_knowing
        assert said in found[0]


def test_queueing_is_taken_from_the_simulation_not_from_the_load() -> None:
    for wait_h, said in ((4.0, "there is a queue to order"), (0.1, "little queueing")):
        fifo = replace(tried("fifo", 10.0), mean_wait_s=wait_h * 3600.0)
        found = an_analysis(contest=a_contest(tried("las", 5.0), fifo)).verdict.dominant
        assert said in found[0]
    assert "queue" not in an_analysis(contest=None).verdict.dominant[0]


def test_few_jobs_are_called_few_and_equal_policies_equal() -> None:
    even = a_contest(tried("las", 10.0), tried("fifo", 10.0))
    few = an_analysis(contest=replace(even, jobs=200)).verdict.sureness
    assert any("200 jobs say little" in line for line in few)
    assert any("No policy is better than another" in line for line in few)


def test_where_no_policy_is_better_none_is_to_be_tried() -> None:
    even = a_contest(tried("las", 9.97), tried("tiresias", 9.98), tried("fifo", 10.0))
    found = an_analysis(contest=replace(even, jobs=1))
    assert found.verdict.choices == ()
    assert any("1 job says little" in line for line in found.verdict.sureness)


def test_titles_say_so_where_nothing_differs() -> None:
    own = a_decision()
    same = [replace(row, mean_jct_s=600.0) for row in own.outcomes]
    noise = [replace(row, mean_jct_s=600.0) for row in own.noise]
    flat = replace(
        own,
        outcomes=tuple(same),
        noise=tuple(noise),
        stops_paying_at=None,
        stops_paying_between=(None, None),
    )
    moment = replace(tried("fifo", 10.0), low=None, high=None, best=1.0)
    page = render(an_analysis(decision=flat, contest=replace(a_contest(moment), load=0.0)))
    assert "The order of jobs decides nothing" in page
    assert "Errors of predictions change nothing" in page
    for nonsense in ("predictions pay against", "load 0.0 %", "100.0 %</td>", "from resampling 9"):
        assert nonsense not in page


def test_a_loss_of_order_is_told_in_percentage_points() -> None:
    assert "8.0 percentage points larger" in render(an_analysis())


def test_where_the_oracle_gains_nothing_there_is_nothing_to_keep() -> None:
    contest = a_contest()
    even = replace(contest.kept[0], oracle_s=contest.kept[0].baseline_s, share=None)
    said = an_analysis(contest=replace(contest, kept=(even,))).verdict.worth_knowing
    assert "nothing to keep" in said[0]


def test_what_to_record_is_missing_and_most_useful_first() -> None:
    advised = [own.id for own in an_analysis().verdict.record]
    assert advised[0] == "J6"  # users are there
    assert "J4" not in advised


def test_a_page_with_everything_shows_every_part_and_every_interval() -> None:
    page = render(an_analysis())
    for name in (
        "verdict",
        "workload",
        "catalogue",
        "predictive",
        "decision",
        "factors",
        "contest",
    ):
        assert f'<section id="{name}"' in page
    assert page.count("data-chart=") >= 18


def test_a_page_without_some_parts_says_why() -> None:
    page = render(an_analysis(decision=None, factors=None, predictive=None, rolling=None))
    assert page.count("it was not to be") >= 4
    assert '<section id="factors"' in page


def test_empty_measurements_make_a_page_too() -> None:
    nothing = replace(a_predictive(), scores=(), by_level=(), importance=(), dropped=(), shapes=())
    rolling = replace(a_rolling(), whole=None, weeks=(), gains=(), not_measured=("no jobs",))
    assert "no jobs" in render(an_analysis(predictive=nothing, rolling=rolling, contest=None))


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_every_chart_of_a_page_with_everything(tmp_path: Path) -> None:
    analysis = an_analysis()
    write(tmp_path, analysis)
    charts = render(analysis).count("data-chart=")
    assert_drawn(browsed(tmp_path / "report.html", charts), charts)
