"""One way to say a duration, in Python and on the pages."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from dovetail.reports.frame import asset
from dovetail.text.durations import duration_text, in_one_unit, in_unit, latency_text, unit_of
from dovetail.text.money import money_text
from dovetail.text.times import clock
from html_page import browsed

TOLD = {
    0: "0 s",
    0.0004: "0 s",
    0.001: "0.001 s",
    0.26: "0.26 s",
    3.21: "3.2 s",
    5: "5 s",
    9.96: "10 s",
    42.4: "42 s",
    59.4: "59 s",
    59.6: "1 min",
    90: "1 min 30 s",
    90.5: "1 min 31 s",
    180: "3 min",
    599.4: "9 min 59 s",
    599.6: "10 min",
    630: "11 min",
    754: "13 min",
    3569: "59 min",
    3571: "1 h",
    4800: "1 h 20 min",
    40_000: "11 h 7 min",
    86_369: "23 h 59 min",
    86_399: "1 d",
    100_000: "1 d 4 h",
    8.6e6: "99 d 13 h",
    9e6: "104 d",
    2e8: "2,315 d",
}


@pytest.mark.parametrize(("seconds", "told"), TOLD.items())
def test_a_duration_is_told_as_people_say_it(seconds: float, told: str) -> None:
    assert duration_text(seconds) == told


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_pages_say_durations_as_the_command_line_does(tmp_path: Path) -> None:
    assert _ran(tmp_path, f"{json.dumps(list(TOLD))}.map(duration)") == list(TOLD.values())


def test_a_latency_is_told_without_powers_of_ten() -> None:
    times = (0.0004, 0.0123, 0.9, 1.0, 2.0, 12.34, 2000.0)
    told = ["0.4 ms", "12.3 ms", "900 ms", "1 s", "2 s", "12 s", "33 min"]
    assert list(map(latency_text, times)) == told


def test_a_negative_duration_is_a_clock_that_is_a_little_off() -> None:
    assert duration_text(-0.01) == "0 s"


def test_no_text_is_off_by_a_twentieth() -> None:
    sizes = {"d": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0}
    seconds = 0.02
    while seconds < 8e9:
        words = duration_text(seconds).replace(",", "").split()
        told = sum(float(n) * sizes[unit] for n, unit in zip(words[::2], words[1::2], strict=True))
        assert abs(told - seconds) <= 0.05 * seconds, (seconds, words)
        seconds *= 1.003


def test_times_of_one_column_are_told_in_one_unit() -> None:
    assert in_one_unit([90.0, 600.0, 7200.0]) == ["1.5 min", "10.0 min", "120.0 min"]
    assert in_one_unit([0.3, 90.0, 1e15]) == ["0.3 s", "90.0 s", "1.2e+10 d"]
    assert in_one_unit([]) == []
    assert in_unit(90.0, unit_of(10_000.0)) == "0.0 h"


def test_a_clock_time_says_as_much_of_the_date_as_is_needed_in_one_style() -> None:
    now = 1_780_000_000.0
    assert re.fullmatch(r"\d\d:\d\d", clock(now, now))
    assert re.fullmatch(r"\d\d:\d\d:\d\d", clock(now, now, seconds=True))
    for days in (-20, -2, 2, 20):
        assert re.fullmatch(r"\d{1,2} [A-Z][a-z]{2} \d\d:\d\d", clock(now + days * 86400.0, now))
    for days in (-800, 800):
        told = clock(now + days * 86400.0, now)
        assert re.fullmatch(r"\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d", told)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_pages_write_dates_as_the_command_line_does(tmp_path: Path) -> None:
    now = 1_780_000_000.0
    times = [now + days * 86400.0 for days in (0, -1, 1, 30, -30, 250, -800)]
    told = [[clock(at, now), clock(at, now, seconds=True)] for at in times]
    assert (
        _ran(
            tmp_path,
            f"{json.dumps(times)}.map((at) => [false, true].map((own) => clockText(at, own, {now})))",
        )
        == told
    )


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_pages_write_latencies_and_money_as_the_command_line_does(tmp_path: Path) -> None:
    times, amounts = (
        [0.0004, 0.0123, 0.1, 1.0, 1.254, 12.34, 2000.0],
        [0, 0.00024, 0.126, 1.5, 12345.678],
    )
    assert _ran(tmp_path, f"{json.dumps(times)}.map(latency)") == list(map(latency_text, times))
    told = [money_text(amount, "€") for amount in amounts]
    assert _ran(tmp_path, f"{json.dumps(amounts)}.map((own) => moneyText(own, '€'))") == told


def _ran(folder: Path, script: str) -> object:
    """What the script makes of our times and counts, in a browser."""
    page = folder / "page.html"
    page.write_text(
        f"<body><pre></pre><script>{asset('units.js')}"
        f"const told = {script};"
        'document.querySelector("pre").textContent = JSON.stringify(told);'
        'document.body.dataset.ready = "yes";</script></body>'
    )
    found = re.search(r"<pre>(.*)</pre>", browsed(page))
    assert found
    return json.loads(found[1])
