"""What is written reads back equal, in files with no more columns than needed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import traces
from dovetail.core.errors import BadInput
from dovetail.core.model import Estimate, Interruption, Job, JobId
from dovetail.models.workload import Arrival

SECONDS = st.floats(0, 1e12) | st.integers(0, 10**9).map(float)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(str.strip)
KIND = st.text("abcXYZ019-_. ", min_size=1, max_size=5).map(str.strip).filter(bool)
GPUS = st.integers(1, 64)


@st.composite
def jobs(draw: st.DrawFn, number: int, at: float) -> Job:
    share = draw(st.sampled_from([1000, 1000, 460, 1]))
    gpus = draw(GPUS) if share == 1000 else 1
    prefix = draw(st.sampled_from(["", "job ", "Ω,\"'"]))
    return Job(
        JobId(f"{prefix}{number}"),
        gpus,
        share,
        tuple(draw(st.lists(KIND, max_size=3))),
        draw(SECONDS),
        draw(SECONDS),
        user=draw(TEXT),
        tenant=draw(TEXT),
        name=draw(TEXT),
        group=draw(TEXT),
        model=draw(TEXT),
        priority=draw(st.floats(-1e6, 1e6)),
        weight=draw(SECONDS.filter(bool)),
        deadline=draw(st.none() | st.floats(at, 1e12)),
        min_gpus=draw(st.none() | st.integers(1, gpus)),
        max_gpus=draw(st.none() | st.integers(gpus, 99)),
        interruption=Interruption(draw(SECONDS), draw(SECONDS), draw(SECONDS)),
        estimate=draw(
            st.none() | st.builds(Estimate, SECONDS, st.none() | SECONDS, st.none() | SECONDS)
        ),
        retries=draw(st.integers(0, 9)),
    )


@st.composite
def arrivals(draw: st.DrawFn) -> list[Arrival]:
    count = draw(st.integers(1, 5))
    times = [draw(SECONDS) for _ in range(count)]
    made = [
        Arrival(
            at,
            draw(jobs(number, at)),
            draw(SECONDS),
            tuple(draw(st.lists(SECONDS, max_size=3))),
            draw(st.none() | SECONDS),
        )
        for number, at in enumerate(times)
    ]
    return sorted(made, key=lambda arrival: arrival.at)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".csv.gz", ".jsonl.gz"])
@settings(deadline=None, max_examples=50)
@given(wanted=arrivals())
def test_what_is_written_reads_back_equal(suffix: str, wanted: list[Arrival]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"jobs{suffix}"
        traces.write(path, wanted)
        found = traces.read(path, format="dovetail").arrivals
    assert sorted(found, key=lambda a: a.job.id) == sorted(wanted, key=lambda a: a.job.id)
    assert [a.at for a in found] == [a.at for a in wanted]


def test_only_columns_that_say_something_are_written(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    traces.write(path, [Arrival(0.5, Job(JobId("a"), 2, user="ann"), 60.0)])
    assert path.read_text() == "job_id,submit_s,duration_s,gpus,user\na,0.5,60,2,ann\n"


def test_equal_traces_make_equal_gzip_files(tmp_path: Path) -> None:
    made = traces.generate(traces.Recipe(jobs=50))
    for name in ("one.csv.gz", "two.csv.gz"):
        traces.write(tmp_path / name, made)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


@pytest.mark.parametrize("name", ["jobs.parquet", "jobs", "jobs.gz"])
def test_an_unknown_suffix_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"end the name in .csv or .jsonl"):
        traces.write(tmp_path / name, [])
    assert not (tmp_path / name).exists()


def test_a_folder_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        traces.write(tmp_path / "no" / "jobs.csv", [])


def test_a_kind_that_would_read_back_as_two_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot be written as 'A\|B'"):
        traces.write(tmp_path / "jobs.csv", [Arrival(0, Job(JobId("a"), kinds=("A|B",)), 1)])


def test_text_that_is_no_unicode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no proper text"):
        traces.write(tmp_path / "jobs.csv", [Arrival(0, Job(JobId("a"), user="\ud800"), 1)])
