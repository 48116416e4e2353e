"""The study among the examples, as pods on two nodes: suspended and resumed many times, nothing lost."""

from __future__ import annotations

from pathlib import Path

from dovetail.core.entries import Saved
from example_studies import DIGITS, alone, closed, described
from kubernetes_daemon import pods_box
from real_cluster import RealCluster

_TRIALS, _EPOCHS = 12, 12


def test_trials_in_pods_take_turns_and_have_the_curves_that_they_have_alone(
    cluster: RealCluster, tmp_path: Path
) -> None:
    shorter = f"--examples 8000 --epochs {_EPOCHS}"
    study = described(DIGITS, shorter, trials=_TRIALS, steps=_EPOCHS, policy="round-robin")
    study["image"] = cluster.image
    with pods_box(cluster, tmp_path / "box", policy="fifo-skip") as here:
        page = closed(here, study, DIGITS, 300.0)
        journal = here.journal()
    assert (page["done"], page["reason"]) == (_TRIALS, "all trials are done")
    suspended = [entry for entry in journal if isinstance(entry, Saved) and entry.parked]
    assert len(suspended) >= 50
    for trial in page["trials"]:
        curve = [[step, value] for step, value, _ in trial["points"]]
        assert len(curve) == _EPOCHS
        assert curve == alone(study, trial["number"], trial["settings"], tmp_path)
