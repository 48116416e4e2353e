"""Scaling rules by name: for services that run, and for simulated ones."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.catalogue import Catalogue
from dovetail.workloads.service.scaling import ScalingRule

_SERVICE = "dovetail.workloads.service"
BUILTIN: Mapping[str, tuple[str, str]] = {
    "reactive": (f"{_SERVICE}.scaling", "Reactive"),
    "forecast": (f"{_SERVICE}.ahead", "ByForecast"),
    "wake-ahead": (f"{_SERVICE}.ahead", "WakeAhead"),
}
SCALING = Catalogue(
    "scaling rule", "dovetail catalogue scaling-rules", "dovetail.scaling_rules", BUILTIN, "wanted"
)


def make_rule(text: str) -> ScalingRule:
    """By name, with parameters such as reactive:target=0.5."""
    rule: ScalingRule = SCALING.build(text, SCALING.values(text, {}))
    return rule
