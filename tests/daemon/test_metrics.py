from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dovetail.core.entries import NodeJoined, Saved, Start, Submitted
from dovetail.core.model import Job, JobId, Node, Placement, Slice
from dovetail.core.state import State
from dovetail.daemon.metrics import Histogram, Tally, _family, _of_jobs, _of_world
from dovetail.worlds.local import machine
from dovetail.worlds.local.folders import Folders
from dovetail.worlds.local.gpus.power import PowerLimits
from dovetail.worlds.local.services.hosting import LocalHosting
from dovetail.worlds.local.world import LocalMachine

_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{({_LABEL}(?:,{_LABEL})*)\}})? (\+Inf|[-+0-9.eE]+)"
)
_SUFFIXES = {
    "gauge": {""},
    "counter": {"_total"},
    "info": {"_info"},
    "histogram": {"_bucket", "_count", "_sum"},
}
Samples = dict[tuple[str, str], float]


def parse(page: str) -> tuple[dict[str, str], Samples]:
    """By the book: families in one piece, each with its type and help, each sample once, and an end."""
    assert page.endswith("# EOF\n")
    kinds: dict[str, str] = {}
    samples: Samples = {}
    family = ""
    for line in page.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert family not in kinds
            kinds[family] = kind
        elif line.startswith("# HELP "):
            assert line.split(" ")[2] == family
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match[1], match[2] or "", float(match[3])
            assert name.startswith(family)
            assert name.removeprefix(family) in _SUFFIXES[kinds[family]], line
            assert (name, labels) not in samples
            samples[name, labels] = value
    return kinds, samples


def check_histogram(samples: Samples, name: str) -> float:
    """Its buckets add up; how many there are in all."""
    buckets = [value for (own, _), value in samples.items() if own == f"{name}_bucket"]
    assert buckets == sorted(buckets)
    assert samples[f"{name}_bucket", 'le="+Inf"'] == samples[f"{name}_count", ""]
    return samples[f"{name}_count", ""]


def test_the_page_of_a_running_daemon_is_by_the_book(live: Any) -> None:
    job_id = live.submit("sleep 60", name='a "name" \\ with signs')
    live.submit("exit 1")
    row = live.wait_for(job_id, "running")
    page = live.text("/metrics")
    kinds, samples = parse(page)
    assert samples["dovetail_jobs", 'phase="running"'] >= 1
    slot = row["placement"][0]["gpus"][0]
    node = live.get("/v1/nodes")["nodes"][0]["id"]
    labels = f'job="{job_id}",name="a \\"name\\" \\\\ with signs",user="{row["user"]}"'
    labels += f',node="{node}",gpu="{slot}",uuid=""'
    assert samples["dovetail_job_gpu_info", labels] == 1
    assert check_histogram(samples, "dovetail_queue_wait_seconds") >= 1
    assert check_histogram(samples, "dovetail_decision_seconds") >= 1
    assert kinds["dovetail_gpu_power_watts"] == "gauge"
    assert kinds["dovetail_preemptions"] == "counter"
    assert ("dovetail_lost_gpu_seconds_total", "") in samples
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})


def test_the_page_says_what_it_is(live: Any) -> None:
    connection = live.connection()
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    answer.read()
    connection.close()


def test_every_gpu_is_told_with_its_uuid_and_power(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State()
    labels = (("gpu0", "GPU-a"), ("gpu1", "GPU-b"))
    for entry in (
        NodeJoined(0.0, Node("n", 2, "H200", labels=labels)),
        Submitted(0.0, Job(JobId("7"), gpus=2, user="ada", name="fit")),
        Start(JobId("7"), Placement((Slice(0, 3),))),
    ):
        state.record(entry)
    monkeypatch.setattr(machine, "power_watts", lambda: {"GPU-a": 612.5, "GPU-elsewhere": 1.0})
    folders = Folders(Path("runs"), Path("env"), Path("socket"), shared=False)
    hosting = LocalHosting(Path("services"))
    world = LocalMachine(state.room.nodes, folders, PowerLimits(Path("power.json")), 0, hosting)
    lines = [*_of_jobs(state, Tally(state)), *_of_world(world.gauges())]
    _, samples = parse("\n".join([*lines, "# EOF", ""]))
    job = 'job="7",name="fit",user="ada",node="n"'
    assert samples["dovetail_job_gpu_info", f'{job},gpu="0",uuid="GPU-a"'] == 1
    assert samples["dovetail_job_gpu_info", f'{job},gpu="1",uuid="GPU-b"'] == 1
    watts = {key: value for key, value in samples.items() if key[0] == "dovetail_gpu_power_watts"}
    assert watts == {("dovetail_gpu_power_watts", 'node="n",gpu="0",uuid="GPU-a"'): 612.5}
    assert samples["dovetail_gpus", 'node="n",kind="H200",state="used"'] == 2


def test_a_wait_is_counted_once_however_often_the_job_starts() -> None:
    state = State()
    tally = Tally(state)
    here = Placement((Slice(0, 1),))
    for entry in (
        NodeJoined(0.0, Node("n", 1)),
        Submitted(0.0, Job(JobId("a"))),
        Start(JobId("a"), here),
    ):
        state.record(entry)
        tally.count(entry, state.now)
    assert list(tally.waits.samples())[-2:] == [("_count", {}, 1), ("_sum", {}, 0.0)]
    track = state.tracks[JobId("a")]
    track.started_at = 5.0  # as after a preemption
    tally.count(Start(JobId("a"), here), 5.0)
    assert ("_count", {}, 1) in list(tally.waits.samples())


def test_preemptions_are_counted_by_rung() -> None:
    tally = Tally(State())
    for rung in ("freeze", "kill", "freeze"):
        tally.count(Saved(1.0, JobId("a"), rung, 0.1, 0, True), 1.0)
    assert tally.preemptions == {"freeze": 2, "kill": 1}


def test_a_histogram_counts_a_value_in_all_buckets_that_hold_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)
    page = "\n".join([*_family("x", "histogram", "X.", histogram.samples()), "# EOF", ""])
    _, samples = parse(page)
    assert [samples["x_bucket", f'le="{le}"'] for le in ("1.0", "2.0", "+Inf")] == [2, 3, 4]
    assert (check_histogram(samples, "x"), samples["x_sum", ""]) == (4, 12.0)
