"""Metrics in what a job prints: every line is heard once, whatever happens to job, log and daemon."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dovetail.core.entries import Reported
from dovetail.core.errors import BadInput
from dovetail.jobfiles.job_model import read
from dovetail.worlds.local.keeper.pages import LogPages, bytes_before
from dovetail.worlds.local.watching import output
from dovetail.worlds.local.watching.output import Found, Matcher
from live_box import ME, Box, box

LOSS = r"loss=(?P<loss>\S+)"
EPOCHS = "i={first}; while [ $i -le {last} ]; do echo loss=0.$i; sleep 0.05; i=$((i+1)); done"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with box(tmp_path_factory.mktemp("box"), policy="fifo-skip") as made:
        yield made


@pytest.fixture
def matcher() -> Iterator[Matcher]:
    made = Matcher()
    yield made
    made.stop()


def reports(here: Box, job: str) -> list[tuple[float | None, dict[str, float | str]]]:
    found = [e for e in here.journal() if isinstance(e, Reported) and e.job_id == job]
    return [(entry.step, dict(entry.metrics)) for entry in found]


# ------------------------------------------------------------------------------ under a real daemon


def test_a_pattern_finds_metrics_in_the_output_of_any_script(here: Box) -> None:
    job = here.submit(
        "echo hello; echo epoch 3: loss 0.5, accuracy 0.75; echo epoch 4: loss nan, accuracy 1",
        metric_pattern=r"epoch (?P<step>\d+): loss (?P<loss>\w[\w.]*), accuracy (?P<acc>[\d.]+)",
    )
    here.wait(job)
    assert reports(here, job) == [
        (3, {"loss": 0.5, "acc": 0.75}),
        (4, {"loss": "nan", "acc": 1.0}),
    ]


def test_without_a_group_for_the_step_lines_are_counted(here: Box) -> None:
    job = here.submit(EPOCHS.format(first=1, last=3), metric_pattern=LOSS)
    here.wait(job)
    assert reports(here, job) == [(1, {"loss": 0.1}), (2, {"loss": 0.2}), (3, {"loss": 0.3})]


def test_a_trial_may_print_lines_of_json(here: Box) -> None:
    lines = ['{"step": 5, "loss": 0.5}', '{"loss": 0.25}', '{"level": "info", "took": 3}', "{oops"]
    job = here.submit("; ".join(f"echo '{line}'" for line in lines), group="study")
    here.wait(job)
    assert reports(here, job) == [(5, {"loss": 0.5}), (6, {"loss": 0.25})]


def test_a_job_that_is_no_trial_may_print_json_as_it_likes(here: Box) -> None:
    job = here.submit("""echo '{"step": 5, "loss": 0.5}'""")
    here.wait(job)
    assert reports(here, job) == []


def test_a_trial_that_reports_by_the_sdk_is_heard_there_alone(here: Box) -> None:
    line = """'{"step": 1, "loss": 0.5}'"""
    job = here.submit(f"echo {line} >> $DOVETAIL_REPORT; sleep 0.4; echo {line}", group="study")
    here.wait(job)
    assert reports(here, job) == [(1, {"loss": 0.5})]


def test_the_count_goes_on_when_a_job_goes_on_from_its_checkpoint(here: Box) -> None:
    script = (
        f'if [ "$DOVETAIL_RESUMED" = 1 ]; then {EPOCHS.format(first=3, last=4)}; '
        f"else {EPOCHS.format(first=1, last=2)}; exit 85; fi"
    )
    job = here.submit(script, metric_pattern=LOSS)
    here.wait(job)
    assert [step for step, _ in reports(here, job)] == [1, 2, 3, 4]


def test_the_count_begins_anew_when_a_job_begins_anew(here: Box) -> None:
    script = f"{EPOCHS.format(first=1, last=2)}; test $DOVETAIL_ATTEMPT = 1"
    job = here.submit(script, metric_pattern=LOSS, retries=1)
    here.wait(job)
    assert [step for step, _ in reports(here, job)] == [1, 2, 1, 2]


def test_every_line_is_heard_once_over_restarts_of_the_daemon(tmp_path: Path) -> None:
    first = Box(tmp_path, policy="fifo-skip")
    job = first.submit(EPOCHS.format(first=1, last=30), metric_pattern=LOSS)
    first.wait_for(lambda: len(reports(first, job)) > 3)
    first.leave()
    time.sleep(0.3)
    with box(tmp_path, policy="fifo-skip") as second:
        second.wait(job)
        heard = reports(second, job)
    assert heard == [(i, {"loss": float(f"0.{i}")}) for i in range(1, 31)]


def test_a_hostile_pattern_holds_up_nobody(here: Box) -> None:
    hostile = here.submit("echo " + "a" * 200 + "; sleep 0.3", metric_pattern=r"(?P<x>(a|a)+)b")
    sound = here.submit(EPOCHS.format(first=1, last=3), metric_pattern=LOSS)
    began = time.monotonic()
    here.wait(hostile, sound)
    assert time.monotonic() - began < 60  # alone it would take years
    assert (reports(here, hostile), len(reports(here, sound))) == ([], 3)


def test_a_report_file_of_any_length_keeps_nobody_waiting(here: Box) -> None:
    """It is the user's own, and may be a hole of a terabyte."""
    began = time.monotonic()
    job = here.submit(
        'truncate -s 1T $DOVETAIL_REPORT; printf \'\\n{"step": 7, "loss": 1}\\n\' >> $DOVETAIL_REPORT'
    )
    here.wait(job)
    other = here.submit("true")
    here.wait(other)
    assert time.monotonic() - began < 120
    assert reports(here, job)[-1:] == [(7, {"loss": 1})]


LEASED = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fd = os.open(os.environ["DOVETAIL_REPORT"], os.O_RDWR)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
os.write(fd, b"{}")
print("leased", flush=True)
time.sleep(60)
"""


def test_a_lease_on_the_report_file_keeps_nobody_waiting(here: Box) -> None:
    """Whoever opens it waits for its owner, up to 45 seconds."""
    job = here.submit(f"python3 -c '{LEASED}'")
    here.wait_for(lambda: "leased" in here.log(job))
    time.sleep(0.3)
    began = time.monotonic()
    here.wait(here.submit("true"))
    assert time.monotonic() - began < 40
    here.service.cancel([job], ME)


def test_a_pattern_that_is_slow_on_very_many_lines_keeps_nobody_waiting(here: Box) -> None:
    """Each line takes less than is allowed for one; all together would take an hour."""
    job = here.submit("yes aaaaaaaaaaaaa! | head -200000", metric_pattern="(?P<x>(a+)+)$")
    other = here.submit("true")
    began = time.monotonic()
    here.wait(other)
    here.wait(job)
    assert time.monotonic() - began < 120


def test_a_line_without_end_is_heard_by_its_last_bytes(here: Box) -> None:
    job = here.submit(
        "head -c 1000000 /dev/zero | tr '\\0' x; echo ' loss=0.5'; printf loss=0.25",
        metric_pattern=LOSS,
    )
    here.wait(job)
    assert reports(here, job) == [(1, {"loss": 0.5}), (2, {"loss": 0.25})]


# ------------------------------------------------------------------------------------- the pieces


def as_lines(*texts: str) -> Sequence[tuple[str, int]]:
    return [(text, number) for number, text in enumerate(texts, 1)]


def test_of_a_progress_bar_counts_what_is_seen_in_the_end() -> None:
    data = b" 50% loss=0.9\r100% loss=0.1\r\nnext\n"
    lines, upto = output.whole_lines(data, 100, is_all=False)
    assert lines == [("100% loss=0.1", 129), ("next", 134)]
    assert upto == 134


def test_half_a_line_waits_for_its_end() -> None:
    assert output.whole_lines(b"a\nlos", 0, is_all=False) == ([("a", 2)], 2)
    assert output.whole_lines(b"a\nlos", 0, is_all=True) == ([("a", 2), ("los", 5)], 5)


@pytest.mark.parametrize(
    "line",
    ['{"loss": true}', '{"loss": [1]}', '{"step": 1}', '{"loss": "0.5"}', "[1]", "{}", "{" * 5000],
)
def test_a_line_of_json_is_made_of_numbers(line: str) -> None:
    assert output.from_json(as_lines(line)) == []


def test_a_step_that_cannot_be_counted_from_is_left_out() -> None:
    huge, fine = output.from_json(as_lines('{"step": 1e300, "a": 1}', '{"step": 2.0, "a": "NaN"}'))
    assert (huge.step, fine) == (None, Found(2, {"a": "nan"}, 2))


def test_what_is_no_number_is_no_metric(matcher: Matcher) -> None:
    lines = as_lines("loss=soon", "loss=" + "1" * 60, "loss=1e-3")
    groups = matcher.groups(LOSS, [line for line, _ in lines])
    assert not isinstance(groups, str)
    assert output.from_groups(groups, lines) == [Found(None, {"loss": 0.001}, 3)]


def test_the_matches_of_a_line_count_together(matcher: Matcher) -> None:
    found = matcher.groups(r"loss=(?P<loss>\S+)|acc=(?P<acc>\S+)", ["loss=1 acc=2"])
    assert found == [{"loss": "1", "acc": "2"}]


@pytest.mark.parametrize(
    "pattern", [r"(?P<x>(a+)+)b", r"(?P<x>(a|a)+)b", r"(?P<x>.*.*.*.*.*)b{3}c"]
)
def test_the_matcher_gives_up_what_takes_too_long_and_goes_on(
    matcher: Matcher, pattern: str
) -> None:
    began = time.monotonic()
    assert "more than 0.1 s" in matcher.groups(pattern, ["a" * output.LONGEST_LINE])
    assert matcher.groups(r"(?P<x>\d)", ["7"]) == [{"x": "7"}]
    assert time.monotonic() - began < 60


def test_a_matcher_that_was_killed_is_made_anew(matcher: Matcher) -> None:
    matcher.groups(LOSS, ["loss=1"])
    assert matcher._process is not None
    matcher._process.kill()
    matcher._process.wait()
    assert isinstance(matcher.groups(LOSS, ["loss=1"]), str)
    assert matcher.groups(LOSS, ["loss=1"]) == [{"loss": "1"}]


def test_places_in_the_output_outlive_the_turning_of_pages(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = LogPages(str(path), 200)
    text = b"".join(b"line %d\n" % number for number in range(100))
    upto, heard = 0, b""
    for begin in range(0, len(text), 60):
        log.write(text[begin : begin + 60])
        start, data = output.read(path, upto, 1000)
        while data:
            assert start == upto
            upto, heard = start + len(data), heard + data
            start, data = output.read(path, upto, 1000)
    assert heard == text
    assert bytes_before(str(path)) == 25 + (len(text) - 25) // 87 * 87


def test_what_was_rotated_away_is_skipped(tmp_path: Path) -> None:
    path, text = tmp_path / "log", bytes(range(250)) * 2
    log = LogPages(str(path), 200)  # pages of 25, then of 87 bytes
    log.write(text)
    assert output.read(path, 0, 1000) == (0, text[:25])
    for upto in (25, 100, 459):
        start = max(upto, 25 + 4 * 87)
        assert output.read(path, upto, 1000) == (start, text[start : 25 + 5 * 87])
    assert output.read(path, 460, 1000) == (460, text[460:])
    assert output.end_of(path) == 500


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("loss=(", "is not a regular expression"),
        (r"step (?P<step>\d+)", "names no metric"),
        ("(?P<loss>" + "x" * 2000 + ")", "1,000 is the most"),
    ],
)
def test_a_pattern_of_no_use_is_refused(pattern: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        read({"run": "true", "metric_pattern": pattern})
