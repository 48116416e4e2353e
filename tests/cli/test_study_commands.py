"""`dovetail tune` and `dovetail study`, typed, with a made-up daemon at the other end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dovetail.api.study_row import StudyPage
from study_daemon import StudyDaemon, serving
from study_samples import a_study, a_trial, in_the_middle
from typed_terminal import Terminal
from waiting import until

FILE = "name: digits\nrun: python train.py\nspace: {lr: {log: [1e-4, 1e-1]}}\nmetric: val_loss\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def at(steps: int, **more: Any) -> StudyPage:
    """Two trials, the first so far."""
    return a_study([a_trial(0, steps, "running"), a_trial(1)], age_s=2.0 * steps, **more)


def closed(reason: str = "all done") -> StudyPage:
    trials = [a_trial(0, 27, "done"), a_trial(1, 27, "done")]
    return a_study(trials, state="closed", reason=reason, age_s=61.0)


def hopeless() -> StudyPage:
    failed = [a_trial(0, 0, "failed", reason="exit code 1")]
    return a_study(failed, state="closed", reason="no trial is left", age_s=3.0)


def test_without_a_terminal_tune_tells_each_new_best_and_the_end(file: Path, home: Path) -> None:
    with serving(StudyDaemon(at(0), at(0), at(1), at(1), at(3), closed()), home) as box:
        said = box("tune", file)
    assert said.code == 0
    assert said.out.splitlines() == [
        "Opened study digits: 2 trials.",
        "        2 s  val_loss 2.041 by trial 0 at step 1 (lr 0.1, units 16, optimizer sgd)",
        "        6 s  val_loss 1.68 by trial 0 at step 3 (lr 0.1, units 16, optimizer sgd)",
        "  1 min 1 s  val_loss 0.1979 by trial 0 at step 27 (lr 0.1, units 16, optimizer sgd)",
        "Study digits closed after 1 min 1 s: all done; 2 of 2 trials done.",
        "Best: val_loss 0.1979 by trial 0 at step 27 (lr 0.1, units 16, optimizer sgd).",
    ]


def test_without_a_terminal_tune_warns_once_of_trials_that_say_nothing(
    file: Path, home: Path
) -> None:
    quiet = {"trials": [0], "job": "1", "seconds": 120.0, "usual_s": None, "told": ["loss"]}
    scenes = (at(0), at(0, quiet=quiet), at(0, quiet=quiet), closed())
    with serving(StudyDaemon(*scenes), home) as box:
        said = box("tune", file)
    assert said.code == 0
    assert said.err.count("\n") == 1
    assert said.err.startswith("Warning: no trial has reported val_loss yet after 2 min; trial 0")


def test_what_is_sent_is_the_file_this_folder_and_this_shell(file: Path, home: Path) -> None:
    daemon = StudyDaemon(at(0))
    with serving(daemon, home) as box:
        said = box("tune", file, "--detach", "--policy", "fifo", cwd=file.parent, SHADE="blue")
    assert said.code == 0
    assert said.out == (
        "Opened study digits: 2 trials. "
        f"To watch it: dovetail --home {home} study show digits --watch\n"
    )
    method, path, body = daemon.asked[0]
    assert (method, path) == ("POST", "/v1/studies")
    assert body["spec"]["policy"] == "fifo"
    assert body["spec"]["space"] == {"lr": {"log": ["1e-4", "1e-1"]}}
    assert body["workdir"] == str(file.parent)
    assert body["environment"]["SHADE"] == "blue"
    assert isinstance(body["umask"], int)


def test_trials_that_are_drawn_later_are_told_too(file: Path, home: Path) -> None:
    with serving(StudyDaemon(at(0, planned=40)), home) as box:
        assert box.well("tune", file, "--detach").startswith("Opened study digits: 40 trials.")


def test_a_study_that_found_nothing_ends_with_1(file: Path, home: Path) -> None:
    with serving(StudyDaemon(at(0), hopeless()), home) as box:
        said = box("tune", file)
    assert said.code == 1
    logs = f"dovetail --home {home} logs 1"
    assert f"No trial reported val_loss; what one printed: {logs}\n" in said.out


def test_a_metric_that_is_never_finite_is_not_said_to_be_missing(file: Path, home: Path) -> None:
    never = replace(hopeless(), trials=[a_trial(0, 1, "done", points=[[1, None, 0.5]])])
    with serving(StudyDaemon(at(0), never), home) as box:
        assert "No trial reported a finite val_loss;" in box("tune", file).out


def test_json_is_the_study_as_it_ended_and_nothing_else(file: Path, home: Path) -> None:
    with serving(StudyDaemon(at(0), at(3), closed()), home) as box:
        said = box("tune", file, "--json")
        assert json.loads(said.out)["best"]["trial"] == 0
        assert said.code == 0
        assert json.loads(box("tune", file, "--json", "--detach").out)["study"] == "3"


def test_a_stopped_study_is_not_waited_for(file: Path, home: Path) -> None:
    with serving(StudyDaemon(at(0), at(1, state="stopped")), home) as box:
        said = box("tune", file)
    assert said.code == 1
    assert said.err == (
        f"Study digits is stopped; it goes on with: dovetail --home {home} study resume digits\n"
    )


def test_ctrl_c_leaves_the_study_alone_and_says_how_to_come_back(file: Path, home: Path) -> None:
    daemon = StudyDaemon(at(1))
    with serving(daemon, home) as box:
        typed = subprocess.Popen(box.command("tune", file), text=True, stdout=-1, stderr=-1)
        until(lambda: len(daemon.asked) > 2)
        typed.send_signal(signal.SIGINT)
        _, err = typed.communicate(timeout=120)
    assert typed.returncode == 1
    assert err == (
        f"Study digits goes on. Come back: dovetail --home {home} study show digits --watch\n"
    )
    assert [path for method, path, _ in daemon.asked if method == "POST"] == ["/v1/studies"]


def test_on_a_terminal_tune_is_a_live_view_that_q_leaves(file: Path, home: Path) -> None:
    with serving(StudyDaemon(in_the_middle()), home) as box:
        terminal = Terminal(box.command("tune", file), lines=40, columns=100)
        terminal.until("q detaches")
        terminal.until("step 27")
        terminal.type("q")
        assert terminal.end("--watch") == 1
        assert terminal.is_sane
        assert b"Study digits goes on." in terminal.seen


def test_the_live_view_ends_with_the_study_and_leaves_the_result(file: Path, home: Path) -> None:
    with serving(StudyDaemon(at(0), at(2), closed()), home) as box:
        terminal = Terminal(box.command("tune", file), lines=40, columns=100)
        assert terminal.end("Best: val_loss 0.1979") == 0
    after = terminal.seen.partition(b"\x1b[?1049l")[2].decode()
    assert "● trial 0: 0.1979" in after
    assert "Study digits closed after 1 min 1 s: all done" in after


def test_ctrl_c_in_the_live_view_does_as_q_does(file: Path, home: Path) -> None:
    with serving(StudyDaemon(at(2)), home) as box:
        terminal = Terminal(box.command("tune", file))
        terminal.until("q detaches")
        os.kill(terminal.pid, signal.SIGINT)
        assert terminal.end("--watch") == 1
        assert terminal.is_sane


def test_show_watch_ends_with_what_was_seen_last(home: Path) -> None:
    with serving(StudyDaemon(at(2), at(2), closed()), home) as box:
        terminal = Terminal(box.command("study", "show", "digits", "--watch"), columns=100)
        assert terminal.end("optimizer adam") == 0
        refused = box("study", "show", "digits", "--watch")
    assert refused.err == (
        "dovetail: --watch needs a terminal; "
        f"for a pipe: dovetail --home {home} study show digits\n"
    )


def test_a_study_nobody_knows_is_one_line(home: Path) -> None:
    with serving(StudyDaemon(at(0)), home) as box:
        for words in (["show"], ["best"], ["stop"], ["resume"], ["cancel"], ["report"]):
            said = box("study", *words, "no such/study")
            assert (said.code, said.out) == (1, "")
            assert said.err.startswith("dovetail: there is no study")
            assert said.err.count("\n") == 1


def test_a_study_without_a_name_is_one_line_and_nothing_is_asked(home: Path) -> None:
    daemon = StudyDaemon(at(0))
    with serving(daemon, home) as box:
        for words in (["show", ""], ["stop", ""], ["extend", "", 1], ["cancel", " "]):
            said = box("study", *words)
            assert (said.code, said.out) == (1, "")
            assert said.err.startswith(f"dovetail: there is no study {words[1]!r}")
            assert said.err.count("\n") == 1
    assert daemon.asked == []


def test_a_file_that_is_no_study_is_one_line(tmp_path: Path, home: Path) -> None:
    (tmp_path / "list.yaml").write_text("- a\n- b\n")
    with serving(StudyDaemon(at(0)), home) as box:
        for name, told in (
            ("list.yaml", "a study is a table of fields"),
            ("none.yaml", "cannot read"),
        ):
            said = box("tune", tmp_path / name)
            assert said.code == 1
            assert told in said.err
            assert said.err.count("\n") == 1


def test_studies_are_listed_also_when_there_is_none(home: Path) -> None:
    with serving(StudyDaemon(), home) as box:
        assert box.well("study", "list").split() == [
            *("ID", "NAME", "USER", "STATE", "POLICY", "DONE", "RUNS"),
            *("BEST", "TARGET", "GPU-H", "FOR", "NOTE"),
        ]
        assert json.loads(box.well("study", "list", "--json")) == []
        terminal = Terminal(box.command("study", "list"))
        assert terminal.end("tune study.yaml") == 0


def test_a_list_that_leaves_some_out_says_how_many_and_how_to_see_them(home: Path) -> None:
    daemon = StudyDaemon(in_the_middle())
    daemon.more = 1234
    with serving(daemon, home) as box:
        said = box("study", "list")
        assert said.err.startswith("… and 1,234 that closed before: ")
        assert said.err.endswith(" study list --all\n")
        assert box("study", "list", "--json").err == ""
        box.well("study", "list", "--limit", "7")
        assert daemon.asked[-1][1] == "/v1/studies?limit=7"


def test_a_list_for_few_columns_has_fewer(home: Path) -> None:
    with serving(StudyDaemon(in_the_middle()), home) as box:
        titles, row = box.well("study", "list", COLUMNS="40").splitlines()
        assert titles.split() == ["ID", "NAME", "STATE", "DONE", "RUNS", "BEST"]
        assert row.split() == ["3", "digits", "open", "1/9", "2", "0.1979"]
        assert "NOTE" in box.well("study", "list", COLUMNS="100")
        assert "NOTE" in box.well("study", "list", COLUMNS="no number")


def test_show_tells_the_most_promising_and_how_many_there_are(home: Path) -> None:
    many = a_study([a_trial(number, number % 27, "paused") for number in range(300)])
    with serving(StudyDaemon(many), home) as box:
        said = box("study", "show", "digits", "--curves", NO_COLOR="1")
        assert said.code == 0
        assert "● trial" in said.out
        assert "\x1b" not in said.out
        assert max(map(len, said.out.splitlines())) <= 100
        more = f"dovetail --home {home} study show digits --all"
        assert said.err == f"… and 280 more: {more}\n"
        assert len(box.well("study", "show", "digits", "--all").splitlines()) > 300
        assert len(json.loads(box.well("study", "show", "digits", "--json"))["trials"]) == 300


def test_best_says_the_settings_or_that_there_are_none_yet(home: Path) -> None:
    with serving(StudyDaemon(in_the_middle()), home) as box:
        assert "  lr         0.1" in box.well("study", "best", "digits").splitlines()
        assert json.loads(box.well("study", "best", "digits", "--json")) == {
            "name": "digits", "metric": "val_loss", "direction": "min", "state": "open", "trial": 0,
            "value": 0.197852, "step": 27,
            "settings": {"lr": 0.1, "units": 16, "optimizer": "sgd"},
        }  # fmt: skip
        assert "  lr         0.1" in box.well("study", "best").splitlines()
    with serving(StudyDaemon(), home.with_name("none")) as box:
        assert box("study", "best").err == "dovetail: there is no study\n"
    with serving(StudyDaemon(at(0)), home.with_name("other")) as box:
        said = box("study", "best", "digits")
        assert (said.code, said.err) == (
            1,
            "dovetail: study digits has no value of val_loss: "
            "0 of 2 trials done, 1 running, 1 not begun\n",
        )


def test_what_is_anothers_is_refused_in_words_that_name_the_owner(
    home: Path, tmp_path: Path
) -> None:
    """The daemon hides the metric's name and every value: see its `sight`."""
    trials = [replace(own, points=[], best=None) for own in in_the_middle().trials]
    hidden = a_study(trials, metric="", best=None)
    with serving(StudyDaemon(hidden), home) as box:
        for typed in (["best", "digits"], ["report", "digits", "-o", tmp_path / "page.html"]):
            said = box("study", *typed)
            told = "study 'digits' is ann's: only ann or an administrator may see its values"
            assert said == (1, "", f"dovetail: {told}\n")
        assert not (tmp_path / "page.html").exists()
        shown = box.well("study", "show", "digits", "--curves")
    assert "best      for its owner and administrators to see" in shown
    assert "The curves are for its owner and administrators to see." in shown
    assert "no value" not in shown


def test_more_trials_are_asked_for_and_told(home: Path) -> None:
    daemon = StudyDaemon(in_the_middle())
    with serving(daemon, home) as box:
        assert box.well("study", "extend", "digits", "4") == (
            "Study digits has 9 trials now: 1 of 9 trials done, 2 running, 3 paused, 1 failed, "
            "2 not begun.\n"
        )
        assert box("study", "extend", "digits", "0").code == 2
    asked = [(path, body) for method, path, body in daemon.asked if method == "POST"]
    assert asked == [("/v1/studies/digits/extend", {"trials": 4})]


def test_stop_and_resume_are_asked_for_and_told(home: Path) -> None:
    daemon = StudyDaemon(in_the_middle())
    with serving(daemon, home) as box:
        assert "it goes on with: dovetail --home" in box.well("study", "stop", "digits")
        assert box.well("study", "resume", "digits") == (
            "Study digits goes on: 1 of 9 trials done, 2 running, 3 paused, 1 failed, 2 not begun; "
            "best so far 0.1979 by trial 0 at step 27.\n"
        )
    asked = [path for method, path, _ in daemon.asked if method == "POST"]
    assert asked == ["/v1/studies/digits/stop", "/v1/studies/digits/resume"]


def test_what_is_to_be_typed_can_be_typed(file: Path, tmp_path: Path) -> None:
    home = tmp_path / "my home"
    with serving(StudyDaemon(at(0, name="größe 数")), home) as box:
        said = box.well("tune", file, "--detach")
    assert said.endswith(f"dovetail --home '{home}' study show 'größe 数' --watch\n")
    assert f"start one: dovetail --home '{home}' up\n" in box("study", "list").err


def test_cancelling_says_what_was_ended(home: Path) -> None:
    daemon = StudyDaemon(in_the_middle())
    with serving(daemon, home) as box:
        assert box.well("study", "cancel", "digits") == (
            "Study digits is cancelled: 7 trials ended, 2 of them running; 1 done; "
            "best 0.1979 by trial 0 at step 27.\n"
        )
    asked = [path for method, path, _ in daemon.asked if method == "POST"]
    assert asked == ["/v1/studies/digits/cancel"]


def test_cancelling_before_anything_was_found(home: Path) -> None:
    with serving(StudyDaemon(a_study([a_trial(0)])), home) as box:
        said = box.well("study", "cancel", "digits")
    assert said == "Study digits is cancelled: 1 trial ended; 0 done; no value.\n"


def test_looking_at_studies_loads_nothing_heavy(home: Path) -> None:
    script = (
        "import sys; from dovetail.cli.main import main; sys.argv[0] = 'dovetail'\n"
        "try: main()\n"
        "finally: print(*({'numpy', 'yaml', 'pydantic', 'dovetail.tune'} & {*sys.modules}), 'END')"
    )
    with serving(StudyDaemon(in_the_middle()), home) as box:
        for words in (["list"], ["show", "digits", "--curves"], ["best", "digits"]):
            typed = [sys.executable, "-c", script, *box.command("study", *words)[3:]]
            done = subprocess.run(typed, check=True, capture_output=True, text=True, timeout=120)
            assert done.stdout.splitlines()[-1] == "END"
