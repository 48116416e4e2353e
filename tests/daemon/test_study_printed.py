"""Studies of scripts that only print: what they print is understood, or shown with what would help."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.api.study_row import QuietTrials
from dovetail.api.wire import read as read_row
from dovetail.client.study_rows import quiet_text
from dovetail.daemon.studies import rows as study_quiet
from dovetail.daemon.studies.metric_hint import hint, pattern_for
from dovetail.daemon.users.callers import Caller
from dovetail.worlds.local.folders import LogFile
from live_box import ME, Box, box
from study_box import closed, open_study, page, steps_told

PRINTS = "import time\nfor n in range(1, 4):\n    print({line}, **{ends})\n    time.sleep(0.05)\n"


def plainly(script: str) -> list[str]:
    """As users call Python: with what the environment tells it."""
    return [sys.executable, "-S", "-c", script.replace("{", "{{").replace("}", "}}")]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with box(tmp_path_factory.mktemp("box"), policy="fifo-skip", slots=3) as made:
        yield made


FORMS = {
    "equals": ('f"val_loss={1 / n}"', {}),
    "colon": ('f"epoch {n}/3 - loss: 2 - val_loss: {1 / n:.4e} - best_val_loss: 0"', {}),
    "space": ('f"val_loss {1 / n}"', {}),
    "dict": ('{"val_loss": 1 / n, "epoch": float(n), "note": "x"}', {}),
    "bar": ('f"{n}/3 [val_loss={1 / n}]"', {"end": "\r"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_script_that_prints_its_metric_needs_no_pattern(here: Box, form: str) -> None:
    line, ends = FORMS[form]
    script = PRINTS.format(line=line, ends=ends)
    open_study(here, name=form, metric="val_loss", command=plainly(script), trials=2, steps=3)
    found = closed(here, form)
    assert found["reason"] == "all trials are done"
    assert steps_told(found) == [[1, 2, 3]] * 2
    assert found["best"]["value"] == pytest.approx(1 / 3, rel=1e-3)


def test_lines_without_a_step_count_as_many_steps_as_are_due(here: Box) -> None:
    script = PRINTS.format(line='f"val_loss={1 / n}"', ends={})
    fields = {"metric": "val_loss", "steps": 15, "report_every": 5, "trials": 1}
    open_study(here, name="every", command=plainly(script), **fields)
    assert steps_told(closed(here, "every")) == [[5, 10, 15]]


def test_a_script_that_prints_before_it_reports_is_heard_where_it_reports(here: Box) -> None:
    script = (
        "import os, time\nprint('val_loss=9')\ntime.sleep(0.3)\n"
        "open(os.environ['DOVETAIL_REPORT'], 'a').write('{\"step\": 2, \"val_loss\": 1}\\n')\n"
        "time.sleep(0.3)\nprint('val_loss=8')\n"
    )
    open_study(here, name="both", metric="val_loss", command=plainly(script), trials=1, steps=2)
    trial = closed(here, "both")["trials"][0]
    assert [point[:2] for point in trial["points"]] == [[1, 9.0], [2, 1.0]]


def test_what_was_printed_and_not_understood_is_shown_with_a_pattern_for_it(
    here: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_quiet, "LEAST_S", 0.3)
    monkeypatch.setattr(study_quiet, "UNHEARD_S", 0.5)
    script = "import time\nprint('epoch 1 (3 s): validation loss 0.31')\ntime.sleep(30)\n"
    open_study(here, name="odd", metric="val_loss", command=plainly(script), trials=1, steps=3)
    here.wait_for(lambda: (page(here, "odd")["quiet"] or {}).get("printed"))
    quiet = page(here, "odd")["quiet"]
    assert quiet["printed"] == ["epoch 1 (3 s): validation loss 0.31"]
    assert quiet["pattern"] == r"validation\s+loss\s+(?P<val_loss>[-+.\w]+)"
    told = quiet_text(read_row(QuietTrials, quiet), "val_loss", "dovetail")
    assert "it printed: epoch 1 (3 s): validation loss 0.31; to have that understood" in told
    assert f"metric_pattern: '{quiet['pattern']}'" in told
    eve = Caller(12345, "eve", admin=False)
    assert here.daemon.studies.one("odd", eve).quiet is None
    here.daemon.studies.cancel("odd", ME)


def test_a_study_that_fails_unheard_offers_the_pattern(here: Box) -> None:
    script = "print('valid 0.31')"
    open_study(here, name="unheard", metric="val_loss", command=plainly(script), trials=3, steps=1)
    reason = closed(here, "unheard")["reason"]
    assert "the last line of its log: valid 0.31" in reason
    assert r"perhaps metric_pattern: 'valid\s+(?P<val_loss>[-+.\w]+)'" in reason


# ------------------------------------------------------------------------------------- the pieces


@pytest.mark.parametrize(
    "line",
    [
        "Validation loss (mean): 0.31",
        "[12:30:00] epoch 3 | train 0.5 | valid 0.31 | 12.3 s",
        "loss/val => 3.1e-1",
        "[3] validation -> 0.31",
        "epoch 3 - validation loss - 0.31",
        "it's the val's loss: 'nan' 0.31",
    ],
)
def test_an_offered_pattern_finds_a_number_in_the_line_it_was_made_from(line: str) -> None:
    pattern = pattern_for("val_loss", [line])
    match = re.search(pattern, line)
    assert match is not None
    float(match["val_loss"])


def test_no_pattern_is_offered_where_none_could_work(tmp_path: Path) -> None:
    assert pattern_for("val/loss", ["val loss 0.31"]) == ""
    assert pattern_for("val_loss", ["epoch 3", "12", "hello"]) == ""
    assert hint(LogFile(tmp_path / "log"), "val_loss") == ((), "")
    (tmp_path / "log").write_bytes(b"\x00\xff" * 50_000 + b"x" * 100_000)
    assert hint(LogFile(tmp_path / "log"), "val_loss").pattern == ""
