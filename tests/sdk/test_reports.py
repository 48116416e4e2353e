"""report(): one line of JSON each, whole whatever happens, and no danger to the training run."""

from __future__ import annotations

import json
import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail import sdk
from dovetail.sdk.reports import report_line


def test_a_report_is_one_line_of_json(desk: Any) -> None:
    desk.run("-c", "from dovetail import sdk; sdk.report(12, loss=0.5, accuracy=1)")
    assert desk.reports.read_text() == '{"step": 12, "loss": 0.5, "accuracy": 1.0}\n'


def test_a_report_needs_no_step(desk: Any) -> None:
    desk.run("-c", "from dovetail import sdk; sdk.report(loss=0.5); sdk.report(step=3)")
    assert desk.lines() == [{"loss": 0.5}, {"step": 3}]


def test_outside_dovetail_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sdk.report(1, loss=0.5)
    assert not sdk.should_stop()
    assert not sdk.resumed()
    sdk.stop_if_asked(lambda: pytest.fail("nobody asked"))
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------ what is told


@given(
    step=st.none()
    | st.integers(-(10**300), 10**300)
    | st.floats(allow_nan=False, allow_infinity=False),
    metrics=st.dictionaries(
        st.text().filter(lambda name: name not in ("step", "dovetail")), st.floats(), min_size=1
    ),
)
def test_any_numbers_under_any_names_arrive_as_they_were(
    step: float | None, metrics: dict[str, float]
) -> None:
    line = report_line(step, metrics)
    assert line.count(b"\n") == 1
    told = json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert told.pop("step", None) == (step if step is None or abs(step) <= 2**53 else float(step))
    assert {name: float(value).hex() for name, value in told.items()} == {
        name: float(value).hex() for name, value in metrics.items()
    }


@pytest.mark.parametrize(
    ("value", "written"), [(math.nan, "NaN"), (math.inf, "inf"), (-math.inf, "-inf")]
)
def test_what_json_has_no_number_for_is_a_text(value: float, written: str) -> None:
    assert json.loads(report_line(1, {"loss": value})) == {"step": 1, "loss": written}
    assert json.loads(report_line(1, {"loss": np.float32(value)})) == {"step": 1, "loss": written}


@pytest.mark.parametrize(
    "half", [np.float64(0.5), np.float16(0.5), np.array(0.5), np.array([0.5]), Fraction(1, 2)]
)
def test_numbers_of_other_libraries_are_numbers(half: object) -> None:
    assert json.loads(report_line(np.int64(7), {"loss": half})) == {"step": 7, "loss": 0.5}


def test_a_step_may_go_backwards_or_be_enormous(desk: Any) -> None:
    desk.run("-c", "from dovetail import sdk; [sdk.report(s) for s in (5, 3, -1, 10**300, 2.5)]")
    assert [line["step"] for line in desk.lines()] == [5, 3, -1, 1e300, 2.5]


@pytest.mark.parametrize(
    ("step", "metrics", "error", "message"),
    [
        (1, {"loss": "0.5"}, TypeError, "metric 'loss' must be a number, not a str"),
        (1, {"loss": np.str_("0.5")}, TypeError, "metric 'loss' must be a number, not a str_"),
        (1, {"loss": None}, TypeError, "metric 'loss' must be a number, not None"),
        (1, {"loss": [0.5]}, TypeError, "metric 'loss' must be a number, not a list"),
        (1, {"loss": 1j}, TypeError, "metric 'loss' must be a number, not a complex"),
        (1, {"loss": np.zeros(2)}, TypeError, "metric 'loss' must be one number, not a ndarray"),
        (1, {"loss": 10**400}, ValueError, "metric 'loss' is too large"),
        (1, {"dovetail": 1}, ValueError, "cannot be named 'dovetail'"),
        ("1", {}, TypeError, "step must be a number, not a str"),
        (math.nan, {}, ValueError, "step must be a finite number, not nan"),
        (10**400, {}, ValueError, "step is too large"),
        (None, {}, TypeError, "needs a step or a metric"),
    ],
)
def test_what_is_not_a_number_is_refused_in_one_clear_line(
    step: Any, metrics: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sdk.report(step, **metrics)


# -------------------------------------------------------------------------- many writers, bad disks


def test_ten_thousand_reports_of_four_processes_arrive_whole(desk: Any) -> None:
    script = """if True:
        import sys
        from dovetail import sdk
        many = {f"a_rather_long_name_{number}": 1 / 3 for number in range(40)}
        for step in range(2500):
            sdk.report(step, rank=int(sys.argv[1]), **many)
    """
    ranks = [desk.start("-c", script, str(rank)) for rank in range(4)]
    assert [rank.communicate(timeout=120) for rank in ranks] == [("", "")] * 4
    told = desk.lines()
    assert len(told) == 10_000
    for rank in range(4):
        assert [line["step"] for line in told if line["rank"] == rank] == list(range(2500))


def test_forked_children_and_threads_share_the_file(desk: Any) -> None:
    script = """if True:
        import os, threading
        from dovetail import sdk
        sdk.report(0, writer=-1)  # the file is open before the fork
        children = [os.fork() for _ in range(2)]
        mine = sum(1 << i for i, child in enumerate(children) if child)
        def tell(thread):
            for step in range(500):
                sdk.report(step, writer=mine * 10 + thread)
        threads = [threading.Thread(target=tell, args=[n]) for n in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        [os.waitpid(child, 0) for child in children if child]
    """
    desk.run("-W", "ignore", "-c", script)
    told = desk.lines()[1:]
    writers = {line["writer"] for line in told}
    assert len(writers) == 8  # four processes with two threads each
    for writer in writers:
        assert [line["step"] for line in told if line["writer"] == writer] == list(range(500))


def test_a_full_disk_is_told_once_and_training_goes_on(desk: Any) -> None:
    script = "from dovetail import sdk; [sdk.report(s, loss=1) for s in range(9)]; print('done')"
    out, err = desk.run("-c", script, DOVETAIL_REPORT="/dev/full")
    assert out == "done\n"
    assert err.count("dovetail: no reports, training goes on") == 1
    assert "No space left on device" in err


def test_a_folder_that_is_gone_is_told_once_and_training_goes_on(desk: Any) -> None:
    script = "from dovetail import sdk; [sdk.report(s, loss=1) for s in range(9)]; print('done')"
    out, err = desk.run("-c", script, DOVETAIL_REPORT=str(desk.folder / "gone" / "reports"))
    assert out == "done\n"
    assert len(err.splitlines()) == 1


def test_nothing_is_said_where_stderr_is_closed_or_full(desk: Any) -> None:
    script = "from dovetail import sdk; [sdk.report(s) for s in range(9)]; print('done')"
    for ending in (
        "sys.stderr.close()",
        "sys.stderr = None",
        "os.dup2(os.open('/dev/full', 1), 2)",
    ):
        words = f"import os, sys; {ending}; {script}"
        assert desk.run("-c", words, DOVETAIL_REPORT="/dev/full")[0] == "done\n"


def test_after_half_a_line_the_next_ones_are_whole_again(desk: Any) -> None:
    script = """if True:
        import resource
        from dovetail import sdk
        resource.setrlimit(resource.RLIMIT_FSIZE, (50, resource.RLIM_INFINITY))
        for step in range(4):
            sdk.report(step, loss=0.25)  # 26 bytes each: the second is cut, others do not fit
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        sdk.report(4, loss=0.25)
        sdk.report(5, loss=0.25)
    """
    err = desk.run("-c", script)[1]
    assert err.count("dovetail: no reports") == 1
    assert desk.reports.read_text().splitlines() == [
        '{"step": 0, "loss": 0.25}',
        '{"step": 1, "loss": 0.25',
        '{"step": 4, "loss": 0.25}',
        '{"step": 5, "loss": 0.25}',
    ]


def test_a_script_that_closes_all_files_reports_again_after_one_loss(desk: Any) -> None:
    script = "from dovetail import sdk; import os; sdk.report(0); os.closerange(3, 99)"
    desk.run("-c", f"{script}; sdk.report(1); sdk.report(2)")
    assert [line["step"] for line in desk.lines()] == [0, 2]


def test_a_report_costs_microseconds(desk: Any) -> None:
    script = """if True:
        from time import process_time
        from dovetail import sdk
        def seconds():
            began = process_time()
            for step in range(2000):
                sdk.report(step, loss=0.123456)
            return (process_time() - began) / 2000
        print(min(seconds() for _ in range(10)))
    """
    assert float(desk.run("-c", script)[0]) < 50e-6  # about 6, measured on a busy machine


def test_the_file_is_for_its_owner_only(desk: Any) -> None:
    desk.run("-c", "from dovetail import sdk; sdk.report(1)")
    assert os.stat(desk.reports).st_mode & 0o077 == 0
