"""The leaderboard on a tiny generated load: a row for everybody, and what is missing is said."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from benchmarks.leaderboard import board, loads, runs, scores
from benchmarks.leaderboard.loads import Load
from benchmarks.leaderboard.rows import BoardRow, KeptRows, Settings

from dovetail.policies import registry

# A row out of time is interrupted wherever it is, even in a callback that may not raise; then again.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
TINY = Load(
    "tiny", "Twelve drawn jobs.", "4x8", lambda _, seed: loads.generated(seed, 12), drawn=True
)
ELSEWHERE = Load("far", "None.", "1x1", lambda _, __: loads.generated(0, 1), ("data/far.csv",))


def test_every_policy_has_a_row_and_an_absent_trace_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for heavy in ("scipy.optimize", "sklearn.ensemble"):  # once here, not in the fork of every row
        import_module(heavy)
    out, kept = tmp_path / "page.md", tmp_path / "rows.jsonl"
    settings = Settings(seeds=2, row_s=0.1)
    lines = list(board.board(settings, tmp_path, out, kept, (TINY, ELSEWHERE), quiet=True))
    assert all(line.holds for line in lines)
    text, printed = out.read_text(), capsys.readouterr().out
    section = text.partition("## tiny")[2]
    assert [name for name in registry.names() if f"\n{name}" not in section] == []
    assert "far is left out: data/far.csv not found" in printed
    assert "Left out, as their files were not there: far." in text
    inside = [line for block in text.split("```")[1::2] for line in block.splitlines()]
    assert max(map(len, inside)) <= 100


def test_a_row_that_runs_out_of_time_says_so() -> None:
    made = [loads.generated(0, 2000)]
    found = runs.row("tiny", made, "gandiva", Settings(seeds=1, row_s=0.01), 1e18, lambda _: None)
    assert found.reason == "out of time: 0 of 1 runs ended in 0 s"


def test_who_refuses_jobs_is_neither_best_nor_on_the_front() -> None:
    figures = {"finished": 2.0, "mean_jct_s": 10.0, "fairness": 0.5, "energy_kwh": 1.0}
    whole = BoardRow("one", "whole", "-", (figures,))
    part = BoardRow("one", "part", "-", ({**figures, "finished": 1.0, "mean_jct_s": 1.0},))
    assert scores.front([whole, part]) == {"whole"}
    assert scores.ratios([whole, part]) == {"whole": 1.0}
    assert scores.overall([1.0, 4.0]) == 2.0
    assert scores.overall([1.0, None]) is None


def test_a_run_that_was_cut_short_goes_on_where_it_was(tmp_path: Path) -> None:
    kept, settings = tmp_path / "rows.jsonl", Settings(seeds=1, policies=("fifo", "srtf"))
    before = BoardRow("tiny", "fifo", "-", ({"finished": 12.0, "mean_jct_s": 1.5},), took_s=1.0)
    KeptRows(kept, settings).keep(before)
    with kept.open("a") as file:
        file.write('{"made": ["cut')
    again = KeptRows(kept, settings)
    assert again.rows() == {("tiny", "fifo"): before}
    rows = runs.all_rows([TINY], settings.policies, settings, tmp_path, again, quiet=True)
    assert rows[0] == before
    assert (rows[1].policy, len(rows[1].runs)) == ("srtf", 1)
    assert KeptRows(kept, Settings(seeds=2)).rows() == {}
