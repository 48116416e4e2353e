"""The login of a daemon that listens, in a real browser: by a token, and out again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from browser import Visit, faults
from daemon_process import DaemonProcess
from gateway_process import free_port


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DaemonProcess, str]]:
    address = f"127.0.0.1:{free_port()}"
    found = DaemonProcess(tmp_path_factory.mktemp("home"), slots=1, listen=address)
    found.start()
    yield found, f"http://{address}"
    try:
        found.close()
    finally:
        found.kill()


def test_a_token_lets_in_until_one_logs_out(listening: Any, browser: Any) -> None:
    live, address = listening
    token = live.ask("POST", "/v1/tokens", {"name": "laptop"})
    visit = Visit(browser, address)
    page = visit.page
    page.goto(f"{address}/page/cluster")
    page.wait_for_url("**/page/login")
    assert faults(page) == []
    page.fill("#token", "dvt_guessed")
    page.click("button")
    page.wait_for_selector("#failure:visible")
    assert "no token of this daemon" in page.inner_text("#failure")
    page.fill("#token", token["secret"])
    page.click("button")
    page.wait_for_selector("#live[data-state=live]")
    assert page.inner_text("#who") == "root"
    assert token["secret"] not in page.content()
    assert page.evaluate("document.cookie") == "", "no script can read the session"
    page.click("#logout button")
    page.wait_for_url("**/page/login")
    page.goto(f"{address}/page/")
    page.wait_for_url("**/page/login")
    assert visit.outside() == []
    visit.close()


def test_a_page_whose_token_is_revoked_says_that_one_must_log_in(
    listening: Any, browser: Any
) -> None:
    live, address = listening
    token = live.ask("POST", "/v1/tokens", {"name": "lost"})
    visit = Visit(browser, address)
    page = visit.page
    page.goto(f"{address}/page/login")
    page.fill("#token", token["secret"])
    page.click("button")
    page.wait_for_selector("#live[data-state=live]")
    live.ask("POST", "/v1/tokens/revoke", {"ids": [token["id"]]})
    live.submit("true")
    page.wait_for_url("**/page/login")
    visit.close()
