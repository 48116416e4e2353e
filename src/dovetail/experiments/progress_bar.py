"""A progress bar on the terminal's error output; silent if it is not a terminal."""

from __future__ import annotations

import sys
from typing import Any

import click

_STEPS = 1000


class ProgressBar:
    """The part that is done, and a text beside it. It never goes back."""

    def __init__(self, quiet: bool, label: str = "") -> None:
        self._shown = 0
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            self._bar = click.progressbar(
                length=_STEPS,
                label=label or None,
                file=sys.stderr,
                show_eta=False,
                width=32,
                item_show_func=lambda text: text or "",
            )

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        if self._bar is not None:
            if problem[0] is None:
                self.show(1.0, "")
            self._bar.__exit__(*problem)

    def show(self, part: float, text: str) -> None:
        """Show that `part` of the work is done, from 0 to 1."""
        if self._bar is None:
            return
        place = max(int(_STEPS * part), self._shown)
        self._bar.update(place - self._shown, text)
        self._shown = place
