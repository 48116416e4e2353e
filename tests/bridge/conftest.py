"""A daemon for the module, and bridges to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge_process import BridgeProcess
from daemon_process import DaemonProcess
from two_users import open_folder  # noqa: F401


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    found = DaemonProcess(tmp_path_factory.mktemp("home"))
    found.start()
    yield found
    try:
        found.close()
    finally:
        found.kill()


@pytest.fixture
def bridge(live: DaemonProcess) -> Iterator[BridgeProcess]:
    with BridgeProcess(live.folder) as found:
        yield found
