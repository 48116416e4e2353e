"""Other sites' pages in the browser of somebody who is logged in: what they send is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from bridge_process import BridgeProcess
from browser import CHROMIUM
from waiting import until

_JOB = json.dumps({"jobs": [{"spec": {"run": "true", "name": "planted"}, "workdir": "/"}]})
# As a script may send it without asking first, as a form does, and as a script that wants to read.
_EVIL = """<!doctype html><title>evil</title><body><script>
const [, target] = location.search.split("=");
const tries = [
  fetch(`${target}/v1/jobs`, {method: "POST", mode: "no-cors", credentials: "include", body: JOB}),
  fetch(`${target}/v1/jobs`, {method: "POST", credentials: "include", body: JOB,
    headers: {"content-type": "application/json"}}),
  fetch(`${target}/v1/jobs`, {credentials: "include"}).then((answer) => answer.text()),
  new Promise((done, fail) => {
    const source = new EventSource(`${target}/v1/page/stream`, {withCredentials: true});
    source.onmessage = done;
    source.onerror = fail;
  }),
];
Promise.allSettled(tries).then((told) => {
  window.read = told.filter((own) => own.status === "fulfilled" && own.value.type !== "opaque").length;
  const form = document.body.appendChild(document.createElement("form"));
  const action = `${target}/v1/jobs`;
  Object.assign(form, {method: "post", action, enctype: "text/plain", target: "other"});
  const field = form.appendChild(document.createElement("input"));
  Object.assign(field, {name: JOB.slice(0, -1) + ', "x": "', value: '"}'});
  form.submit();
  window.done = true;
});
</script><iframe name="other"></iframe>"""


@pytest.fixture
def evil_site() -> Iterator[int]:
    """Its port, on this machine: for cookies the same site as ours."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = _EVIL.replace("JOB", json.dumps(_JOB)).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("site", ["127.0.0.1", "localhost", "evil.example"])
def test_a_page_of_another_site_or_port_changes_and_reads_nothing(
    site: str, evil_site: int, live: Any, playwright: Any
) -> None:
    """Under a name of its own, and as a server of another program on this machine."""
    everywhere = "--host-resolver-rules=MAP *.example 127.0.0.1"
    browser = playwright.chromium.launch(
        executable_path=CHROMIUM, args=["--no-sandbox", everywhere]
    )
    with BridgeProcess(live.folder) as bridge:
        page = browser.new_page()
        page.goto(bridge.link)
        page.wait_for_selector("#live[data-state=live]")
        ours = f"http://127.0.0.1:{bridge.port}"
        statuses: list[int] = []
        page.on("response", lambda answer: statuses.append(answer.status))
        page.goto(f"http://{site}:{evil_site}/?target={ours}")
        until(lambda: page.evaluate("window.done"))
        until(lambda: page.evaluate("frames.length") and {401, 403} & {*statuses})
        assert page.evaluate("window.read") == 0
        assert page.evaluate("frames[0].length") == 0
        assert live.get("/v1/jobs?name=planted")["jobs"] == []
        assert live.get("/v1/history?name=planted")["jobs"] == []
        page.goto(f"{ours}/page/")
        page.wait_for_selector("#live[data-state=live]")
    browser.close()


def test_a_name_that_is_turned_to_our_address_opens_nothing(live: Any, playwright: Any) -> None:
    """DNS rebinding: the page's own site, by now at our port."""
    rebound = "--host-resolver-rules=MAP *.example 127.0.0.1"
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rebound])
    with BridgeProcess(live.folder) as bridge:
        page = browser.new_page()
        answer = page.goto(f"http://rebound.example:{bridge.port}{bridge.path}")
        assert answer.status == 403
        assert "under the name" in page.inner_text("body")
        page.goto(bridge.link)
        page.wait_for_selector("#live[data-state=live]")
    browser.close()
