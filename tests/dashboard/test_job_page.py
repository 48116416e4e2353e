"""The page of a job in a real browser: its log, its curves, what may be done."""

from __future__ import annotations

from typing import Any

from browser import Visit, as_user
from two_users import NOBODY, as_root
from waiting import until

_TRAINING = r"""for i in 1 2 3 4 5; do
printf '\033[31mstep %d\033[0m <img src=x onerror=alert(1)>\n' $i
echo "{\"step\": $i, \"<b>loss\": 0.$i}" >> $DOVETAIL_REPORT
sleep 0.1
done; sleep 600"""


def test_the_log_follows_in_colour_and_nothing_in_it_is_markup(live: Any, enter: Any) -> None:
    job_id = live.submit(_TRAINING, name="<script>alert(1)</script>")
    visit = enter()
    page = visit.open(f"/page/job/{job_id}")
    page.wait_for_selector("#log .f1")
    visit.until("document.querySelector('#log').textContent.includes('step 5')")
    assert "<img src=x onerror=alert(1)>" in page.inner_text("#log")
    page.wait_for_selector("#metrics figure")
    assert "<b>loss" in page.inner_text("#metrics")
    assert page.query_selector_all("#log img, #metrics b, h1 script") == []
    assert visit.wrong == []
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})


_OVERWRITTEN = r"""() => {
  const began = performance.now();
  overwritten("\rx\n" + "a".repeat(2e6) + "\r".repeat(1e5) + "\n");
  return [performance.now() - began, overwritten("10 %\r20 %\r30 %\r\r\ndone\rover\r")];
}"""


def test_what_was_written_over_is_not_seen_and_a_long_line_holds_nobody_up(
    live: Any, enter: Any
) -> None:
    job_id = live.submit("true")
    took_ms, seen = enter().open(f"/page/job/{job_id}").evaluate(_OVERWRITTEN)
    assert seen == "30 %\nover\r"
    assert took_ms < 1000


def test_a_text_is_found_in_the_middle_of_a_long_log(live: Any, enter: Any) -> None:
    job_id = live.submit("seq 1 300000; echo the needle; seq 1 300000")
    live.wait_for(job_id)
    visit = enter()
    page = visit.open(f"/page/job/{job_id}")
    visit.until("document.querySelector('#log').textContent.includes('300000')")
    page.fill("#wanted", "NEEDLE")
    page.click("#search button")
    page.click("#hits button")
    page.wait_for_selector("#log mark")
    assert page.inner_text("#log mark").strip() == "the needle"
    kept = page.evaluate("document.querySelector('#log').textContent.length")
    assert kept < 1_000_000
    assert visit.wrong == []


def test_a_log_of_a_hundred_megabytes_is_begun_searched_and_ended_without_being_read_whole(
    live: Any, enter: Any
) -> None:
    """Its middle is not kept (64 MB of every log are); what is gone is said where it is missed."""
    line = "the quick brown fox jumps over the lazy dog and back again, all day long\n"
    job_id = live.submit(
        f"echo first; yes '{line.strip()}' | head -c 100000000; echo; echo needle; echo last"
    )
    live.wait_for(job_id)
    visit = enter()
    page = visit.open(f"/page/job/{job_id}")
    visit.until("document.querySelector('#log').textContent.trimEnd().endsWith('last')")
    assert "100 MB; shown" in page.inner_text("#log-note")
    page.click("#to-begin")
    visit.until("document.querySelector('#log').textContent.startsWith('first')")
    page.fill("#wanted", "needle")
    page.click("#search button")
    page.click("#hits button")
    visit.until("document.querySelector('#log mark')?.textContent.trim() === 'needle'")
    shown = [int(own["length"]) for own in page.evaluate(_READ)]
    assert sum(shown) < 2_000_000, "bytes that the page has asked for"
    assert visit.wrong == []


def test_a_metric_that_is_no_number_is_shown_as_such(live: Any, enter: Any) -> None:
    job_id = live.submit(
        """for i in 1 2 3; do echo "{\\"step\\": $i, \\"loss\\": NaN, \\"acc\\": 0.$i}" >> """
        "$DOVETAIL_REPORT; done; sleep 600"
    )
    visit = enter()
    page = visit.open(f"/page/job/{job_id}")
    page.wait_for_selector("#metrics figure:has-text('loss')")
    visit.until("document.querySelector('#metrics').textContent.includes('3 values not a finite')")
    assert len(page.query_selector_all("#metrics svg")) == 1, "acc has a curve, loss has none"
    assert visit.wrong == []
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})


def test_buttons_do_what_they_say_and_tell_the_command(live: Any, enter: Any) -> None:
    job_id = live.submit("sleep 600", name="obedient")
    live.wait_for(job_id, "running")
    visit = enter()
    page = visit.open(f"/page/job/{job_id}")
    assert page.inner_text("#pause-command") == f"dovetail pause {job_id}"
    page.click("#do-pause")
    until(lambda: live.get(f"/v1/jobs/{job_id}")["phase"] == "suspended")
    page.click("#do-resume")
    live.wait_for(job_id, "running")
    page.fill("#prio-field", "7")
    page.click("#do-prio")
    until(lambda: live.get(f"/v1/jobs/{job_id}")["priority"] == 7)
    page.click("#do-requeue")
    until(lambda: live.get(f"/v1/page/jobs/{job_id}/story")["stints"][1:])
    live.wait_for(job_id, "running")
    page.click("#do-cancel")
    assert live.phase(job_id) in ("starting", "running"), "it is asked once more first"
    page.click("#do-cancel")
    live.wait_for(job_id, "cancelled")
    assert page.inner_text("#again-command") == f"dovetail again {job_id}"
    page.fill("#again-field", "2")
    assert page.inner_text("#again-command") == f"dovetail again {job_id} --gpus 2"
    page.click("#do-again")
    page.wait_for_selector("#done a")
    again = page.get_attribute("#done a", "href").rpartition("/")[2]
    told = live.get(f"/v1/jobs/{again}")
    assert (told["name"], told["gpus"]) == ("obedient", 2)
    assert len(page.query_selector_all("#stint-rows tbody tr")) >= 2
    assert visit.wrong == []
    live.ask("POST", "/v1/jobs/cancel", {"ids": [again]})


_READ = """() => performance.getEntriesByType("resource").filter((own) => own.name.includes("/log?"))
  .map((own) => ({ length: own.encodedBodySize }))"""
_LISTEN = """window.Notification = class extends Notification {
  constructor(title, options) { super(title, options); window.said = title; } }; null"""


def test_who_asks_to_be_told_is_told_when_the_job_ends(live: Any, enter: Any) -> None:
    job_id = live.submit("sleep 600", name="long")
    visit = enter(permissions=["notifications"])
    page = visit.open(f"/page/job/{job_id}")
    page.evaluate(_LISTEN)
    assert page.inner_text("#notify-command") == f"dovetail notify {job_id} desktop"
    assert "as long as this page is open; also when it is closed: " in page.inner_text("#deeds")
    page.click("#do-notify")
    page.wait_for_selector("#done:text('This page will tell you')")
    page.wait_for_selector("#do-notify", state="detached")
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job_id]})
    visit.until(f"window.said === 'Job {job_id} was cancelled'")
    assert visit.wrong == []


@as_root
def test_another_user_sees_that_it_runs_and_neither_log_nor_buttons(
    browser: Any, start_shared: Any
) -> None:
    live = start_shared
    job_id = live.submit("echo x7secret; sleep 600", name="ours")
    live.wait_for(job_id, "running")
    with as_user(live.socket, NOBODY) as address:
        visit = Visit(browser, address)
        page = visit.open(f"/page/job/{job_id}")
        page.wait_for_selector("#stint-rows tbody tr")
        assert page.inner_text("#title") == f"Job {job_id}: ours"
        assert page.is_hidden("#s-do")
        assert page.is_hidden("#s-log")
        assert "x7secret" not in page.content()
        answer = page.evaluate(
            f"fetch('/v1/jobs/pause', {{method: 'POST', headers: {{'content-type': "
            f"'application/json'}}, body: '{{\"ids\":[\"{job_id}\"]}}'}}).then(a => a.status)"
        )
        assert answer == 403
        page.goto(f"{address}/page/cluster")
        page.wait_for_selector("#nodes tbody tr")
        assert page.is_hidden("#switch")
        visit.close()
