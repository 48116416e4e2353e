"""A test cluster goes with whoever started it, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tools.kubernetes import needs
from tools.kubernetes.cluster import claim, take_down

# A node with a frozen process in it, which even SIGKILL does not end while it is frozen.
_STARTS_A_CLUSTER = """
import os, subprocess, sys, time
from pathlib import Path
from tools.kubernetes import building
from tools.kubernetes.cluster import Cluster, claim
folder = claim()
made = Cluster(folder, building.build(), 1)
made.start()
node = made.nodes[0]
holder = str(node.holder.pid)
subprocess.Popen(["nsenter", "-t", holder, "-p", "-m", "sleep", "1000"])
time.sleep(1)
mount = Path("/sys/fs/cgroup/freezer")
group = (mount if mount.is_dir() else mount.parent) / f"dovetail-test-{folder.name}-node1" / "frozen"
group.mkdir()
(group / "cgroup.procs").write_text(holder)
for file, word in (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")):
    if (group / file).exists():
        (group / file).write_text(word)
print(folder, flush=True)
time.sleep(1000)
"""
_SETTINGS = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")


def _settings() -> list[str]:
    return [Path("/proc/sys", name).read_text() for name in _SETTINGS]


def _traces(folder: Path) -> list[str]:
    """Of a cluster on this machine."""
    found = [str(link) for link in Path("/sys/class/net").glob(f"dvt{folder.name}*")]
    found += [
        str(group) for group in Path("/sys/fs/cgroup").glob(f"**/dovetail-test-{folder.name}-*")
    ]
    found += [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{folder}/" in words:
            found.append(words)
    return found


def test_what_a_killed_test_run_has_left_goes_when_the_next_one_starts(real_machine: None) -> None:
    before = _settings()
    command = [sys.executable, "-c", _STARTS_A_CLUSTER]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        assert folder.parent == needs.cache() / "clusters"
        assert _traces(folder)
        run.send_signal(signal.SIGKILL)
    following = claim()
    try:
        assert _traces(folder) == []
    finally:
        take_down(following)
    assert _settings() == before
    assert not folder.exists()
    assert os.path.exists(needs.cache() / "bin")
