"""What Python programs may import. Names alone: mkdocstrings reads the sources for the rest."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from textwrap import dedent

from tools.docs_site.markdown import block, plain

_PAGES = {
    "index": ("Python API", "dovetail"),
    "sdk": ("In a training script", "dovetail.sdk"),
    "testing": ("In tests of what extends it", "dovetail.testing"),
}


def python_pages() -> dict[str, str]:
    """By path."""
    return {f"reference/python/{name}.md": _page(*own) for name, own in _PAGES.items()}


def _page(title: str, place: str) -> str:
    module = import_module(place)
    about = _about((module.__doc__ or "").split("\n\n"))
    return "\n".join([f"# {title}\n", *about, *(f"::: {place}.{own}\n" for own in module.__all__)])


def _about(paragraphs: list[str]) -> Iterator[str]:
    """Paragraphs of an example that follow each other are one block."""
    for is_prose, group in groupby(paragraphs, _is_prose):
        if is_prose:
            yield from (plain(own) + "\n" for own in group)
        else:
            yield block(dedent("\n\n".join(group)).strip("\n"), "python")


def _is_prose(paragraph: str) -> bool:
    """It ends with a full stop or a colon; anything else is an example."""
    return paragraph.rstrip().endswith((".", ":")) and not paragraph.startswith(" ")
