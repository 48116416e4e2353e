"""Recorded learning curves, read from CSV and parquet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.core.errors import BadInput
from dovetail.tune.recorded import read_curves

Write = Callable[[str], Path]
OWN = "task,config,step,value\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "curves.csv"
        path.write_text(text)
        return path

    return write


def test_own_columns_in_any_order_of_rows(write: Write) -> None:
    path = write(OWN + "a,x,2,0.5\na,x,1,1.0\na,y,1,3\na,y,2,2\nb,x,1,7\n")
    first, second = read_curves(path)
    assert (first.name, first.curves, first.steps) == ("a", ((1.0, 0.5), (3.0, 2.0)), 2)
    assert (second.name, second.curves, second.seconds) == ("b", ((7.0,),), None)


def test_seconds_are_those_of_each_step(write: Write) -> None:
    (task,) = read_curves(write("task,config,step,value,seconds\na,x,1,3,10\na,x,2,2,12\n"))
    assert task.seconds == ((10.0, 12.0),)


def test_the_lcbench_surrogate_is_known_by_its_columns(write: Write) -> None:
    (task,) = read_curves(
        write(
            "openml_task_id,config_id,epoch,time_s,val_accuracy\n"
            "3945,0,1,10,60\n3945,0,2,25,80\n3945,0,3,24,90\n"
        )
    )
    assert task.name == "3945"
    assert task.curves == ((40.0, 20.0, 10.0),)
    assert task.seconds == ((10.0, 15.0, 0.0),)  # its clock ran backwards


def test_taskset_is_known_by_its_columns(write: Write) -> None:
    path = write("task,config_id,step_idx,train_loss,valid_loss\nt,0,0,1,2\nt,0,1,0.5,1.5\n")
    assert read_curves(path)[0].curves == ((2.0, 1.5),)
    assert read_curves(path, metric="train_loss")[0].curves == ((1.0, 0.5),)


@pytest.mark.parametrize(
    ("values", "losses"),
    [
        ((0.25, 0.75), (0.75, 0.25)),  # shares
        ((25, 75), (75.0, 25.0)),  # percentages
        ((-3, 500), (503.0, 0.0)),
    ],
)
def test_what_is_to_be_large_counts_from_the_top(
    write: Write, values: tuple[float, float], losses: tuple[float, float]
) -> None:
    path = write(OWN + f"a,x,1,{values[0]}\na,x,2,{values[1]}\n")
    assert read_curves(path, direction="max")[0].curves == (losses,)


@pytest.mark.parametrize("diverged", ["nan", "inf", "-inf", ""])
def test_a_diverged_value_is_half_as_bad_again_as_the_worst_first_one(
    write: Write, diverged: str
) -> None:
    path = write(OWN + f"a,x,1,2\na,x,2,{diverged}\na,y,1,4\na,y,2,1\n")
    assert read_curves(path)[0].curves == ((2.0, 6.0), (4.0, 1.0))


def test_curves_are_cut_and_tasks_chosen(write: Write) -> None:
    path = write(OWN + "a,x,1,2\na,x,2,1\na,y,1,4\nb,x,1,3\n")
    (task,) = read_curves(path, steps=1, tasks=["a"])
    assert task.curves == ((2.0,), (4.0,))


def test_parquet_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"task": ["a", "a"], "config": [0, 0], "step": [1, 2], "value": [1.5, None]}
    path = tmp_path / "curves.of_any_name"
    parquet.write_table(pyarrow.table(columns), path)
    assert read_curves(path)[0].curves == ((1.5, 2.25),)


def test_parquet_without_pyarrow_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "curves.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(
        BadInput, match=r"needs pyarrow; install it: pip install 'dovetail\[parquet"
    ):
        read_curves(path)


def test_broken_parquet_is_told(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "curves.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(BadInput, match="is no parquet that can be read"):
        read_curves(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no column 'task' and no column 'config'"),
        ("task,config,step\na,x,1\n", "no column 'value'; curves have the columns task, config"),
        (OWN, "there are columns but no rows"),
        (OWN + "a,x,1\n", "line 2 has 3 cells, but there are 4 columns"),
        (OWN + "a,x,one,1\n", "row 1: 'step' is 'one', which is not a number"),
        (OWN + "a,x,,1\n", "row 1: 'step' is empty"),
        (OWN + "a,x,nan,1\n", "row 1: 'step' is 'nan'; give a finite number"),
        (OWN + "a,x,1,much\n", "row 1: 'value' is 'much', which is not a number"),
        (OWN + "a,x,1,1\na,x,1,2\n", "task 'a': configuration x has step 1 twice"),
        (
            OWN + "a,x,1,1\na,x,2,1\na,y,1,1\n",
            "configuration y has 1 steps and others have up to 2",
        ),
        (OWN + "a,x,1,nan\n", "no configuration has a finite first value"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_in_one_line(write: Write, text: str, told: str) -> None:
    with pytest.raises(BadInput) as error:
        read_curves(write(text))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_column_or_a_task_that_is_not_there_is_told(write: Write) -> None:
    path = write(OWN + "a,x,1,2\n")
    with pytest.raises(
        BadInput, match="there is no column 'loss'; it has task, config, step, value"
    ):
        read_curves(path, metric="loss")
    with pytest.raises(BadInput, match="there is no task 'c'; it has a"):
        read_curves(path, tasks=["c"])
