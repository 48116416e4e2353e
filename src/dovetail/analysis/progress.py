"""One bar over all parts, each as long as it usually takes."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from dovetail.experiments.progress_bar import ProgressBar
from dovetail.insight.work import Progress


class PartsProgress:
    """How much of each part is done, shown with the name of what is being measured."""

    def __init__(self, weights: Mapping[str, float], bar: ProgressBar) -> None:
        self._weights, self._bar = weights, bar
        self._done = dict.fromkeys(weights, 0.0)  # of each part
        self._lock = Lock()  # parts tell from threads of their own

    def within(self, part: str, title: str) -> Progress:
        """What a part tells how far it is: so many tasks done, of so many."""

        def tell(done: int, total: int) -> None:
            self._show(part, done / max(total, 1), f"{title} ({done:,} of {total:,})")

        return tell

    def finish(self, part: str) -> None:
        self._show(part, 1.0, "")

    def _show(self, part: str, done: float, text: str) -> None:
        with self._lock:
            self._done[part] = min(1.0, done)
            made = sum(self._weights[name] * own for name, own in self._done.items())
            self._bar.show(made / sum(self._weights.values()), text)
