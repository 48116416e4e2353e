"""A daemon and a way in for each module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Enter, entering
from daemon_process import DaemonProcess
from two_users import open_folder  # noqa: F401


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    found = DaemonProcess(tmp_path_factory.mktemp("home"), slots=4, policy="fifo-skip")
    found.start()
    yield found
    try:
        found.close()
    finally:
        found.kill()


@pytest.fixture
def enter(browser: Any, live: DaemonProcess) -> Iterator[Enter]:
    with entering(browser, live.folder) as enter:
        yield enter


@pytest.fixture(scope="module")
def enter_once(browser: Any, live: DaemonProcess) -> Iterator[Enter]:
    """For visits that go on from test to test."""
    with entering(browser, live.folder) as enter:
        yield enter


@pytest.fixture
def start_shared(open_folder: Path) -> Iterator[DaemonProcess]:  # noqa: F811
    """A daemon for everybody on this machine."""
    found = DaemonProcess(open_folder, slots=2, system=True, group="nogroup", policy="fifo-skip")
    found.start()
    yield found
    try:
        found.close()
    finally:
        found.kill()
