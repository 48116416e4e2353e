"""Every page in a real browser: live, without an error, for everybody, on every screen. The pictures in
docs/images are made here: DOVETAIL_PICTURES=docs/images pytest tests/dashboard/test_all_pages.py"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import DESK, PHONE, Enter, Visit, faults
from daemon_process import DaemonProcess
from service_daemon import ServiceDaemon
from waiting import until

_TRIAL = """python3 -c "
import json, math, os, time
for step in range(1, 9):
    time.sleep(0.05)
    with open(os.environ['DOVETAIL_REPORT'], 'a') as file:
        told = {'step': step, 'loss': math.exp(-{lr} * step) + {width} / 1000}
        file.write(json.dumps(told) + chr(10))
" """
_TRAINING = """for i in $(seq 1 12); do
printf '\\033[32mstep %d\\033[0m loss %s\\n' $i 0.$((90 - 6 * i))
loss=0.$((90 - 6 * i)); accuracy=0.$((40 + 4 * i))
echo "{\\"step\\": $i, \\"loss\\": $loss, \\"accuracy\\": $accuracy}" >> $DOVETAIL_REPORT
sleep 0.05; done; sleep 600"""
SCREENS: dict[str, dict[str, Any]] = {
    "desk": {"viewport": DESK},
    "dark": {"viewport": DESK, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "is_mobile": True, "has_touch": True},
}


@pytest.fixture(scope="module")
def busy(live: DaemonProcess) -> Iterator[DaemonProcess]:
    """A study that is done, jobs that ended, ran, gave way and wait."""
    spec = {"name": "digits", "run": _TRIAL, "metric": "loss", "steps": 8, "trials": 8}
    space = {"lr": {"log": [0.01, 0.5]}, "width": {"choice": [16, 32, 64]}}
    asked = {"spec": {**spec, "space": space}, "workdir": str(live.folder)}
    live.ask("POST", "/v1/studies", {**asked, "environment": {"PATH": os.environ["PATH"]}})
    until(lambda: live.get("/v1/studies/s1")["state"] == "closed")
    training = live.submit(_TRAINING, name="resnet", estimate="25m", model="resnet50")
    live.wait_for(training, "running")
    until(lambda: (live.get(f"/v1/jobs/{training}")["last_report"] or {}).get("step") == 12)
    live.ask("POST", "/v1/jobs/pause", {"ids": [training]})
    live.wait_for(training, "suspended")
    live.ask("POST", "/v1/jobs/resume", {"ids": [training]})
    live.wait_for(training, "running")
    for number, name in enumerate(("bert", "gpt", "vit", "llama", "clip", "unet", "t5", "whisper")):
        gpus, estimate = 1 + number % 2, f"{10 + 7 * number}m"
        live.submit("sleep 600", name=name, estimate=estimate, resources={"gpus": gpus})
    services = ServiceDaemon(live)
    services.serve("answers", slo_ms=1000)
    services.wait_for("ready")
    for _ in range(40):
        services.ask("/")
    live.ask("PUT", "/v1/tenants", {"name": "vision", "gpu_quota": 2})
    live.training = training  # type: ignore[attr-defined]
    yield live
    services.change("stop")  # else it has a replica again as soon as one is cancelled


@pytest.fixture(scope="module")
def visit_on(enter_once: Enter, busy: DaemonProcess) -> Callable[[str], Visit]:
    """One visit on each screen, which goes from page to page."""
    made: dict[str, Visit] = {}

    def visit_on(screen: str) -> Visit:
        if screen not in made:
            made[screen] = enter_once(**SCREENS[screen])
        made[screen].forget()
        return made[screen]

    return visit_on


def _at_now(page: Any, live: Any) -> None:
    page.wait_for_selector("#running .line")
    page.wait_for_selector("#queue .line")
    until(lambda: "in " in page.inner_text("#queue"))


def _at_job(page: Any, live: Any) -> None:
    for place in ("#stint-rows tbody tr", "#metrics figure", "#log .f2", "#do-cancel"):
        page.wait_for_selector(place)


def _at_ask(page: Any, live: Any) -> None:
    page.fill("#by", "+1h")
    page.click("#form button")
    page.wait_for_selector(".option")


def _at_cluster(page: Any, live: Any) -> None:
    page.wait_for_selector("#nodes tbody tr")
    page.fill("#other", "srtf")
    page.click("#switch button")
    page.wait_for_selector("#do-switch")


def _at_study(page: Any, live: Any) -> None:
    for place in ("#curves .curve", "#best .curve", "#gpus .stint", "#trials tbody tr"):
        page.wait_for_selector(place)
    page.wait_for_selector("#compared tbody tr")
    assert page.query_selector("#parallel .strand")


def _at_services(page: Any, live: Any) -> None:
    """With some load to look at."""
    page.wait_for_selector("#services .figures")
    services, curves = ServiceDaemon(live), "#services .curve.one"
    while not page.query_selector(curves) or not live.get("/v1/services")["services"][0]["rate"]:
        for _ in range(10):
            services.ask("/")
        page.wait_for_timeout(300)
    page.wait_for_timeout(3500 if os.environ.get("DOVETAIL_PICTURES") else 0)


def _at_table(place: str) -> Any:
    return lambda page, live: page.wait_for_selector(place)


PAGES: dict[str, tuple[str, Any]] = {
    "now": ("/page/", _at_now),
    "job": ("/page/job/{training}", _at_job),
    "studies": ("/page/studies", _at_table("#studies tbody tr")),
    "study": ("/page/study/s1", _at_study),
    "services": ("/page/services", _at_services),
    "history": ("/page/history", _at_table("#groups tbody tr")),
    "ask": ("/page/ask", _at_ask),
    "cluster": ("/page/cluster", _at_cluster),
}


def test_the_name_of_a_study_or_job_leads_to_its_page_as_its_id_does(
    busy: Any, visit_on: Any
) -> None:
    visit = visit_on("desk")
    for start, row, end in (
        ("/page/studies", "#studies tbody tr td a", "**/page/study/*"),
        ("/page/", "#running .line span:nth-child(2) a", "**/page/job/*"),
        ("/page/", "#queue .line span:nth-child(3) a", "**/page/job/*"),
        ("/page/history", "#jobs tbody tr td a", "**/page/job/*"),
    ):
        visit.open(start).click(row)
        visit.page.wait_for_url(end)


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_fits_the_screen_and_can_be_read_by_all(
    name: str, screen: str, busy: Any, visit_on: Any
) -> None:
    visit = visit_on(screen)
    path, ready = PAGES[name]
    page = visit.open(path.format(training=busy.training))
    ready(page, busy)
    assert page.is_hidden("#failure")
    assert visit.overflow() <= 0
    assert faults(page) == []
    assert visit.wrong == [], "no error, no violation of the content security policy"
    assert visit.outside() == []
    _picture(page, name, screen)


def _picture(page: Any, name: str, screen: str) -> None:
    folder = os.environ.get("DOVETAIL_PICTURES")
    wanted = screen == "desk" or (name == "now" and screen in ("dark", "phone"))
    if folder and wanted:
        page.evaluate("scrollTo(0, 0)")
        ending = "" if screen == "desk" else f"-{screen}"
        page.screenshot(path=Path(folder) / f"page-{name}{ending}.png")


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/page/job/999999", "There is no job 999999"),
        ("/page/nothing", "There is no such page"),
        ("/page/job/1/log", "There is no such page"),
    ],
)
def test_what_does_not_exist_is_said_once_and_the_way_back_stands_above(
    path: str, title: str, visit_on: Any
) -> None:
    page = visit_on("desk").open(path)
    until(lambda: page.inner_text("h1") == title)
    assert page.is_visible("nav a")
    assert page.is_hidden("#failure")


def test_all_scripts_of_a_page_are_small(busy: Any, enter: Any) -> None:
    visit = enter()
    sizes: dict[str, int] = {}
    visit.page.on(
        "response",
        lambda answer: (
            sizes.update({answer.url: len(answer.body())}) if ".js" in answer.url else None
        ),
    )
    for path, _ in PAGES.values():
        visit.open(path.format(training=busy.training))
    assert 10_000 < sum(sizes.values()) < 150_000, sizes


def test_failed_jobs_are_found_in_the_history(busy: Any, visit_on: Any) -> None:
    job_id = busy.submit("exit 3", name="unlucky", priority=9.0, resources={"gpus": 0})
    busy.wait_for(job_id, "failed")
    visit = visit_on("desk")
    page = visit.open("/page/history")
    page.select_option("#phase", "failed")
    visit.until("document.querySelectorAll('#jobs tbody tr').length === 1")
    told = page.inner_text("#jobs tbody tr")
    assert told.startswith(job_id)
    assert "failed, exit code 3" in told
    assert "phase=failed" in page.get_attribute("#csv", "href")
    assert visit.wrong == []


def test_last_week_is_replayed_under_other_policies(visit_on: Any) -> None:
    visit = visit_on("desk")
    page = visit.open("/page/history")
    page.fill("#policies", "fifo, srtf")
    page.click("#replay button")
    link = page.wait_for_selector("#replay-state a")
    page.goto(visit.address + link.get_attribute("href"))
    page.wait_for_selector("html[data-ready=yes]")
    assert "srtf" in page.inner_text(".summary")
    told = page.inner_text("body")
    assert "GPUs · 0 jobs" not in told
    assert "No job ran" not in told
    assert visit.wrong == []


def test_the_switch_of_the_policy_first_tells_what_it_would_change(
    busy: Any, visit_on: Any
) -> None:
    visit = visit_on("desk")
    page = visit.open("/page/cluster")
    _at_cluster(page, busy)
    assert busy.get("/v1/policy")["policy"] == "fifo-skip", "it was only tried out"
    assert "would end sooner" in page.inner_text("#preview")
    page.click("#do-switch")
    until(lambda: busy.get("/v1/policy")["policy"] == "srtf")
    busy.ask("PUT", "/v1/policy", {"policy": "fifo-skip"})
    assert visit.wrong == []


def test_a_study_grows_on_its_page_and_can_be_stopped(busy: Any, visit_on: Any) -> None:
    report = """echo '{"step": 1, "loss": 0.5}' >> $DOVETAIL_REPORT; sleep 600 # {x}"""
    spec = {"name": "slow", "run": report, "metric": "loss", "steps": 3, "trials": 2}
    asked = {"spec": {**spec, "space": {"x": {"choice": [1, 2]}}}, "workdir": "/"}
    study = busy.ask("POST", "/v1/studies", {**asked, "environment": {"PATH": "/bin:/usr/bin"}})
    visit = visit_on("desk")
    page = visit.open(f"/page/study/{study['study']}")
    page.wait_for_selector("#trials tbody tr")
    page.fill("#more", "1")
    assert page.inner_text("#extend-command") == f"dovetail study extend {study['study']} 1"
    page.click("#do-extend")
    until(lambda: busy.get("/v1/studies/slow")["planned"] == 3)
    page.click("#do-stop")
    page.wait_for_selector("#do-resume")
    assert page.inner_text("#state") == "stopped"
    page.click("#do-cancel")
    page.click("#do-cancel")
    until(lambda: busy.get("/v1/studies/slow")["state"] == "closed")
    assert visit.wrong == []
