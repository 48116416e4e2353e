"""How the tests are run: quickly, side by side, and with the same generated input every time."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from browser import CHROMIUM

# Tests start thousands of interpreters; each would compile again whatever it imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Tests run side by side: threads of one calculation would only wait, spinning, for each other's cores.
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "stable",
    derandomize=True,
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("long", parent=settings.get_profile("stable"), max_examples=1000)
settings.load_profile("stable")

# A file is run by one worker. The longest begin first, so that all workers end at about the same time.
LONGEST = (
    "contracts/test_policies.py",
    "dashboard/test_all_pages.py",
    "daemon/test_services.py",
    "daemon/test_sleeping_services.py",
    "daemon/test_fuzz.py",
    "daemon/test_services_of_users.py",
    "policies/test_frugal_families.py",
    "daemon/test_exhaustion.py",
    "daemon/test_studies_restart.py",
    "daemon/test_damage.py",
    "dashboard/test_now_page.py",
    "cli/test_up.py",
    "test_study_examples.py",
    "policies/test_andreas.py",
    "test_reference_results.py",
    "contracts/test_live_as_simulated.py",
    "analysis/test_analyze.py",
    "cli/test_jobs.py",
    "dashboard/test_job_page.py",
    "test_service_storm.py",
    "cli/test_shell.py",
    "test_how_to_add.py",
    "insight/test_odd_traces.py",
    "store/test_store.py",
    "cli/test_install.py",
    "daemon/test_api.py",
    "cli/test_commands.py",
    "gateway/test_gateway.py",
    "cli/test_again.py",
    "daemon/test_rights.py",
    "daemon/test_access.py",
    "worlds/local/test_no_lost_step.py",
    "worlds/local/test_images.py",
    "sdk/test_pytorch.py",
    "tune/test_rules_default_families.py",
    "tune/test_rules_default_share.py",
    "test_leaderboard.py",
    "daemon/test_limits.py",
    "insight/test_executors.py",
    "daemon/test_kills.py",
)
HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # xdist would begin with the files of the most tests


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: many tests wait, for processes or for time to pass."""
    cores = len(os.sched_getaffinity(0))
    return cores + (cores + 1) // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {HERE / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


@pytest.fixture(scope="module")
def playwright() -> Iterator[Any]:
    """One for the tests of a file: there cannot be two in a process, and its event loop runs in the main
    thread, where tests of other files have loops of their own."""
    found = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    with found.sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="module")
def browser(playwright: Any) -> Iterator[Any]:
    found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    yield found
    found.close()
