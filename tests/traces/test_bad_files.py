"""Everything a file can do wrong ends in one clear line."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail import traces
from dovetail.core.errors import BadInput

HEADER = "job_id,submit_s,duration_s,gpus\n"


def complaint(path: Path | str) -> str:
    with pytest.raises(BadInput) as caught:
        traces.read(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def saved(folder: Path, content: str | bytes, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_bad_row_names_file_line_column_and_value(tmp_path: Path) -> None:
    path = saved(tmp_path, HEADER + "1,0,10,1\n2,0,10,x\n")
    assert complaint(path) == f"{path}:3: job '2': column 'gpus': 'x' is not a whole number"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("2,-1,10,1", "column 'submit_s': '-1' is negative"),
        ("2,0,-10,1", "column 'duration_s': '-10' is negative"),
        ("2,0,nan,1", "column 'duration_s': 'nan' is not a finite number"),
        ("2,inf,1,1", "column 'submit_s': 'inf' is not a finite number"),
        ("2,0,1e999,1", "column 'duration_s': '1e999' is not a finite number"),
        ("2,0,1k,1", "column 'duration_s': '1k' is not a number"),
        ("2,,1,1", "column 'submit_s': is empty"),
        (" ,0,x,1", "column 'duration_s': 'x' is not a number"),
        ("2,0,1,-1", "column 'gpus': '-1' is negative"),
        ("2,0,1,1.5", "column 'gpus': '1.5' is not a whole number"),
        ("2,0,1,nan", "column 'gpus': 'nan' is not a whole number"),
        ("2,0,1,99999999999", "column 'gpus': '99999999999' is more than"),
        ("2,0,1,0", "job '2' asks for 0 GPUs"),
        ("1,0,1,1", "job id '1' was used by an earlier row"),
        ("2,0,1", "the row has 3 cells, the header 4"),
        ("2,0,1,1,7", "the row has 5 cells, the header 4"),
        ('2,0,1,"1', "unexpected end of data"),
        ("2,0,1," + "9" * 5000, "is more than|is not a whole number"),
        ("2,0,1," + "x" * 200_000, "field larger than field limit"),
    ],
)
def test_a_row_that_cannot_be_is_refused_or_skipped(tmp_path: Path, row: str, why: str) -> None:
    path = saved(tmp_path, HEADER + "1,0,10,1\n" + row + "\n")
    message = complaint(path)
    assert message.startswith(f"{path}:3: ")
    assert any(part in message for part in why.split("|"))
    assert len(message) < 300
    kept = traces.read(path, skip_bad_rows=True)
    assert len(kept.arrivals) == 1
    assert kept.bad_rows == (message,)


def test_whole_numbers_with_a_point_are_counts_too(tmp_path: Path) -> None:
    assert traces.read(saved(tmp_path, HEADER + "1,0,1,8.0\n")).arrivals[0].job.gpus == 8


def test_the_rows_after_a_skipped_one_are_read(tmp_path: Path) -> None:
    path = saved(tmp_path, HEADER + '1,0,1,1\nx\n2,0,1,"1"z\n3,0,1,1\n')
    trace = traces.read(path, skip_bad_rows=True)
    assert [arrival.job.id for arrival in trace.arrivals] == ["1", "3"]
    assert len(trace.bad_rows) == 2


def test_a_file_of_bad_rows_only_is_refused_even_when_they_may_be_skipped(tmp_path: Path) -> None:
    path = saved(tmp_path, HEADER + "1,0,x,1\n2,0,y,1\n")
    with pytest.raises(
        BadInput, match=r"no good row: 2 are bad, the first is .*:2: job '1': column"
    ):
        traces.read(path, skip_bad_rows=True)


def test_one_bad_row_is_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no good row: 1 is bad, the first is"):
        traces.read(saved(tmp_path, HEADER + "1,0,x,1\n"), skip_bad_rows=True)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("submit_s,gpus", "there is no column 'duration_s' (found: submit_s, gpus)"),
        ("Runtime,gpus", "there is no column 'submit_s' (found: Runtime, gpus)"),
        ("when,what", "there is no column 'submit_s' and none 'duration_s' (found: when, what)"),
    ],
)
def test_a_missing_column_is_named_with_those_found(tmp_path: Path, header: str, why: str) -> None:
    path = saved(tmp_path, f"{header}\n1,2\n")
    assert f"{path}: {why}; " in complaint(path)
    with pytest.raises(BadInput) as caught:
        traces.read(path, "dovetail")
    assert f"{path}: {why}; " in str(caught.value)


def test_an_unknown_header_names_the_columns_seen_and_the_formats_known(tmp_path: Path) -> None:
    message = complaint(saved(tmp_path, "when,what\n1,2\n"))
    for part in ("jobs.csv", "when, what", "philly", "--format", "job_id,submit_s,duration_s,gpus"):
        assert part in message


def test_a_column_that_appears_twice_is_refused(tmp_path: Path) -> None:
    assert "'gpus' appears twice" in complaint(saved(tmp_path, "submit_s,duration_s,gpus,GPUs\n"))


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing\n", "\ufeff"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, content: str) -> None:
    assert "is empty" in complaint(saved(tmp_path, content))


def test_a_header_alone_is_no_trace(tmp_path: Path) -> None:
    assert "has no jobs below its header" in complaint(saved(tmp_path, HEADER))


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path: Path) -> None:
    assert "no such file" in complaint(tmp_path / "nothing.csv")
    assert "is a directory" in complaint(tmp_path)
    assert "null" in complaint("a\0b")


def test_a_truncated_gzip_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress((HEADER + "".join(f"{i},0,1,1\n" for i in range(5000))).encode())
    assert "end too early" in complaint(saved(tmp_path, whole[: len(whole) // 2], "jobs.csv.gz"))


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress((HEADER + "1,0,1,1\n" * 500).encode()))
    whole[15:30] = b"\xff" * 15
    assert "cannot read" in complaint(saved(tmp_path, bytes(whole), "jobs.csv.gz"))


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    assert "not UTF-8" in complaint(saved(tmp_path, b"submit_s,duration_s\n\xff\xfe,1\n"))


def test_a_file_without_lines_does_not_fill_the_memory(tmp_path: Path) -> None:
    assert "not a table" in complaint(saved(tmp_path, b"\0" * 2_000_000))


@settings(deadline=None)
@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: HEADER.encode() + text.encode())
)
def test_any_bytes_are_read_or_refused_in_one_line(content: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(content)
        file.flush()
        said = "fine"
        try:
            assert traces.read(file.name, skip_bad_rows=True).arrivals
        except BadInput as error:
            said = str(error)
    assert len(said.splitlines()) == 1
