"""The page Now in a real browser."""

from __future__ import annotations

from typing import Any

from browser import Visit
from daemon_process import killable_daemon

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


def test_a_waiting_job_says_why_and_when_it_is_expected_to_start(live: Any, enter: Any) -> None:
    blocking = [live.submit("sleep 600", estimate="20m") for _ in range(4)]
    job_id = live.submit("true", name="patient", estimate="1m")
    visit = enter()
    page = visit.open("/page/")
    button = page.wait_for_selector(f'#queue button[data-job="{job_id}"]')
    visit.until("document.querySelector('#queue button').textContent.startsWith('in ')")
    button.click()
    page.wait_for_selector("#why pre")
    told = live.get(f"/v1/jobs/{job_id}/why")["text"].split("\n")[0]
    assert page.inner_text("#why pre").split("\n")[0] == told
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


def test_ten_thousand_that_wait_scroll_like_ten(
    live: Any, enter: Any, record_property: Any
) -> None:
    """Only rows in sight are there. Frame times are recorded: they depend on the machine."""
    array = live.submit("sleep 600", array="0-9999", name="many")
    visit = enter()
    page = visit.open("/page/")
    visit.until("document.querySelector('#queue').ariaRowCount > 9900")
    found = page.evaluate(_SCROLL)
    times = found["times"]
    record_property("frame_ms", {"median": times[45], "p95": times[85], "most": times[-1]})
    print(f"frames: median {times[45]:.1f} ms, p95 {times[85]:.1f} ms, longest {times[-1]:.1f} ms")
    assert found["most"] < 60
    page.wait_for_selector('#queue a[href$=".9999"]')
    assert visit.wrong == []
    live.ask("POST", "/v1/jobs/cancel", {"ids": [array.partition(".")[0]]})
