"""What pods print is kept, however they end."""

from __future__ import annotations

from pathlib import Path

from dovetail.worlds.kubernetes.logs import _readable
from kubernetes_daemon import pods_box
from live_box import ME
from real_cluster import RealCluster

TALKING = """
import signal, sys, time
def end(*_):
    print("its last words", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("its first words", flush=True)
while True: time.sleep(0.05)
"""


def test_what_a_cancelled_pod_printed_is_kept_to_its_last_words(
    cluster: RealCluster, tmp_path: Path
) -> None:
    with pods_box(cluster, tmp_path, slots=1, policy="fifo") as here:
        job = here.submit(["python3", "-c", TALKING])
        here.wait_until(job, "running", 300.0)
        here.service.cancel([job], ME)
        here.wait_until(job, "cancelled", 300.0)
        here.wait_for(lambda: here.log(job) == "its first words\nits last words\n")


def test_what_a_kubelet_says_of_a_removed_container_is_not_taken_for_its_log() -> None:
    told = [b"a line\n", b"unable to retrieve container logs for containerd://0a1b"]
    assert list(_readable(iter(told))) == [b"a line\n"]
