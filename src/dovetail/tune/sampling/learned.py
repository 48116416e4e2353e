"""Settings chosen from the results of earlier trials: the samplers of Optuna.

Optuna's own study lives for one suggestion. It is made from our trials: finished trials with their
lowest loss, running trials with all their reports, trials without a report as running, so that no
setting is tried twice.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from random import Random
from typing import Any, ClassVar

from dovetail.core.errors import BadInput
from dovetail.tune.parameters import Choice, Float, Integer, Log, Parameter
from dovetail.tune.space import Settings, Space
from dovetail.tune.study import DONE, FAILED, Setting, Trial

NEEDS = {"tpe": ("optuna",), "gp": ("optuna", "scipy", "torch"), "cma-es": ("optuna", "cmaes")}
EXTRA = "pip install 'dovetail[optuna]'"


@dataclass(frozen=True)
class _OfOptuna:
    learns: ClassVar[bool] = True
    kind: ClassVar[str]
    seed: int = 0

    def __post_init__(self) -> None:
        check_installed(self.kind)

    def suggest(self, space: Space, number: int, past: Sequence[Trial]) -> Settings:
        return suggest(self.kind, self.seed, space, number, past)


class Tpe(_OfOptuna):
    """Optuna's tree-structured Parzen estimator, of all parameters together."""

    kind = "tpe"


class Gp(_OfOptuna):
    """Optuna's Gaussian process."""

    kind = "gp"


class CmaEs(_OfOptuna):
    """Optuna's evolution strategy with an adapted covariance matrix."""

    kind = "cma-es"


def check_installed(kind: str) -> None:
    missing = [package for package in NEEDS[kind] if find_spec(package) is None]
    if missing:
        more = " torch" if "torch" in missing else ""
        raise BadInput(f"the sampler {kind} needs {' and '.join(missing)}: {EXTRA}{more}")


def suggest(kind: str, seed: int, space: Space, number: int, past: Sequence[Trial]) -> Settings:
    check_installed(kind)
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    chance = Random(f"{kind} {seed} {number}")
    sampler = _sampler(kind, chance.getrandbits(32))
    with warnings.catch_warnings(), _one_thread(kind):
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Clip non-finite values")  # a trial that diverged
        if kind == "cma-es":
            study = _evolved(_sampler(kind, seed % 2**32), space, past)
        else:
            study = _told(space, past, is_gp=kind == "gp")
        study.sampler = sampler
        trial = study.ask()

        def choose(name: str, parameter: Parameter) -> Setting:
            if kind != "tpe" and space.conditions[name]:
                return parameter.at(chance.random())  # these models need complete points
            return _asked(trial, name, parameter)

        return space.build(choose)


def _sampler(kind: str, seed: int) -> Any:
    from optuna import samplers
    from optuna.exceptions import ExperimentalWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        if kind == "tpe":  # parameters together, and those under the same condition as a group
            return samplers.TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)
        if kind == "gp":
            return samplers.GPSampler(seed=seed, warn_independent_sampling=False)
        return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)


@contextmanager
def _one_thread(kind: str) -> Iterator[None]:
    """The matrices are small: on busy processors a second thread costs ten times what it saves."""
    if kind != "gp":
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ----------------------------------------------------------------------- our trials as Optuna's study


def _told(space: Space, past: Iterable[Trial], is_gp: bool) -> Any:
    """All trials at once."""
    import optuna

    study = optuna.create_study()
    for trial in past:
        if _is_of(space, trial) and not (trial.standing is FAILED and not trial.losses):
            study.add_trial(_frozen(space, trial, is_gp))
    return study


def _frozen(space: Space, trial: Trial, is_gp: bool) -> Any:
    """The Gaussian process uses values only: there a trial has its lowest loss so far."""
    from optuna.trial import TrialState, create_trial

    names = [name for name in space.parameters if name in trial.settings]
    if is_gp:
        names = [name for name in names if not space.conditions[name]]
    state = TrialState.PRUNED
    if not trial.losses:
        state = TrialState.RUNNING
    elif is_gp or trial.standing is DONE:
        state = TrialState.COMPLETE
    return create_trial(
        state=state,
        params={name: _coded(trial.settings[name], space.parameters[name]) for name in names},
        distributions={name: _distribution(space.parameters[name]) for name in names},
        intermediate_values=dict(enumerate(trial.losses, 1)),
        value=trial.loss if trial.losses else None,
    )


def _evolved(sampler: Any, space: Space, past: Iterable[Trial]) -> Any:
    """One after the other: the generations of CMA-ES follow from the order of its trials."""
    import optuna

    study = optuna.create_study(sampler=sampler)
    names = [name for name in space.parameters if not space.conditions[name]]
    for trial in past:
        if trial.losses and _is_of(space, trial):
            told = {name: _coded(trial.settings[name], space.parameters[name]) for name in names}
            study.enqueue_trial(told)
            asked = study.ask()
            _ = asked.relative_params  # made at the first access, and with them the generation
            for name in names:
                _asked(asked, name, space.parameters[name])
            study.tell(asked, trial.loss)
    return study


def _is_of(space: Space, trial: Trial) -> bool:
    """Do the trial's settings lie in the space? Population-based training may leave it."""
    names = {name for name in space.parameters if space.counts(name, trial.settings)}
    return names == set(trial.settings) and all(
        _is_among(trial.settings[name], space.parameters[name]) for name in names
    )


def _is_among(value: Setting, parameter: Parameter) -> bool:
    if isinstance(parameter, Choice):
        return value in parameter.values
    return not isinstance(value, str) and parameter.low <= value <= parameter.high


def _distribution(parameter: Parameter) -> Any:
    from optuna import distributions as known

    match parameter:
        case Choice():
            return known.CategoricalDistribution(parameter.values)
        case Log():
            return known.FloatDistribution(parameter.low, parameter.high, log=True)
        case Float(step=None):
            return known.FloatDistribution(parameter.low, parameter.high)
        case Float():  # given by its index: Optuna compares steps to the last bit
            return known.IntDistribution(0, (parameter.count or 1) - 1)
        case Integer(log=True):  # Optuna has no steps on a log scale
            return known.IntDistribution(parameter.low, parameter.high, log=True)
        case Integer():
            top = range(parameter.low, parameter.high + 1, parameter.step)[-1]
            return known.IntDistribution(parameter.low, top, step=parameter.step)


def _coded(value: Setting, parameter: Parameter) -> Setting:
    """The setting as the distribution represents it."""
    if isinstance(parameter, Float) and parameter.step is not None and not isinstance(value, str):
        return round((value - parameter.low) / parameter.step)
    return value


def _asked(trial: Any, name: str, parameter: Parameter) -> Setting:
    own = _distribution(parameter)
    if isinstance(parameter, Choice):
        chosen: Setting = trial.suggest_categorical(name, own.choices)
        return chosen
    if isinstance(parameter, Integer):
        whole: int = trial.suggest_int(name, own.low, own.high, step=own.step, log=own.log)
        return whole - (whole - parameter.low) % parameter.step
    if isinstance(parameter, Float) and parameter.count is not None:
        return parameter.at((trial.suggest_int(name, own.low, own.high) + 0.5) / parameter.count)
    number: float = trial.suggest_float(name, own.low, own.high, log=own.log)
    return number
