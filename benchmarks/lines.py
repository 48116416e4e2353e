"""One line of a benchmark's answer: what was measured, and whether it is as promised."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Line:
    what: str
    measured: str
    wanted: str
    holds: bool

    def __str__(self) -> str:
        return (
            f"{'ok  ' if self.holds else 'MISS'} {self.what:<52} {self.measured:>22}  {self.wanted}"
        )
