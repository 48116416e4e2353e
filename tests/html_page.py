"""A page as a browser takes it: its elements, the addresses they name, the data inside."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from html import unescape
from html.parser import HTMLParser
from itertools import combinations
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
            timeout=120,
            check=False,
        ).stdout
        if 'data-ready="yes"' in shown and shown.count('<svg class="chart"') >= charts:
            break
    return shown


def assert_drawn(shown: str, charts: int) -> None:
    assert 'data-ready="yes"' in shown
    assert 'id="failure" role="alert" hidden=""' in shown
    assert shown.count('<svg class="chart"') >= charts


_MEASURE = """<!doctype html><iframe id="page" src="{page}" width="{width}" height="4000"></iframe>
<pre id="told"></pre><script>
const told = document.querySelector("#told");
const textsOf = (chart) => [...chart.querySelectorAll("text")].filter((text) => text.textContent);
function look() {{
  const page = document.querySelector("#page").contentDocument;
  const charts = [...page.querySelectorAll("svg.chart")];
  if (page.documentElement.dataset.ready !== "yes" || charts.length < {charts})
    return setTimeout(look, 50);
  const labels = charts.map((chart) => textsOf(chart).map((text) => {{
    const box = text.getBoundingClientRect();
    return [text.textContent, box.left, box.right, box.top, box.bottom];
  }}));
  told.textContent = JSON.stringify({{ wide: page.documentElement.scrollWidth, labels }});
}}
look();
</script>"""


def measured(path: Path, width: int, charts: int) -> Any:
    """In a frame so wide: how wide the page is (`wide`), and where the labels of each chart lie."""
    outer = path.with_name("measure.html")
    outer.write_text(_MEASURE.format(page=path.name, width=width, charts=charts))
    options = (
        "--headless --no-sandbox --disable-gpu --disable-background-networking "
        "--disable-component-update --disable-sync --no-first-run --allow-file-access-from-files "
        f"--virtual-time-budget=20000 --window-size=1400,4200 --dump-dom file://{outer}"
    )
    for attempt in range(5):
        profile = f"--user-data-dir={path.parent / f'measuring{attempt}'}"
        shown = subprocess.run(
            ["chromium", profile, *options.split()],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        ).stdout
        found = re.search(r'<pre id="told">(\{.*?\})</pre>', shown, re.DOTALL)
        if found:
            return json.loads(unescape(found[1]))
    raise AssertionError("the browser did not measure the page")


def overlapping(labels: Sequence[Sequence[Any]]) -> list[tuple[str, str]]:
    """Pairs of labels of one chart that touch."""
    return [
        (one[0], other[0])
        for one, other in combinations(labels, 2)
        if min(one[2], other[2]) - max(one[1], other[1]) > 1
        and min(one[4], other[4]) - max(one[3], other[3]) > 4
    ]
