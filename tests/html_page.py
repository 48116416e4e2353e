"""A page as a browser takes it: its elements, the addresses they name, the data inside."""

from __future__ import annotations

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


def embedded_in(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


class Elements(HTMLParser):
    """Counts what a browser would take for elements, and keeps the addresses they name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def browsed(path: Path, charts: int = 0) -> str:
    """The page as a browser has drawn it, with that many charts at least."""
    options = (
        "--headless --no-sandbox --disable-gpu --disable-background-networking "
        f"--disable-component-update --disable-sync --no-first-run --dump-dom file://{path}"
    )
    for attempt in range(5):  # on a busy machine the browser may give up before the page is drawn
        profile = f"--user-data-dir={path.parent / f'profile{attempt}'}"
        patience = f"--virtual-time-budget={5000 * (attempt + 1)}"
        shown = subprocess.run(
            ["chromium", profile, patience, *options.split()],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stdout
        if 'data-ready="yes"' in shown and shown.count('<svg class="chart"') >= charts:
            break
    return shown


def assert_drawn(shown: str, charts: int) -> None:
    assert 'data-ready="yes"' in shown
    assert 'id="failure" role="alert" hidden=""' in shown
    assert shown.count('<svg class="chart"') >= charts
