"""The frame of every page: navigation, and the empty places that its scripts fill.

A page holds no data of its own, so it is the same for everybody: what somebody may see is decided where
the data are asked for, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from html import escape
from string import Template

from dovetail.dashboard.files import address, served, text_of


@dataclass(frozen=True, slots=True)
class PageFrame:
    """`place` is its name in the navigation, or that of the page it belongs to. Its own script comes
    after those it shares."""

    name: str
    title: str
    place: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...] = ()


_EVERYWHERE = ("dom.js", "page.js", "units.js", "asking.js", "live.js")
_CHARTS = ("colours.js", "axes.js")
_LANES = ("stints.js", "virtual.js", "lanes.js", "why.js")
_TABLES = ("tables.js", "sorting.js")
_STUDY = ("axes.js", "study_chart.js", "study_curves.js", "study_parts.js", "study_parallel.js")
_LIST = (
    PageFrame("now", "Now", "now", (*_CHARTS, *_LANES), ("now.css",)),
    PageFrame(
        "job", "Job", "now", (*_CHARTS, "ansi.js", "log.js", "why.js"), ("study.css", "job.css")
    ),
    PageFrame("studies", "Studies", "studies", _TABLES),
    PageFrame("history", "History and cost", "history", _TABLES),
    PageFrame("services", "Services", "services", ("axes.js",), ("study.css", "job.css")),
    PageFrame("ask", "Ask", "ask", ()),
    PageFrame("cluster", "Cluster", "cluster", _TABLES),
    PageFrame("missing", "No such page", "", ()),
    PageFrame("live_study", "Study", "studies", (*_TABLES, *_STUDY), ("study.css", "job.css")),
)
PAGES = {page.name: page for page in _LIST}
_NAVIGATION = (
    ("now", "Now", "/page/"),
    ("studies", "Studies", "/page/studies"),
    ("services", "Services", "/page/services"),
    ("history", "History", "/page/history"),
    ("ask", "Ask", "/page/ask"),
    ("cluster", "Cluster", "/page/cluster"),
)

NAMED = frozenset(name for name, _, target in _NAVIGATION if target == f"/page/{name}")


@cache
def html(name: str) -> str:
    page = PAGES[name]
    styles = ("style.css", "dashboard.css", *page.styles)
    return Template(text_of("shell.html")).substitute(
        title=escape(page.title),
        name=escape(page.name),
        styles="".join(f'<link rel="stylesheet" href="{address(own)}">\n' for own in styles),
        scripts="".join(
            f'<script defer src="{address(own)}"></script>\n'
            for own in (*_EVERYWHERE, *page.scripts, f"{page.name}.js")
            if own in served()
        ),
        navigation="".join(_link(page, *entry) for entry in _NAVIGATION),
        main=text_of(f"{name}.html"),
    )


def _link(page: PageFrame, name: str, title: str, target: str) -> str:
    current = ' aria-current="page"' if page.place == name else ""
    return f'<li><a href="{target}"{current}>{title}</a></li>'
