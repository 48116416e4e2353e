"""Daemons in processes of their own, which end with the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon_process import DaemonProcess
from two_users import open_folder  # noqa: F401


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., DaemonProcess]]:
    """Starts daemons that end with the module."""
    started: list[DaemonProcess] = []

    def start(folder: Path, **settings: Any) -> DaemonProcess:
        live = DaemonProcess(folder, **settings)
        live.start()
        started.append(live)
        return live

    yield start
    for live in started:
        try:
            live.close()
        finally:
            live.kill()


@pytest.fixture(scope="module")
def live(
    start: Callable[..., DaemonProcess], tmp_path_factory: pytest.TempPathFactory
) -> DaemonProcess:
    """One that the tests of a module share; each leaves nothing running."""
    return start(tmp_path_factory.mktemp("home"))
