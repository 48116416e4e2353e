"""`dovetail bound`: how cheap an instance can be run at all."""

from __future__ import annotations

import json
from math import inf, isinf
from os.path import isfile
from typing import TYPE_CHECKING, Any

import click

from dovetail.bounds import solver as solving
from dovetail.bounds.by_hand import simple_bound
from dovetail.bounds.time_slots import SHORTEST_SLOT_S, usual_slot_s
from dovetail.core.errors import BadInput
from dovetail.traces.readers.andreas_folder import FILES, Instance, read_instance
from dovetail.traces.readers.cells import LONGEST_S

if TYPE_CHECKING:
    from dovetail.experiments.experiment import Experiment

_QUICK = "frugal"  # has a good answer where the solver runs out of time without one


@click.command()
@click.argument("instance")
@click.option("--simple", is_flag=True, help="Only the bound that needs no solver.")
@click.option("--optimum", is_flag=True, help="Also search for the best schedule; for small ones.")
@click.option("--limit", default=60.0, show_default=True, help="Seconds for each search.")
@click.option("--slot", type=float, help="Seconds; shorter is more exact and takes longer.")
@click.option("--policies", default="", help="Simulate these, and say how far above they are.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def bound(
    instance: str,
    simple: bool,
    optimum: bool,
    limit: float,
    slot: float | None,
    policies: str,
    as_json: bool,
) -> None:
    """Say what running INSTANCE, a folder with jobs, nodes and costs, must cost at least."""
    for name, seconds in (("slot", slot), ("limit", limit)):
        if seconds is not None and not seconds > 0:
            raise BadInput(f"--{name} {seconds:g}: give a positive number of seconds")
    if slot is not None and not SHORTEST_SLOT_S <= slot <= LONGEST_S:
        raise BadInput(f"--slot {slot:g}: give {SHORTEST_SLOT_S:g} to {LONGEST_S:g} seconds")
    if isfile(instance):
        raise BadInput(f"{instance} is a file; name a folder with {', '.join(FILES)}")
    simple = simple or _is_without_solver(optimum)
    found = read_instance(instance)
    names = [name.strip() for name in policies.split(",") if name.strip()]
    for name in names:
        _experiment(found).policy(name)  # a wrong one is told before anything is solved
    figures: dict[str, Any] = {
        "simple_bound": simple_bound(found.trace.arrivals, found.nodes, found.costs)
    }
    if not simple:
        figures |= _by_solver(found, slot, limit, optimum)
    costs = {name: _cost(found, name) for name in names}
    if as_json:
        click.echo(json.dumps({**figures, "policies": costs}))
    else:
        _say(figures, costs)


def _is_without_solver(optimum: bool) -> bool:
    """Told before anything is computed. What needs no solver is computed all the same."""
    if solving.is_there():
        return False
    if optimum:
        raise BadInput(solving.NO_SOLVER)
    click.echo(f"note: {solving.NO_SOLVER}; only the simple bound is told", err=True)
    return True


def _by_solver(found: Instance, slot: float | None, limit: float, optimum: bool) -> dict[str, Any]:
    arrivals = found.trace.arrivals
    slot_s = usual_slot_s(arrivals) if slot is None else slot
    given = arrivals, found.nodes, found.costs, slot_s
    relaxed = solving.solved_within(limit, *given, relaxed=True)
    figures: dict[str, Any] = {"slot_s": slot_s, "lp_bound": _number(relaxed.bound)}
    if optimum:
        strict = solving.solved_within(limit, *given, relaxed=False)
        figures |= {
            "optimum": _number(strict.cost),
            "optimum_bound": _number(strict.bound),
            "optimum_seconds": strict.seconds,
            "proven": strict.in_time,
        }
        if not strict.in_time and (quick := _cost(found, _QUICK)) < strict.cost:
            figures["best_known"] = quick
    return figures


def _number(value: float) -> float | None:
    return None if isinf(value) else value


def _experiment(found: Instance) -> Experiment:
    from dovetail.experiments.experiment import Experiment

    return Experiment(found.trace.arrivals, found.nodes, costs=found.costs)


def _cost(found: Instance, policy: str) -> float:
    from dovetail.experiments.experiment import simulate

    return float(simulate(_experiment(found), policy).summary["total_cost"])


def _say(figures: dict[str, Any], costs: dict[str, float]) -> None:
    click.echo(f"every job in its thriftiest way  at least {figures['simple_bound']:.5g}")
    if "lp_bound" in figures:
        click.echo(f"linear program                   {_relaxed(figures['lp_bound'])}")
    best = max(figures["simple_bound"], figures.get("lp_bound") or -inf)
    what = "the bound"
    if "optimum" in figures:
        click.echo(_optimum(figures))
        if "best_known" in figures:
            known = figures["best_known"]
            told = _distance(known, best, what)
            click.echo(f"the best known, by {_QUICK:<17}{known:.5g}{told and f', {told}'}")
            best, what = known, "the best known"
        elif figures["optimum"] is not None:
            best, what = figures["optimum"], "the best schedule"
    for name, cost in costs.items():
        click.echo(f"{name:<32} {cost:>10.5g}  {_distance(cost, best, what)}")


def _distance(cost: float, best: float, what: str) -> str:
    """A policy may be below a schedule in whole slots: its jobs need not end with a slot."""
    if best <= 0:
        return ""
    return f"{100 * abs(cost / best - 1):.1f} % {'above' if cost >= best else 'below'} {what}"


def _relaxed(least: float | None) -> str:
    if least is None:
        return "none found: time is up; give more with --limit"
    return f"at least {_shown(least)}"


def _optimum(figures: dict[str, Any]) -> str:
    cost, least = figures["optimum"], figures["optimum_bound"]
    text = f"best schedule in slots of {figures['slot_s']:g} s    {_shown(cost)}"
    if figures["proven"]:
        return f"{text}, proven to 0.1 % in {figures['optimum_seconds']:.0f} s"
    if cost is None or least is None:
        return (
            f"{text}: time is up after {figures['optimum_seconds']:.0f} s; give more with --limit"
        )
    gap = 100 * (cost - least) / cost
    return f"{text}; time is up, at most {gap:.1f} % could still be gained"


def _shown(value: float | None) -> str:
    return "none found" if value is None else f"{value:.5g}"
