"""The folder that the site is built from: our pages, what they lead to, and the reference.

Pages lie as they do in the repository, so that links from one to another hold without a change.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.docs_site import markdown
from tools.docs_site.catalogue_pages import catalogue_pages
from tools.docs_site.command_pages import command_pages
from tools.docs_site.file_pages import file_pages
from tools.docs_site.http_pages import http_pages
from tools.docs_site.navigation import navigation, title_of
from tools.docs_site.python_pages import python_pages

ROOT = Path(__file__).parents[2]
DECISIONS = "docs/decisions"
_ASSETS = ("colours.css", "iframe-worker.js", "wide-tables.js")
_FILES = (".png", ".json", ".yaml", ".py", ".toml", ".csv", ".ipynb", ".sbatch")


def stage(folder: Path) -> int:
    """How many pages there are. What was there before goes."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    for path in _sources():
        _copy(path, pages / path.relative_to(ROOT))
    for name, text in _made(pages).items():
        target = pages / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for name in _ASSETS:
        _copy(Path(__file__).with_name(name), pages / "assets" / name)
    look = Path(__file__).with_name("mkdocs.yml").read_text()
    places = yaml.safe_dump({"nav": navigation(pages)}, sort_keys=False)
    (folder / "mkdocs.yml").write_text(look + places)
    return len(list(pages.rglob("*.md")))


def _sources() -> Iterator[Path]:
    yield from [*ROOT.glob("*.md"), ROOT / "LICENSE"]
    for room in ("docs", "examples"):
        for path in sorted((ROOT / room).rglob("*")):
            if path.suffix in (".md", *_FILES) and "__pycache__" not in path.parts:
                yield path


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".md":
        text = markdown.separated(source.read_text())
        target.write_text(text.replace("decisions/)", "decisions/index.md)"))
    else:
        shutil.copyfile(source, target)


def _made(pages: Path) -> dict[str, str]:
    return {
        f"{DECISIONS}/index.md": _decisions(pages),
        **command_pages(),
        **file_pages(ROOT),
        **catalogue_pages(),
        **python_pages(),
        **http_pages(ROOT),
    }


def _decisions(pages: Path) -> str:
    found = sorted((pages / DECISIONS).glob("*.md"), reverse=True)
    rows = [f"- [{own.name[:4].lstrip('0')}. {_unnumbered(own)}]({own.name})" for own in found]
    return "\n".join(
        ["# Decisions\n", "Why things are as they are, the newest first.\n", *rows, ""]
    )


def _unnumbered(decision: Path) -> str:
    return re.sub(r"^\d+[.:]? *", "", title_of(decision))
