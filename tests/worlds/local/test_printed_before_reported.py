"""What a job prints, rounded for people, may be read before the exact report of the same step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from dovetail.core.model import JobId
from dovetail.worlds.agent import JobTold, Run, Tells
from dovetail.worlds.local.watching.watcher import Watcher
from dovetail.worlds.printed import Sought
from waiting import until

EXACT, ROUNDED = 0.31415926, 0.314


class Pipe:
    """A run that ends when its pipe is closed."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def pidfd(self) -> int:
        return self._reader

    def close(self) -> None:
        os.close(self._writer)
        os.close(self._reader)


class Told:
    def __init__(self, folder: Path) -> None:
        self.reports, self.log = folder / "reports", folder / "log"
        self.log.touch()
        self.values: list[object] = []

    def hear(self, fact: object) -> None:
        if isinstance(fact, JobTold):
            self.values += [one.metrics["loss"] for one in fact.reports]

    def prints(self) -> None:
        with self.log.open("a") as file:
            file.write(f"epoch 1 loss: {ROUNDED}\n")


@contextmanager
def watched(folder: Path, reports_lag_s: float) -> Iterator[Told]:
    told, run = Told(folder), Pipe()
    watcher = Watcher(told.hear, lambda: None, reports_lag_s=reports_lag_s)
    tells = Tells(told.reports, told.log, sought=Sought("loss", steps=3))
    watcher.watch(JobId("1"), cast(Run, run), tells, 0, 0.0)
    watcher.start()
    try:
        yield told
    finally:
        watcher.stop()
        run.close()


def test_an_exact_report_that_comes_a_little_later_is_the_one_that_counts(tmp_path: Path) -> None:
    with watched(tmp_path, 60.0) as told:
        told.prints()
        report: dict[str, Any] = {"step": 1, "loss": EXACT}
        told.reports.write_text(f"{report}\n".replace("'", '"'))
        until(lambda: told.values)
    assert told.values == [EXACT]


def test_what_is_only_printed_is_told_once_no_report_has_come(tmp_path: Path) -> None:
    with watched(tmp_path, 0.2) as told:
        told.prints()
        until(lambda: told.values)
        told.prints()
        until(lambda: len(told.values) == 2)
    assert told.values == [ROUNDED, ROUNDED]
