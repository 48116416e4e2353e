"""Rules of serving by name: who is served where and when.

A rule is a frozen dataclass whose fields are its parameters; see `rules.rule`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.catalogue import Catalogue
from dovetail.serving.rules.rule import ServingRule

_RULES = "dovetail.serving.rules"
BUILTIN: Mapping[str, tuple[str, str]] = {
    "gateway": (f"{_RULES}.gateway", "GatewayReplicas"),
    "static": (f"{_RULES}.routed", "StaticReplicas"),
    "clipper": (f"{_RULES}.routed", "ClipperReplicas"),
    "nexus": (f"{_RULES}.nexus", "NexusPool"),
    "clockwork": (f"{_RULES}.in_time", "ClockworkPool"),
    "shepherd": (f"{_RULES}.in_time", "ShepherdPool"),
    "continuous": (f"{_RULES}.continuous", "ContinuousReplicas"),
    "symphony": (f"{_RULES}.in_time", "SymphonyPool"),
    "gpulet": (f"{_RULES}.spatial", "GpuletParts"),
    "igniter": (f"{_RULES}.spatial", "IgniterParts"),
    "alpaserve": (f"{_RULES}.pipelined", "AlpaServeGroups"),
    "infaas": (f"{_RULES}.bought", "InfaasVariants"),
    "voted": (f"{_RULES}.voted", "VotedModels"),
    "mark": (f"{_RULES}.bought", "MarkInstances"),
    "inferline": (f"{_RULES}.staged", "InferLinePipelines"),
}
CATALOGUE = Catalogue(
    "serving policy",
    "dovetail catalogue serving-policies",
    "dovetail.serving_policies",
    BUILTIN,
    "controller",
)


def make(text: str) -> ServingRule:
    """The rule that the text describes: its name, then `field=value` parts joined by colons."""
    rule: ServingRule = CATALOGUE.build(text, CATALOGUE.values(text, {}))
    return rule
