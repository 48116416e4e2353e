"""The page Now in a real browser."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from browser import DESK, PHONE, Visit
from daemon_process import killable_daemon
from waiting import LONG_S, until

_SCROLL = """async () => {
  const rows = document.querySelector("#queue"), times = [];
  let last = performance.now(), most = 0;
  for (let i = 0; i < 90; i++) {
    rows.scrollTop += 900;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
    most = Math.max(most, rows.querySelectorAll(".line").length);
  }
  rows.scrollTop = rows.scrollHeight;
  return { times: times.sort((a, b) => a - b), most };
}"""

_ALL_END = """[...document.querySelectorAll("#running .line")]
  .every((row) => row.lastElementChild.textContent.startsWith("in "))"""
_DRAW = (
    """() => { const began = performance.now(); lanes.draw(); return performance.now() - began; }"""
)


def test_a_job_comes_runs_and_ends_on_the_page_without_a_reload(live: Any, enter: Any) -> None:
    visit = enter()
    page = visit.open("/page/")
    job_id = live.submit("sleep 1.5", name="<i>hostile</i>")
    page.wait_for_selector(f'#running a[href="/page/job/{job_id}"]')
    assert "<i>hostile</i>" in page.inner_text("#running")
    page.wait_for_selector(f'#running a[href="/page/job/{job_id}"]', state="detached")
    assert "Waiting" in page.inner_text("#figures")
    assert visit.wrong == []
    assert visit.outside() == []


def test_a_closed_gpu_is_seen_on_its_lane_and_on_the_page_cluster(live: Any, enter: Any) -> None:
    visit = enter()
    page = visit.open("/page/")
    visit.until("now.told !== null")
    live.ask("POST", "/v1/nodes/close", {"gpus": ["2"], "reason": "its fan"})
    try:
        visit.until("lanesPlan().rows[2].closed?.endsWith(': its fan')")
        assert page.evaluate("lanesPlan().rows.map((row) => row.strange)") == [False] * 4
        words = re.compile(r"GPU 2 closed by \S+: its fan")
        assert words.search(page.inner_text("#lanes-note"))
        page = visit.open("/page/")
        visit.until("now.told !== null")
        assert page.evaluate("lanesPlan().rows.map((row) => row.strange)") == [False] * 4
        assert page.evaluate("lanesPlan().rows[2].closed").endswith(": its fan")
        page = visit.open("/page/cluster")
        page.wait_for_selector("#nodes tbody tr")
        assert words.search(page.inner_text("#nodes"))
    finally:
        live.ask("POST", "/v1/nodes/open", {"gpus": ["2"]})
    page = visit.open("/page/")
    visit.until("now.told && now.told.nodes.every((node) => !node.closed.some(Boolean))")
    visit.until("!document.querySelector('#lanes-note').textContent.includes('closed')")
    assert visit.wrong == []


def test_who_runs_is_shown_before_the_past_hour_has_come(live: Any, enter: Any) -> None:
    job_id = live.submit("sleep 600")
    visit, held = enter(), list[Any]()

    def hold(route: Any) -> None:
        held.append(route)

    visit.page.route("**/v1/page/past", hold)
    page = visit.open("/page/")
    page.wait_for_selector(f'#running a[href="/page/job/{job_id}"]')
    assert "GPUs in use" in page.inner_text("#figures")
    for route in held:
        route.continue_()
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})
    assert visit.wrong == []


def test_where_many_look_each_page_asks_less_often(live: Any, enter: Any) -> None:
    visit = enter()
    page = visit.open("/page/")
    others = [live.connection() for _ in range(29)]
    for other in others:
        other.request("GET", "/v1/page/stream")
        other.getresponse()
    live.submit("true")
    visit.until("live.pages === 30")
    page.evaluate(
        "window.times = []; window.often = atMost(100, () => times.push(Date.now())); null"
    )
    page.evaluate("setInterval(often, 10); null")
    visit.until("times.length > 3")
    apart = page.evaluate("times.slice(1).map((at, i) => at - times[i])")
    assert min(apart) >= 290, "three times as long apart as on a page that few look at"
    for other in others:
        other.close()


def test_a_waiting_job_says_why_and_when_it_is_expected_to_start(live: Any, enter: Any) -> None:
    blocking = [live.submit("sleep 600", estimate="20m") for _ in range(4)]
    job_id = live.submit("true", name="patient", estimate="1m")
    visit = enter()
    page = visit.open("/page/")
    button = page.wait_for_selector(f'#queue button[data-job="{job_id}"]')
    visit.until("document.querySelector('#queue button').textContent.startsWith('in ')")
    visit.until(
        "[...document.querySelectorAll('#running .line')].every(row => row.innerText.includes('in '))"
    )
    visit.until(_ALL_END)
    button.click()
    page.wait_for_selector("#why dl")
    told = live.get(f"/v1/jobs/{job_id}/why")["text"].split("\n")[0]
    assert page.inner_text("#why p.told") == told
    assert page.inner_text("#why dt") == "needs"
    assert visit.wrong == []
    live.ask("POST", "/v1/jobs/cancel", {"ids": [*blocking, job_id]})


def test_a_daemon_that_dies_and_returns_is_found_again(
    live: Any, enter: Any, tmp_path: Any
) -> None:
    with killable_daemon(tmp_path / "home", slots=1) as other:
        other.start()
        visit: Visit = enter(other.folder)
        page = visit.open("/page/")
        other.kill()
        page.wait_for_selector("#live[data-state=away]")
        other.start()
        page.wait_for_selector("#live[data-state=live]")
        job_id = other.submit("sleep 600")
        page.wait_for_selector(f'#running a[href="/page/job/{job_id}"]')
        assert page.is_hidden("#failure")
        assert not [own for own in visit.wrong if "error:" in own and "Failed to load" not in own]
        other.close()


def test_64_gpus_and_ten_thousand_that_wait_scroll_like_ten(
    enter: Any, tmp_path: Any, record_property: Any
) -> None:
    """Only rows in sight are there. Frame times are recorded: they depend on the machine."""
    with killable_daemon(tmp_path / "home", slots=64) as many:
        many.start()
        first = many.submit("sleep 600", array="0-63", name="first", estimate="25m")
        array = many.submit("sleep 600", array="0-9999", name="many", estimate="25m")
        until(lambda: many.get("/v1/health")["jobs"]["running"] == 64, 3 * LONG_S)
        visit: Visit = enter(many.folder)
        page = visit.open("/page/")
        visit.until("document.querySelector('#queue').ariaRowCount == 10000")
        visit.until("document.querySelector('#lanes canvas').ariaLabel?.includes('64 GPUs')")
        found = page.evaluate(_SCROLL)
        times = found["times"]
        frames = {"median": times[45], "p95": times[85], "most": times[-1]}
        record_property("frame_ms", frames)
        record_property("lanes_ms", page.evaluate(_DRAW))
        print(f"frames in ms: {frames}")
        assert found["most"] < 60
        page.wait_for_selector('#queue a[href$=".9999"]')
        page.set_viewport_size(PHONE)
        visit.until("document.querySelector('#lanes canvas').clientWidth < 380")
        assert visit.overflow() <= 0
        _picture(page, "now-many")
        assert visit.wrong == []
        many.ask(
            "POST", "/v1/jobs/cancel", {"ids": [own.partition(".")[0] for own in (first, array)]}
        )


def _picture(page: Any, name: str) -> None:
    if folder := os.environ.get("DOVETAIL_PICTURES"):
        page.evaluate("scrollTo(0, 0)")
        page.set_viewport_size(DESK)
        page.screenshot(path=Path(folder) / f"page-{name}.png", full_page=True)
