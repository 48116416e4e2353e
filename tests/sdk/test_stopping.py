"""should_stop(), checkpoint_dir(), resumed(): the talk between Dovetail and a job that saves itself."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from dovetail import sdk

COOPERATIVE = {"dovetail": {"cooperative": True}}
UNTIL_ASKED = """if True:
    import time
    from dovetail import sdk
    while not sdk.should_stop():
        print('on', flush=True)
        time.sleep(0.01)
    print('saved')
"""


def test_the_stop_file_asks_the_job_to_stop(desk: Any) -> None:
    job = desk.start("-c", UNTIL_ASKED)
    assert job.stdout.readline() == "on\n"
    desk.stop.touch()
    assert job.communicate(timeout=120)[0].endswith("saved\n")


def test_sigterm_asks_the_job_to_stop(desk: Any) -> None:
    job = desk.start("-c", UNTIL_ASKED)
    assert job.stdout.readline() == "on\n"
    job.send_signal(signal.SIGTERM)
    assert job.communicate(timeout=120)[0].endswith("saved\n")
    assert job.returncode == 0


def test_once_asked_a_job_stays_asked(desk: Any) -> None:
    desk.stop.touch()
    script = "from dovetail import sdk; import os; print(sdk.should_stop()); os.remove('stop')"
    assert desk.run("-c", f"{script}; print(sdk.should_stop())")[0] == "True\nTrue\n"


def test_a_script_that_never_asks_ends_by_sigterm_as_ever(desk: Any) -> None:
    script = "from dovetail import sdk; import time; sdk.report(1); print('on', flush=True)"
    script += "; time.sleep(60)"
    job = desk.start("-c", script)
    assert job.stdout.readline() == "on\n"
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=120)
    assert job.returncode == -signal.SIGTERM


def test_a_handler_of_the_script_is_left_alone(desk: Any) -> None:
    script = """if True:
        import os, signal
        from dovetail import sdk
        signal.signal(signal.SIGTERM, lambda *_: print('mine'))
        print(sdk.should_stop())
        os.kill(os.getpid(), signal.SIGTERM)
        print(sdk.should_stop())
    """
    assert desk.run("-c", script)[0] == "False\nmine\nFalse\n"


def test_asking_from_a_thread_works_and_the_main_thread_listens_later(desk: Any) -> None:
    script = """if True:
        import os, signal, threading
        from dovetail import sdk
        thread = threading.Thread(target=lambda: print(sdk.should_stop()))
        thread.start(); thread.join()
        print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, sdk.should_stop())
        os.kill(os.getpid(), signal.SIGTERM)
        print(sdk.should_stop())
    """
    assert desk.run("-c", script)[0] == "False\nTrue False\nTrue\n"


def test_children_can_still_be_terminated(desk: Any) -> None:
    script = """if True:
        import multiprocessing, time
        from dovetail import sdk
        sdk.should_stop()
        child = multiprocessing.get_context('fork').Process(target=time.sleep, args=[60])
        child.start()
        child.terminate()
        child.join(120)
        print(child.exitcode)
    """
    assert desk.run("-c", script)[0] == f"{-signal.SIGTERM}\n"


def test_a_forked_rank_that_asks_listens_itself(desk: Any) -> None:
    script = """if True:
        import os, signal
        from dovetail import sdk
        sdk.should_stop()
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        else:
            sdk.should_stop()
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(7 if sdk.should_stop() else 0)
    """
    assert desk.run("-c", script)[0] == "7\n"


def test_the_file_is_looked_for_at_most_every_ten_milliseconds(desk: Any) -> None:
    script = """if True:
        import os
        from time import perf_counter
        from dovetail import sdk
        looks = []
        real = os.access
        os.access = lambda *words: looks.append(words) or real(*words)
        began = perf_counter()
        for _ in range(20_000):
            sdk.should_stop()
        print(len(looks) <= 2 + (perf_counter() - began) / 0.01)
    """
    assert desk.run("-c", script)[0] == "True\n"


@pytest.mark.parametrize("first", ["should_stop", "checkpoint_dir"])
def test_dovetail_is_told_once_that_the_job_saves_itself(desk: Any, first: str) -> None:
    script = f"from dovetail import sdk; sdk.{first}(); sdk.should_stop(); sdk.checkpoint_dir()"
    desk.run("-c", script)
    assert desk.lines() == [COOPERATIVE]


def test_a_job_that_only_reports_is_not_thought_to_save_itself(desk: Any) -> None:
    desk.run("-c", "from dovetail import sdk; sdk.report(1); sdk.resumed()")
    assert desk.lines() == [{"step": 1}]


def test_stop_if_asked_saves_and_leaves_to_be_started_again(desk: Any) -> None:
    desk.stop.touch()
    script = "from dovetail import sdk; sdk.stop_if_asked(lambda: print('saved')); print('never')"
    assert desk.run("-c", script, code=sdk.EXIT_REQUEUE)[0] == "saved\n"


def test_the_checkpoint_folder_is_made(desk: Any) -> None:
    out = desk.run("-c", "from dovetail import sdk; print(sdk.checkpoint_dir())")[0]
    assert Path(out.strip()) == desk.folder / "checkpoints"
    assert (desk.folder / "checkpoints").is_dir()


def test_outside_dovetail_checkpoints_lie_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sdk.checkpoint_dir() == Path("checkpoints")
    assert (tmp_path / "checkpoints").is_dir()


@pytest.mark.parametrize(("word", "said"), [("1", True), ("0", False), ("", False)])
def test_a_job_knows_that_it_is_resumed(
    word: str, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOVETAIL_RESUMED", word)
    assert sdk.resumed() is said


# ------------------------------------------------------------------------------------------ import


def test_importing_the_sdk_imports_nothing_heavy(desk: Any) -> None:
    script = (
        "import sys; had = set(sys.modules); import dovetail.sdk; print(*set(sys.modules) - had)"
    )
    loaded = set(desk.run("-c", script)[0].split())
    own = {name for name in loaded if name.split(".")[0] == "dovetail"}
    assert loaded - own <= {"math", "__future__"}
    assert own == {"dovetail"} | {
        f"dovetail.{name}"
        for name in (
            "sdk",
            "sdk.checkpoints",
            "sdk.chosen",
            "sdk.reports",
            "sdk.serving",
            "sdk.stopping",
        )
    }


def test_importing_the_sdk_takes_a_few_milliseconds(desk: Any) -> None:
    script = "from time import process_time as t; a = t(); import dovetail.sdk; print(t() - a)"
    assert min(float(desk.run("-c", script)[0]) for _ in range(7)) < 0.020
