"""Options whose value names something of a catalogue: `--predictor history-mean:guess_s=600`."""

from __future__ import annotations

from typing import Any

import click

from dovetail.catalogue import Catalogue
from dovetail.core.errors import BadInput


class Named(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A name, and parameters after it. What there is, added or ours, is looked up when it is asked
    for: in a help text, or where a name is not one of ours."""

    name = "name"

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(self._catalogue.names())}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        try:
            self._catalogue.find(text.partition(":")[0])
            self._catalogue.values(text, {})
        except BadInput as error:
            self.fail(str(error), param, ctx)
        return text
