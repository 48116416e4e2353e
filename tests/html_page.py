"""A page as a browser takes it: its elements, the addresses they name, the data inside."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
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
