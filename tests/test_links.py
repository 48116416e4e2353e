"""Every link from a page of ours to a file or a heading of ours leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
_LINK = re.compile(r"(?<!\\)\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_CODE = re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]*`", re.DOTALL)


def links_of(page: Path) -> list[str]:
    return _LINK.findall(_CODE.sub("", page.read_text()))


def headings_of(page: Path) -> set[str]:
    """As the hosts of repositories and makers of sites name them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return {_anchor(line) for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def _anchor(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")


def trouble_with(page: Path, link: str) -> str:
    path, _, anchor = link.partition("#")
    if re.match(r"[a-z]+:", path):
        return ""  # another site's
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"{link}: there is no {path}"
    if anchor and target.suffix == ".md" and anchor not in headings_of(target):
        return f"{link}: no heading is called {anchor}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    found = [trouble for link in links_of(page) if (trouble := trouble_with(page, link))]
    assert found == []


def test_a_link_that_leads_nowhere_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One heading: two\n[a](#one-heading-two) [b](#three) [c](no.md) `[d](x)`\n")
    told = [trouble_with(page, link) for link in links_of(page)]
    assert told == ["", "#three: no heading is called three", "no.md: there is no no.md"]


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "howto").glob("*.md")), ids=lambda p: p.name
)
def test_every_how_to_is_found_from_another_page(page: Path) -> None:
    linked = {
        (other.parent / link.partition("#")[0]).resolve()
        for other in PAGES
        if other != page
        for link in links_of(other)
        if not re.match(r"[a-z]+:", link)
    }
    assert page.resolve() in linked
