"""The page of simulated services: its figures are the run's, and a browser draws it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.core.model import Interruption, Job, JobId, Node
from dovetail.models.workload import Arrival
from dovetail.reports.serving_page import verdict, write_serving
from dovetail.serving.simulation import simulate
from html_page import assert_drawn, browsed, embedded_in
from serving_scenes import scene, traffic


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = Job(JobId("train"), 2, interruption=Interruption(1.0, 1.0))
    own = replace(scene(4, 2), nodes=[Node("n", 8)], training=[Arrival(0.0, job, 1e6)])
    runs = [
        simulate(own, name, traffic(own, "bursty:rate=400:seconds=20"))
        for name in ("static", "clockwork")
    ]
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_serving(path, own, runs, "Two <services>")
    assert verdict(runs).startswith("clockwork answers ")
    return path


def test_its_data_are_those_of_the_run(page: Path) -> None:
    text = page.read_text()
    runs = embedded_in(text)["runs"]
    assert [run["policy"] for run in runs] == ["static", "clockwork"]
    for run in runs:
        assert set(run["series"]["awake"][:-1]) == {4.0}
        assert set(run["series"]["training"][:-1]) == {2.0}
        assert run["cdfs"][0]["at"] == sorted(run["cdfs"][0]["at"])
    assert "Two &lt;services&gt;" in text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_every_chart(page: Path) -> None:
    assert_drawn(browsed(page, 4), 4)
