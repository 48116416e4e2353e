"""Everything that can be named, by kind; and options that name it, such as `--predictor NAME`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dovetail.cli.lazy_group import loaded
from dovetail.core.errors import BadInput

if TYPE_CHECKING:
    from dovetail.catalogue import Catalogue

# By the word that people type: the place of the catalogue, and where its things are named.
KINDS = {
    "policies": ("dovetail.policies.catalogue:CATALOGUE", "--policy tiresias:queues=2"),
    "placements": ("dovetail.policies.registry:PLACES", "--placement topology"),
    "predictors": ("dovetail.predict.registry:PREDICTORS", "--predictor history-mean:guess_s=600"),
    "speeds": ("dovetail.predict.registry:SPEED_PREDICTORS", "--speeds similar"),
    "readers": ("dovetail.traces.readers.formats:READERS", "--format philly"),
    "study-policies": ("dovetail.tune.rules:CATALOGUE", "policy: asha-promote:eta=3"),
    "samplers": ("dovetail.tune.sampling:SAMPLERS", "sampler: sobol"),
    "serving-policies": ("dovetail.serving.rules:CATALOGUE", "--policies static:wait_ms=2"),
    "scaling-rules": ("dovetail.serving.scaling_rules:SCALING", "scaling: forecast:target=0.6"),
    "traffic": ("dovetail.serving.traffic.catalogue:TRAFFIC", "bursty:rate=300:cv=4"),
    "worlds": ("dovetail.worlds.registry:WORLDS", "--world local"),
}


def catalogue_of(kind: str) -> Catalogue:
    found: Catalogue = loaded(KINDS[kind][0])
    return found


class Named(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A name of this kind, and parameters after it. What there is, added or ours, is looked up when
    it is asked for: in a help text, or where a name is given."""

    name = "name"

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(catalogue_of(self.kind).names())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            catalogue_of(self.kind).values(text, {})
        except BadInput as error:
            self.fail(str(error), param, ctx)
        return text
