"""One bar over all parts, each as long as it usually takes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from threading import Lock
from typing import Any

import click

from dovetail.insight.work import Progress

STEPS = 1000


class Bar:
    """On the terminal's error output, with the name of what is being measured; else silent."""

    def __init__(self, weights: Mapping[str, float], quiet: bool) -> None:
        self._weights = weights
        self._done = dict.fromkeys(weights, 0.0)  # of each part
        self._lock = Lock()  # parts tell from threads of their own
        self._shown = 0
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            self._bar = click.progressbar(
                length=STEPS,
                file=sys.stderr,
                show_eta=False,
                width=32,
                item_show_func=lambda item: item or "",
            )

    def __enter__(self) -> Bar:
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        if self._bar is not None:
            self._bar.__exit__(*problem)

    def within(self, part: str, title: str) -> Progress:
        """What a part tells how far it is: so many tasks done, of so many."""

        def tell(done: int, total: int) -> None:
            self._show(part, done / max(total, 1), f"{title} ({done:,} of {total:,})")

        return tell

    def finish(self, part: str) -> None:
        self._show(part, 1.0, "")

    def _show(self, part: str, done: float, text: str) -> None:
        if self._bar is None:
            return
        with self._lock:
            self._done[part] = min(1.0, done)
            made = sum(self._weights[name] * own for name, own in self._done.items())
            place = round(STEPS * made / sum(self._weights.values()))
            self._bar.update(max(0, place - self._shown), text)
            self._shown = max(self._shown, place)
