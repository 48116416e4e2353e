"""The site of docs/: what is made from the code is whole, and what is wrong with a link is found."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from tools.docs_site.command_pages import command_pages
from tools.docs_site.links import troubles
from tools.docs_site.markdown import code, plain, separated, table
from tools.docs_site.staging import stage

from browser import CHROMIUM, faults
from dovetail.cli.completion import manual
from dovetail.cli.main import cli
from dovetail.cli.named import KINDS, catalogue_of

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "docs" / "site"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    stage(folder)
    return folder / "pages"


def test_every_command_and_option_has_its_place() -> None:
    text = "\n".join(command_pages().values())
    with click.Context(cli, info_name="dovetail") as root:
        for context in list(manual.contexts(root))[1:]:
            assert f"# {context.command_path}\n" in text
            for words, told in manual.options(context):
                assert f"| {code(words)} | {plain(told)} |" in text


def test_everything_of_the_catalogue_has_its_place(pages: Path) -> None:
    for kind in KINDS:
        text = (pages / "reference" / "catalogue" / f"{kind}.md").read_text()
        assert [own for own in catalogue_of(kind).builtin if f"## {own}\n" not in text] == []


def test_every_field_and_every_call_has_its_place(pages: Path) -> None:
    reference = pages / "reference"
    for name in ("job", "study"):
        schema = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text())
        text = (reference / f"{name}-file.md").read_text().replace("&#95;", "_")
        assert [own for own in schema["properties"] if f"| <code>{own}</code> |" not in text] == []
    api = json.loads((ROOT / "docs" / "openapi.json").read_text())
    calls = (reference / "http" / "index.md").read_text().replace("&#95;", "_")
    assert [path for path in api["paths"] if f" {path}</code>" not in calls] == []


@pytest.mark.parametrize(
    ("page", "module"),
    [("index", "dovetail"), ("sdk", "dovetail.sdk"), ("testing", "dovetail.testing")],
)
def test_every_name_for_python_programs_has_its_place(page: str, module: str, pages: Path) -> None:
    text = (pages / "reference" / "python" / f"{page}.md").read_text()
    names = import_module(module).__all__
    assert [own for own in names if f"::: {module}.{own}\n" not in text] == []


def test_every_how_to_and_decision_is_listed(pages: Path) -> None:
    places = (pages.parent / "mkdocs.yml").read_text()
    decisions = (pages / "docs" / "decisions" / "index.md").read_text()
    for page in (ROOT / "docs" / "howto").glob("*.md"):
        assert f"docs/howto/{page.name}" in places
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        assert f"]({page.name})" in decisions


def test_no_character_of_a_text_is_markup() -> None:
    assert plain("a|b <i> *c* `x|y`") == ("a&#124;b &#60;i&#62; &#42;c&#42; <code>x&#124;y</code>")
    assert plain("one ` alone") == "one &#96; alone"
    assert table(("a", "b"), []) == ""


def test_a_list_behind_a_sentence_is_a_list() -> None:
    given = "So:\n- one\n- two\n  more\n- three\n```\nx\n- no list\n```"
    assert separated(given) == f"So:\n\n{given[4:]}"


def test_links_that_lead_nowhere_or_out_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="one">A</h1><a href="a.html#one">x</a><a href="b.html">x</a>'
        '<a href="#two">x</a><a href="https://example.org">x</a><img src="no.png">'
        '<script src="https://example.org/x.js"></script>'
    )
    assert troubles(tmp_path) == [
        "a.html: loads https://example.org/x.js from another machine",
        "a.html: b.html leads to no file",
        "a.html: #two: no heading is called two",
        "a.html: no.png leads to no file",
    ]


@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
@pytest.mark.skipif(not (SITE / "index.html").exists(), reason="make docs builds the site")
def test_pages_open_from_a_folder_and_searching_works(browser: Any) -> None:
    asked: list[str] = []
    wrong: list[str] = []
    page = browser.new_page(viewport={"width": 420, "height": 800})
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((SITE / "reference" / "job-file.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert faults(page) == []
    page.keyboard.press("Control+k")
    words = page.get_by_role("combobox", name="Search")
    words.press_sequentially("preemptible", delay=40)
    page.get_by_text("results", exact=False).first.wait_for()
    assert words.input_value() == "preemptible"
    page.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert wrong == []
