"""Study rules by name, made from text such as `asha-promote:eta=3:rungs=1/3/9/27`."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.catalogue import Catalogue
from dovetail.tune.rules import Rule

_RULES = "dovetail.tune.rules"
BUILTIN: Mapping[str, tuple[str, str]] = {
    "default": (f"{_RULES}.default", "Default"),
    "fifo": (f"{_RULES}.turns", "FifoRule"),
    "round-robin": (f"{_RULES}.turns", "RoundRobinRule"),
    "slaq": (f"{_RULES}.convergence", "Slaq"),
    "hermes": (f"{_RULES}.convergence", "Hermes"),
    "median-stop": (f"{_RULES}.median_stop", "MedianStop"),
    "successive-halving": (f"{_RULES}.halving", "SuccessiveHalving"),
    "hyperband": (f"{_RULES}.hyperband", "Hyperband"),
    "asha-stop": (f"{_RULES}.asha", "AshaStop"),
    "asha-promote": (f"{_RULES}.asha", "AshaPromote"),
    "pasha": (f"{_RULES}.pasha", "Pasha"),
    "pop": (f"{_RULES}.pop", "Pop"),
    "hypersched": (f"{_RULES}.hypersched", "HyperSched"),
    "pbt": (f"{_RULES}.pbt", "Pbt"),
    "freeze-thaw": (f"{_RULES}.freeze_thaw", "FreezeThaw"),
}
CATALOGUE = Catalogue(
    "study policy", "dovetail study policies", "dovetail.study_rules", BUILTIN, "pick"
)
names = CATALOGUE.names
find = CATALOGUE.find
manual = CATALOGUE.manual


def make(text: str) -> Rule:
    """The rule that the text describes: its name, then `field=value` parts joined by colons."""
    rule: Rule = CATALOGUE.build(text, CATALOGUE.values(text, {}))
    return rule
