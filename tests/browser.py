"""A real browser before a real daemon: Debian's Chromium, driven by Playwright, by way of the bridge."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge_process import BridgeProcess
from waiting import until

CHROMIUM = shutil.which("chromium") or ""
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 860}
_AXE, _AXE_SHA256 = "4.14.0", "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
_PROXY = """
import os, socket, sys, threading
path, uid, ready = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
def pump(source, target):
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
    except OSError:
        pass
    for own in (source, target):
        try:
            own.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
def serve(client):
    daemon = socket.socket(socket.AF_UNIX)
    try:
        daemon.connect(path)
    except OSError:
        client.close()
        return
    threading.Thread(target=pump, args=(client, daemon), daemon=True).start()
    pump(daemon, client)
listener = socket.create_server(("127.0.0.1", 0))
os.write(ready, str(listener.getsockname()[1]).encode())
os.close(ready)
while True:
    client, _ = listener.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
"""


@contextmanager
def as_user(path: Path, uid: int) -> Iterator[str]:
    """The address at which a browser finds the daemon as another user of the machine."""
    reading, ready = os.pipe()
    words = [sys.executable, "-I", "-S", "-c", _PROXY, str(path), str(uid), str(ready)]
    process = subprocess.Popen(words, pass_fds=[ready])
    os.close(ready)
    try:
        yield f"http://127.0.0.1:{int(os.read(reading, 20))}"
    finally:
        os.close(reading)
        process.kill()
        process.wait()


class Visit:
    """A page, and all that it did wrong: what it wrote to the console, and whom it asked."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.address = address
        self.context = browser.new_context(**{"viewport": DESK, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text}")

    def open(self, path: str) -> Any:
        self.page.goto(self.address + path)
        self.page.wait_for_selector("#live[data-state=live]")
        return self.page

    def until(self, script: str) -> None:
        """It becomes true. Playwright's own way would need `eval`, which the page forbids."""
        until(lambda: self.page.evaluate(script))

    def outside(self) -> list[str]:
        """What it asked of others than the daemon."""
        own = (f"{self.address}/", "data:", "blob:")
        return [url for url in self.asked if not url.startswith(own)]

    def overflow(self) -> int:
        """Pixels by which the page is wider than the screen."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def forget(self) -> None:
        """What it has done wrong so far."""
        self.wrong.clear()
        self.asked.clear()

    def focused(self) -> str:
        """The text of what the keyboard speaks to."""
        return str(self.page.evaluate("document.activeElement.innerText"))

    def close(self) -> None:
        self.context.close()


Enter = Callable[..., Visit]


@contextmanager
def entering(browser: Any, folder: Path) -> Iterator[Enter]:
    """By the one-time link of `dovetail dashboard`, as a user does."""
    with ExitStack() as made:

        def enter(home: Path | None = None, **options: Any) -> Visit:
            bridge = made.enter_context(BridgeProcess(home or folder))
            visit = made.enter_context(
                closing(Visit(browser, bridge.link.partition("/open/")[0], **options))
            )
            visit.page.goto(bridge.link)
            visit.page.wait_for_url("**/page/")
            visit.page.wait_for_load_state()
            return visit

        yield enter


def axe() -> str:
    """The checker of accessibility, from npm once; skipped where there is none."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dovetail"
    file = kept / f"axe-{_AXE}.min.js"
    if not file.exists():
        _fetch_axe(file)
    text = file.read_bytes()
    assert hashlib.sha256(text).hexdigest() == _AXE_SHA256, f"{file} is not what it should be"
    return text.decode()


def _fetch_axe(file: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core comes from npm, which is not there")
    file.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [npm, "pack", f"axe-core@{_AXE}", "--silent"],
        cwd=file.parent,
        capture_output=True,
        check=False,
    )
    packed = file.parent / f"axe-core-{_AXE}.tgz"
    if done.returncode or not packed.exists():
        pytest.skip("axe-core cannot be fetched from npm")
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/axe.min.js")
        assert member is not None
        file.write_bytes(member.read())
    packed.unlink()


def faults(page: Any) -> list[str]:
    """What axe-core finds that is serious or critical."""
    page.evaluate(axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{own['id']}: {own['nodes'][0]['html'][:160]} {own['nodes'][0].get('failureSummary', '')[:200]}"
        for own in found["violations"]
        if own["impact"] in ("serious", "critical")
    ]
