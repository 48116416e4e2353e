"""The page of services in a real browser: what it costs, how soon it answers, who is awake."""

from __future__ import annotations

from typing import Any

from service_daemon import ServiceDaemon
from waiting import until


def test_a_service_tells_load_latency_and_cost_and_is_put_to_sleep(live: Any, enter: Any) -> None:
    services = ServiceDaemon(live)
    services.serve("answers", slo_ms=1000)
    services.wait_for("ready")
    visit = enter()
    page = visit.open("/page/services")
    page.wait_for_selector("#services .figures")
    assert "nothing answered yet" in page.inner_text("#services")
    for _ in range(20):
        services.ask("/")
    until(lambda: services.row()["answered"] >= 20)
    visit.until("!document.querySelector('#services').textContent.includes('answered yet')")
    told = page.inner_text("#services .figures")
    assert "of a GPU" in told
    assert "SLO 1 s for 99 %" in told
    assert page.query_selector("#services .bound"), "the SLO is a line in the chart"
    page.focus("#services button")
    page.click("#services button")
    page.wait_for_selector("#services .phase:text('paused')")
    assert page.inner_text("#services button") == "Resume"
    assert visit.focused() == "Resume", "the keyboard stays where it was"
    page.click("#services button")
    page.wait_for_selector("#services .phase:text('serving')")
    services.change("stop")
    assert visit.wrong == []


def test_where_nobody_was_answered_the_curve_of_latency_has_a_gap(enter: Any) -> None:
    page = enter().open("/page/services")
    drawn = page.evaluate(
        """() => {
          const lately = [0.1, 0.2, 0, 0.3].map((own, at) => ({ at, rate: 0, p50_s: own, p99_s: own }));
          history.set("s", lately);
          const found = curves({ id: "s", name: "s", slo_s: null }).querySelectorAll("path.curve");
          return [...found].map((path) => path.getAttribute("d").replace(/[^ML]/g, ""));
        }"""
    )
    assert drawn == ["MLLL", "MLM", "MLM"]
