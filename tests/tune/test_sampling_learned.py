"""The samplers of Optuna, fed with trials of ours; with the real package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import inf, log10
from typing import Any

import pytest

from dovetail.core.errors import BadInput
from dovetail.tune import sampling
from dovetail.tune.sampling import learned
from dovetail.tune.space import Choice, Float, Integer, Log, Settings, Space
from dovetail.tune.study import (
    DONE,
    FAILED,
    PAUSED,
    RUNNING,
    STOPPED,
    Setting,
    Trial,
    TrialStanding,
)

SPACE = Space(
    {
        "lr": Log(1e-4, 1e-1),
        "momentum": Float(0, 0.9, step=0.3),
        "units": Integer(16, 256, step=16, log=True),
        "layers": Integer(1, 5, step=2),
        "optimizer": Choice("sgd", "adam"),
        "beta": Float(0.8, 0.999, when={"optimizer": "adam"}),
    }
)


@pytest.fixture(params=[name for name in sampling.NAMES if sampling.learns(name)])
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    for package in learned.NEEDS[name]:
        pytest.importorskip(package, reason=f"the sampler {name} needs {package}")
    return name


def trial(number: int, settings: Settings, standing: TrialStanding, *losses: float) -> Trial:
    found = Trial(number, settings)
    for loss in losses:
        found.report(loss)
    found.standing = standing
    return found


def history(count: int, space: Space = SPACE) -> list[Trial]:
    """Some done, some on their way, some that went wrong, some that have not begun."""
    draw = sampling.make("random", seed=5).suggest
    shapes: list[tuple[TrialStanding, list[float]]] = [
        (DONE, [3.0, 2.0, 1.0]),
        (PAUSED, [4.0, 2.5]),
        (STOPPED, [5.0]),
        (DONE, [2.0, inf, 3.0]),
        (PAUSED, [inf]),
        (FAILED, []),
        (FAILED, [9.0]),
        (RUNNING, []),
        (RUNNING, [2.5]),
    ]
    found = []
    for number in range(count):
        standing, losses = shapes[number % len(shapes)]
        losses = [loss + 0.01 * number for loss in losses]
        found.append(trial(number, draw(space, number, ()), standing, *losses))
    return found


def is_of(space: Space, settings: Settings) -> None:
    names = {name for name in space.parameters if space.counts(name, settings)}
    assert set(settings) == names
    assert list(settings) == [name for name in space.parameters if name in names]
    for name, value in settings.items():
        own = space.parameters[name]
        if isinstance(own, Choice):
            assert value in own.values
        elif isinstance(own, Integer):
            assert value in range(own.low, own.high + 1, own.step)
        else:
            assert own.low <= float(value) <= own.high


@pytest.mark.parametrize("count", [0, 3, 30])
def test_suggestions_lie_in_a_space_with_conditions_whatever_happened(
    kind: str, count: int
) -> None:
    suggest = sampling.make(kind, seed=1).suggest
    past = history(count)
    for number in range(count, count + 3):
        found = suggest(SPACE, number, past)
        is_of(SPACE, found)
        past = [*past, trial(number, found, RUNNING)]


def test_asking_again_after_a_restart_gives_the_same(kind: str) -> None:
    past = history(30)
    found = sampling.make(kind, seed=1).suggest(SPACE, 30, past)
    again = sampling.make(kind, seed=1).suggest(SPACE, 30, history(30))
    assert again == found
    assert sampling.make(kind, seed=2).suggest(SPACE, 30, past) != found
    assert sampling.make(kind, seed=1).suggest(SPACE, 31, past) != found


def test_it_finds_better_settings_than_chance(kind: str) -> None:
    """A valley whose lowest place is at lr = 0.01, p = 0.7, told in three steps a trial."""
    space = Space({"lr": Log(1e-5, 1), "p": Float(0, 1), "o": Choice("a", "b")})

    def loss(settings: dict[str, Setting]) -> float:
        far = (log10(float(settings["lr"])) + 2) ** 2 + 10 * (float(settings["p"]) - 0.7) ** 2
        return far + (0.5 if settings["o"] == "b" else 0.0)

    def losses(suggest: Callable[..., Settings], count: int) -> list[float]:
        past: list[Trial] = []
        for number in range(count):
            chosen = suggest(space, number, past)
            final = loss(chosen)
            past.append(trial(number, chosen, DONE, final + 2, final + 1, final))
        return sorted(own.loss for own in past[-min(count // 2, count - 10) :])

    count = 14 if kind == "gp" else 60
    ours = losses(sampling.make(kind, 3).suggest, count)
    chance = losses(sampling.make("random", 3).suggest, count)
    middle = len(ours) // 2
    assert ours[middle] < 0.7 * chance[middle]


def test_what_trials_have_reported_on_the_way_counts(kind: str) -> None:
    """Nobody is done yet; those near lr = 0.1 are far ahead of the others at the same step."""
    draw = sampling.make("random", seed=0).suggest
    space = Space({"lr": Log(1e-4, 1e-1), "p": Float(0, 1)})
    past = []
    for number in range(count := 12 if kind == "gp" else 40):
        settings = draw(space, number, ())
        past.append(trial(number, settings, PAUSED, 1 - log10(float(settings["lr"])), 0.5))
        past[-1].losses[-1] = past[-1].best[-1] = -log10(float(settings["lr"]))
    suggest = sampling.make(kind, seed=4).suggest
    found = sorted(float(suggest(space, count + turn, past)["lr"]) for turn in range(3))
    assert found[1] > 1e-2


def test_a_study_in_which_all_diverges_goes_on(kind: str) -> None:
    draw = sampling.make("random").suggest
    past = [trial(number, draw(SPACE, number, ()), DONE, inf, inf) for number in range(12)]
    is_of(SPACE, sampling.make(kind).suggest(SPACE, 12, past))


def test_settings_outside_the_space_are_passed_over(kind: str) -> None:
    past = [trial(0, {"lr": 99.0}, DONE, 1.0), trial(1, {"other": "x"}, DONE, 1.0)]
    is_of(SPACE, sampling.make(kind).suggest(SPACE, 2, past))


def test_an_absent_package_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    absent: Any = lambda package: None  # noqa: E731
    monkeypatch.setattr(learned, "find_spec", absent)
    with pytest.raises(BadInput) as caught:
        sampling.make("cma-es")
    assert str(caught.value) == (
        "the sampler cma-es needs optuna and cmaes: pip install 'dovetail[optuna]'"
    )
    with pytest.raises(BadInput, match=r"needs optuna and scipy and torch: .* torch$"):
        sampling.make("gp")


def test_the_best_of_720_ways_to_run_a_server_is_found_in_30_trials() -> None:
    """Share of a GPU, batch, processors and GPU kind, which act independently: Morphling's question,
    asked of the sampler that learns best from few trials."""
    for package in learned.NEEDS["gp"]:
        pytest.importorskip(package, reason=f"the sampler gp needs {package}")
    price_and_speed = {
        "T4": (0.35, 1.0),
        "V100": (1.5, 2.5),
        "A100": (2.5, 6.0),
        "H100": (5.0, 9.0),
    }
    space = Space(
        {
            "sixths": Integer(1, 6),
            "batch_power": Integer(0, 5),
            "cpus": Integer(1, 5),
            "kind": Choice(*price_and_speed),
        }
    )

    def usd_per_request(settings: Mapping[str, Setting]) -> float:
        sixths, cpus = int(settings["sixths"]), int(settings["cpus"])
        batch = 2 ** int(settings["batch_power"])
        price, speed = price_and_speed[str(settings["kind"])]
        by_share = (0.3 + sixths / 6) / min(sixths / 3, 1.0) ** 0.7
        by_batch = (4 + batch * (1 + (batch / 16) ** 2)) / batch
        return float(price / speed * by_share * by_batch * (1 + 0.25 * cpus) / cpus**0.6)

    values = (range(1, 7), range(6), range(1, 6), price_and_speed)
    every: list[dict[str, Any]] = [
        dict(zip(space.parameters, own, strict=True)) for own in product(*values)
    ]
    assert len(every) == 720
    suggest, past = sampling.make("gp", seed=1, trials=30).suggest, list[Trial]()
    for number in range(30):
        chosen = suggest(space, number, past)
        past.append(trial(number, chosen, DONE, usd_per_request(chosen)))
    assert min(own.loss for own in past) == pytest.approx(min(map(usd_per_request, every)))
