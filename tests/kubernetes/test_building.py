"""The programs of the test cluster are built once, however many ask for them at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from tools.kubernetes import building, needs


def test_who_asks_while_another_builds_waits_and_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOVETAIL_KUBERNETES_CACHE", str(tmp_path))
    waits = Event()
    with ThreadPoolExecutor() as other, needs.locked("build"):
        asked = other.submit(building.build, lambda _: waits.set())
        assert waits.wait(60.0)
        assert not asked.done()
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "complete").touch()
    assert asked.result(60.0) == tmp_path / "bin"
    assert not (tmp_path / "work").exists()
