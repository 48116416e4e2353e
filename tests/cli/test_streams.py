"""`dovetail run` in a pipeline: input goes in, output and errors come out apart."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from dovetail.api.job_row import StdinTaken
from dovetail.daemon.stdin import take
from dovetail.worlds.local.folders import StdinRing
from dovetail.worlds.local.keeper import feed
from dovetail.worlds.local.keeper.feed import Feed
from typed_box import Box
from waiting import until


def piped(box: Box, given: bytes, *words: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        box.command("run", *words), input=given, capture_output=True, timeout=120, check=False
    )


def test_what_is_piped_in_reaches_the_job_and_its_answer_comes_back(box: Box) -> None:
    done = piped(box, b"hi\n", "--", "cat")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hi\n", b"")
    assert piped(box, b"", "--", "wc", "-c").stdout.split() == [b"0"]


def test_any_bytes_in_any_number_go_through_unharmed(box: Box) -> None:
    given = os.urandom(1 << 20) * 9
    done = piped(box, given, "--", "sha256sum")
    assert done.stdout.split()[0].decode() == hashlib.sha256(given).hexdigest()
    done = piped(box, given, "--", "cat")
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(given).digest()


def test_input_is_passed_on_as_it_comes(box: Box) -> None:
    command = box.command("run", "--", "sh", "-c", "while read x; do echo got $x; done")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word in (b"one", b"two"):
            process.stdin.write(word + b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b"got " + word + b"\n"
        process.stdin.close()
        assert process.wait(120) == 0


def test_a_job_that_reads_nothing_ends_whatever_is_still_sent(box: Box) -> None:
    command = f"yes | {' '.join(box.command('run', '--', 'head', '-n1'))}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, b"y\n")
    reading, _ = os.pipe()  # nobody ever writes to it, nor closes it
    done = subprocess.run(box.command("run", "--", "true"), stdin=reading, timeout=120, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("closed", ["<&-", "</dev/null", "< /dev/null -n"])
def test_without_an_input_there_is_an_empty_one(box: Box, closed: str) -> None:
    given, _, option = closed.partition(" -")
    words = box.command("run", *([f"-{option}"] if option else []), "--", "cat")
    command = f"{' '.join(words)} {given}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_output_and_errors_stay_apart_and_logs_shows_both(box: Box) -> None:
    done = piped(
        box, b"", "--name", "apart", "--", "sh", "-c", "echo out; echo err >&2; kill -15 $$"
    )
    assert (done.returncode, done.stdout) == (143, b"out\n")
    assert done.stderr.startswith(b"err\ndovetail: job ")
    job = box.json("history", "--name", "apart")[0]["id"]
    assert sorted(box.well("logs", job).splitlines()) == ["err", "out"]
    assert box.well("logs", "--stdout", job) == "out\n"
    assert box.well("logs", "--stderr", "-n", 1, job) == "err\n"
    other = box.submit("--", "true")
    assert "dovetail run keeps them apart" in box("logs", "--stderr", other).err


def test_where_both_go_to_one_place_they_keep_their_order(box: Box) -> None:
    script = "for i in 1 2 3; do echo out $i; echo err $i >&2; done"
    done = subprocess.run(
        box.command("run", "--", "sh", "-c", script),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    lines = [f"{name} {i}" for i in (1, 2, 3) for name in ("out", "err")]
    assert done.stdout.decode().splitlines() == lines


def test_a_job_that_starts_over_reads_its_input_from_the_beginning(
    box: Box, tmp_path: Path
) -> None:
    script = f"cat; test -e {tmp_path}/again || {{ touch {tmp_path}/again; exit 1; }}"
    done = piped(box, b"hi\n", "--retries", 1, "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, b"hi\nhi\n")


def test_a_job_that_waits_takes_its_input_when_it_starts(box: Box) -> None:
    first = box.sh("sleep 1", "--gpus", 2)
    box.in_phase(first, "running")
    assert piped(box, b"late\n", "--", "cat").stdout == b"late\n"


def test_nothing_is_left_of_an_input_when_its_job_has_ended(box: Box) -> None:
    piped(box, b"secret", "--", "cat")
    until(lambda: not list((box.home / "env").glob("*.stdin*")))


# ------------------------------------------------------------------------------------- the ring


def fed(path: Path, reader: Feed, most: int = 1 << 20) -> bytes:
    reader.pump()
    os.set_blocking(reader.reading, False)
    try:
        return os.read(reader.reading, most)
    except BlockingIOError:
        return b""


def test_a_ring_takes_what_it_has_room_for_and_gives_it_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "STDIN_BYTES", 10)
    path = tmp_path / "stdin"
    sent = bytes(range(100))
    taken, came = take(StdinRing(path), 0, sent, True).taken, b""
    assert taken == 10
    reader = Feed(str(path))
    while taken < 100 or len(came) < 100:
        came += fed(path, reader)
        taken = take(
            StdinRing(path), taken - min(taken, 3), sent[taken - min(taken, 3) :], True
        ).taken
    assert came == sent
    assert (fed(path, reader), reader.pump()) == (b"", None)  # its end
    assert take(StdinRing(path), 100, b"more", False) == StdinTaken(taken=100, open=False)
    assert Feed(str(path)).is_gone()


def test_of_a_job_that_waits_less_is_taken(tmp_path: Path) -> None:
    path, full = tmp_path / "stdin", StdinTaken(taken=4 << 20, open=True)
    assert take(StdinRing(path), 0, bytes(5 << 20), True, has_started=False) == full
    assert take(StdinRing(path), 4 << 20, bytes(1 << 20), True, has_started=False) == full
    all_taken = StdinTaken(taken=5 << 20, open=True)
    assert take(StdinRing(path), 4 << 20, bytes(1 << 20), True) == all_taken
    assert feed.what_is_put(str(path)) == (5 << 20, 5 << 20, True)


def test_a_reader_that_has_gone_wants_no_more(tmp_path: Path) -> None:
    path = tmp_path / "stdin"
    reader = Feed(str(path))
    os.close(reader.reading)
    take(StdinRing(path), 0, b"abc", False)
    reader.pump()
    assert reader.pump() is None
    assert take(StdinRing(path), 3, b"def", False) == StdinTaken(taken=3, open=False)


def test_an_input_whose_sender_is_long_gone_ends(tmp_path: Path) -> None:
    path = tmp_path / "stdin"
    take(StdinRing(path), 0, b"abc", False)
    reader = Feed(str(path))
    assert (fed(path, reader), reader.pump() is None) == (b"abc", False)
    os.utime(tmp_path / "stdin.put", (0, 0))
    reader.pump()
    assert reader.pump() is None
