"""Two GPUs where there are none: their power limits can be set and read, and jobs run beside them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "stand_in_nvml"


class Cards:
    """What NVML says of the two, and will have said of them, in this process and others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tell(watts=700)

    def tell(self, watts: int, refuses: str = "") -> None:
        cards = {"GPU-0": watts * 1000, "GPU-1": watts * 1000, "refuses": refuses}
        self.path.write_text(json.dumps(cards))

    def refuse(self, how: str) -> None:
        self.path.write_text(json.dumps({**json.loads(self.path.read_text()), "refuses": how}))

    def used_by(self, **processes: tuple[int, float]) -> None:
        """`GPU_1=(4711, 3.0)`: that process computes there with so many GB."""
        told = {
            name.replace("_", "-"): [[pid, int(gb * 2**30)]]
            for name, (pid, gb) in processes.items()
        }
        cards = {**json.loads(self.path.read_text()), "processes": told}
        temporary = self.path.with_suffix(".part")
        temporary.write_text(json.dumps(cards))
        temporary.replace(self.path)

    @property
    def watts(self) -> list[int]:
        cards = json.loads(self.path.read_text())
        return [cards[f"GPU-{number}"] // 1000 for number in range(2)]


def two_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cards:
    cards = Cards(folder / "cards.json")
    monkeypatch.setenv("STAND_IN_NVML", str(cards.path))
    spec = importlib.util.spec_from_file_location("pynvml", FOLDER / "pynvml.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return cards
