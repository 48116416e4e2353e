"""The programs of the test cluster are built once, however many ask for them at a time."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import run
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


@pytest.mark.skipif(needs.trouble() != "", reason="no cluster could start here anyway")
def test_root_without_its_rights_is_told_that_no_cluster_can_start() -> None:
    check = [sys.executable, "-m", "tools.kubernetes", "check"]
    weak = ["setpriv", "--bounding-set", "-sys_admin"]
    done = run([*weak, *check], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "root may not make nodes here (namespaces, mounts, control groups)"
    )
    assert done.stderr.endswith("Or name a cluster of your own in KUBECONFIG.\n")
