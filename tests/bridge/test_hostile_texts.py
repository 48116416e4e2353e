"""Texts of users in a real browser: shown as they are, whatever they would be as a page."""

from __future__ import annotations

from typing import Any

from bridge_process import BridgeProcess
from waiting import LONG_S, until

SCRIPT = "<img src=x onerror=pwned=1><script>pwned=1</script>"
_QUOTES = '"><svg/onload=pwned=1>'


def hostile_box(live: Any) -> tuple[str, str]:
    """A job and a study with such texts wherever one fits."""
    report = f"""{{"step": 1, "{SCRIPT}": 0.5, "loss": 1}}"""
    run = f"cat <<'END' >> $DOVETAIL_REPORT\n{report}\nEND\ncat <<'END'\n{SCRIPT}\nEND\nsleep 600"
    spec = {"name": SCRIPT, "run": run}
    own = {"workdir": "/", "environment": {"PATH": "/bin:/usr/bin"}}
    job = live.ask("POST", "/v1/jobs", {"jobs": [{"spec": spec, **own}]})["ids"][0]
    study = {
        "name": f"s {_QUOTES}",
        "run": "echo {x}; sleep 600",
        "space": {"x": {"choice": [SCRIPT, _QUOTES]}},
        "metric": SCRIPT,
        "steps": 2,
        "trials": 2,
    }
    status, told = live.try_to("POST", "/v1/studies", {"spec": study, **own})
    if status >= 300:  # the name is refused
        study["name"] = "plain"
        status, told = live.try_to("POST", "/v1/studies", {"spec": study, **own})
    assert status < 300, told
    until(lambda: live.get(f"/v1/jobs/{job}")["last_report"])
    return job, told["study"]


def test_no_text_of_a_user_becomes_a_script_in_a_page(
    bridge: BridgeProcess, live: Any, browser: Any
) -> None:
    job, study = hostile_box(live)
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(bridge.link)
    page.wait_for_url("**/page/")
    for path in ("/page/", f"/page/job/{job}", f"/page/study/{study}", "/page/studies"):
        page.goto(f"http://127.0.0.1:{bridge.port}{path}")
        if path in ("/page/", f"/page/job/{job}"):
            page.get_by_text(SCRIPT).first.wait_for(state="attached", timeout=1000 * LONG_S)
        page.wait_for_timeout(800)
        assert page.evaluate("typeof pwned") == "undefined", path
        assert page.locator("img[src=x], svg[onload]").count() == 0, path
    log = page.goto(f"http://127.0.0.1:{bridge.port}/v1/jobs/{job}/log")
    assert log.headers["content-type"].startswith("text/plain")
    assert log.headers["x-content-type-options"] == "nosniff"
    assert page.evaluate("typeof pwned") == "undefined"
    page.close()
    assert not [text for text in said if "Content Security Policy" in text]
    live.ask("POST", f"/v1/studies/{study}/cancel")
    live.ask("POST", "/v1/jobs/cancel", {"ids": [job]})
