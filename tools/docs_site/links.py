"""Links of the built pages: each leads to a file and a heading of the site, nothing is loaded from
another machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}
_LOADED_LINKS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload"}


@dataclass
class PageLinks(HTMLParser):
    """What a page links to, what it loads, and which places in it have a name."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value or "" for name, value in attrs}
        self.places |= {own[name] for name in ("id", "name") if name in own}
        if tag == "a" and own.get("href"):
            self.links.append(own["href"])
        if tag == "link" and _LOADED_LINKS & set(own.get("rel", "").split()):
            self.loads.append(own["href"])
        if own.get(_LOADED.get(tag, "")):
            self.loads.append(own[_LOADED[tag]])


def troubles(site: Path) -> list[str]:
    """A line for each."""
    site = site.resolve()
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site)}: {trouble}"
        for path, page in pages.items()
        if path.name != "404.html"
        for trouble in dict.fromkeys(_of_page(path, page, pages))
    ]


def _read(path: Path) -> PageLinks:
    page = PageLinks()
    page.feed(path.read_text())
    return page


def _of_page(path: Path, page: PageLinks, pages: dict[Path, PageLinks]) -> Iterator[str]:
    for address in page.loads:
        if urlsplit(address).netloc:
            yield f"loads {address} from another machine"
    for address in [*page.links, *page.loads]:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            yield f"{address} leads to no file"
        elif not _has(pages.get(target), unquote(parts.fragment)):
            yield f"{address}: no heading is called {parts.fragment}"


def _has(page: PageLinks | None, place: str) -> bool:
    return page is None or not place or place in page.places
