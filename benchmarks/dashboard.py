"""What open pages cost the daemon, and how soon they show what happens. Processor time is of the
daemon alone; times in a browser are of Chromium without a screen, through `dovetail dashboard`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import live
from benchmarks.lines import Line
from dovetail.client.connection import Client
from dovetail.home import home_in

PAGES = 100
_SECONDS = 15.0
_STEADY_S = 3.0
_JOBS, _REPORTS_A_SECOND, _WAITING = 2, 10, 200
_PAINTS, _APPEARANCES = 7, 60
_NOBODY = 65534
# What the page Now asks when it is told of changes, and how often at most.
_ASKED_BY_NOW = ("0.5=/v1/page/line?first=0&most=40", "1=/v1/page/ahead?ids=", "10=/v1/page/cost")
# Chromium notes when a row with that text is in the document and has been painted.
_WATCH = """
(text) => new Promise((done) => {
  const look = () => {
    if (document.body.innerText.includes(text)) {
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => done(Date.now() / 1000), 0));
      return true;
    }
    return false;
  };
  const observer = new MutationObserver(look);
  if (!look()) observer.observe(document.body, { childList: true, subtree: true, characterData: true });
})
"""
_SEEN = """() => new Promise((done) => {
  const timer = setInterval(() => {
    if (window.seenAt) { clearInterval(timer); done(window.seenAt); window.seenAt = null; }
  }, 20);
})"""


def measured() -> Iterator[Line]:
    """A hundred open pages, and one in a browser: cost, memory, first paint, journal to pixel."""
    with _busy_box() as (client, home):
        yield from _costs(client, home)
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        chromium = None
    if chromium is None:
        print("     chromium or playwright is not here: what a browser sees is left out")
        return
    with live.daemon(slots=16) as (client, home), _bridge(home) as link, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(link)
        page.wait_for_url("**/page/")
        yield _first_paint(page)
        yield _journal_to_pixel(page, client)
        browser.close()


@contextmanager
def _busy_box() -> Iterator[tuple[Client, Path]]:
    """Everybody's, where we are root: then half of the pages are another user's. No user has more than
    64 streams."""
    words = ["--policy", "fifo", "--slots", str(_JOBS)]
    if os.geteuid() == 0:
        words += ["--system", "--group", "nogroup"]
    with tempfile.TemporaryDirectory(prefix="dovetail-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        live.dovetail(home, "up", *words)
        try:
            with closing(Client(home_in(home))) as client:
                script = live.REPORTING.format(number=1_000_000, rate=_REPORTS_A_SECOND)
                for _ in range(_JOBS):
                    live.submit(client, 1, command=[sys.executable, "-c", script])
                live.submit(client, _WAITING, command=["sleep", "600"])
                yield client, home
        finally:
            live.dovetail(home, "down", "--cancel")


def _costs(client: Client, home: Path) -> Iterator[Line]:
    users = [0, _NOBODY] if os.geteuid() == 0 else [os.geteuid()]
    number = min(PAGES // len(users), 60)
    pages = number * len(users)
    pid, socket = live.process_of(home), str(client.home.socket)
    time.sleep(_STEADY_S)
    alone, _, _ = _share(pid, socket, users, 0)
    share, mb, told = _share(pid, socket, users, number)
    rate = told / pages / _SECONDS
    what = f"{pages} streams, {_JOBS * _REPORTS_A_SECOND} reports a second"
    yield Line(f"updates a second to each of {pages}", f"{rate:.1f}", "at most 4", 1 < rate <= 4.05)
    yield Line(
        what, f"{share - alone:.1%} of a core, {mb:.0f} MB", "under 5 %, 50 MB",
        share - alone < 0.05 and mb < 50,
    )  # fmt: skip
    share, mb, _ = _share(pid, socket, users, number, _ASKED_BY_NOW)
    yield Line(
        f"{pages} pages Now while the queue moves all the time",
        f"{share - alone:.1%} of a core, {mb:.0f} MB",
        "under 5 %, 50 MB", share - alone < 0.05 and mb < 50,
    )  # fmt: skip


def _share(
    pid: int, socket: str, users: Sequence[int], number: int, paths: Sequence[str] = ()
) -> tuple[float, float, int]:
    """Of a core, the megabytes more, and the updates that came."""
    before_mb = live.resident_mb(pid)
    lasting = str(_SECONDS + 2 * _STEADY_S)
    command = [sys.executable, "-m", "benchmarks.page_visitor", socket, str(number), lasting]
    visitors = [
        subprocess.Popen([*command, str(uid), *paths], stdout=subprocess.PIPE)
        for uid in (users if number else ())
    ]
    time.sleep(_STEADY_S)
    cpu, began = live.cpu_seconds(pid), time.monotonic()
    time.sleep(_SECONDS)
    share = (live.cpu_seconds(pid) - cpu) / (time.monotonic() - began)
    more_mb = live.resident_mb(pid) - before_mb
    answers = [json.loads(own.communicate()[0]) for own in visitors]
    if broken := [told for own in answers for told in own["broken"]]:
        raise SystemExit(f"pages were turned away: {broken[0]}")
    told = sum(own["updates"] for own in answers)
    return share, more_mb, int(told * _SECONDS / float(lasting))


@contextmanager
def _bridge(home: Path) -> Iterator[str]:
    command = [str(Path(sys.executable).parent / "dovetail"), "--home", str(home)]
    process = subprocess.Popen(
        [*command, "dashboard", "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[1]
    finally:
        process.terminate()
        process.communicate()


def _first_paint(page: Any) -> Line:
    """Through the bridge; the files of the page are asked for anew each time."""
    script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 1e9"
    took = []
    for _ in range(_PAINTS):
        page.reload()
        page.wait_for_timeout(600)
        took.append(float(page.evaluate(script)))
    middle = live.at(0.5, took)
    return Line(
        "first paint (median, worst)", f"{middle:.0f}, {max(took):.0f} ms", "under 300 ms",
        middle < 300,
    )  # fmt: skip


def _journal_to_pixel(page: Any, client: Client) -> Line:
    """From the time that the journal has of a submission until its row is painted."""
    page.wait_for_timeout(1000)
    took = []
    for number in range(_APPEARANCES):
        name = f"seen{number:03}"
        page.evaluate(f"({_WATCH.strip()})({name!r}).then((at) => {{ window.seenAt = at; }}); null")
        (job_id,), _ = live.submit(client, 1, name=name, command=["sleep", "1"])
        seen_at = float(page.evaluate(_SEEN))
        took.append(1000 * (seen_at - client.get(f"/v1/jobs/{job_id}")["submitted_at"]))
        page.wait_for_timeout(150 + 7 * (number % 40))
    worst = live.at(0.99, took)
    return Line(
        "from journal to pixel (median, 99 %)", f"{live.at(0.5, took):.0f}, {worst:.0f} ms",
        "under 400 ms", worst < 400,
    )  # fmt: skip
