"""Rows of the leaderboard, and the file that keeps them until the page is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from dovetail.version import version

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Settings:
    """How a leaderboard is made; said on its page."""

    seeds: int = 10
    row_s: float = 100.0  # for all seeds of a row
    minutes: float = 110.0  # of one processor for everything; rows that come later say so
    loads: tuple[str, ...] = ()  # empty: all
    policies: tuple[str, ...] = ()


@dataclass(frozen=True)
class BoardRow:
    """A policy on a load: the figures of each run, or why there are none."""

    load: str
    policy: str
    knows: str
    runs: tuple[Figures, ...] = ()
    reason: str = ""
    took_s: float = 0.0


@dataclass(frozen=True)
class KeptRows:
    """A line for each row that was run, so that a run that was cut short goes on where it was. Rows of
    another version or other settings do not count."""

    path: Path
    settings: Settings

    def rows(self) -> dict[tuple[str, str], BoardRow]:
        lines = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}}")]
        own = [one["row"] for one in found if one["made"] == self._made()]
        rows = [BoardRow(**{**one, "runs": tuple(one["runs"])}) for one in own]
        return {(row.load, row.policy): row for row in rows}

    def keep(self, row: BoardRow) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"made": self._made(), "row": asdict(row)})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # what is before may be half a line

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)

    def _made(self) -> list[object]:
        return [version(), self.settings.seeds, self.settings.row_s]
