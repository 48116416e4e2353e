"""All that can be named: policies, rules of studies, predictors, readers and the rest."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.catalogue import Catalogue
from dovetail.cli.named import KINDS, catalogue_of
from tools.docs_site.markdown import code, plain, table

FOLDER = "reference/catalogue"


def catalogue_pages() -> dict[str, str]:
    """By path. What packages of others have added here is left out."""
    rows = [
        (f"[{_title(kind)}]({kind}.md)", str(len(catalogue_of(kind).builtin)), code(example))
        for kind, (_, example) in KINDS.items()
    ]
    index = f"# What can be named\n\n{table(('kind', 'how many', 'for example'), rows)}"
    pages = {f"{FOLDER}/{kind}.md": "\n".join(_page(kind)) for kind in KINDS}
    return {f"{FOLDER}/index.md": index} | pages


def _title(kind: str) -> str:
    return kind.replace("-", " ").capitalize()


def _page(kind: str) -> Iterator[str]:
    own = catalogue_of(kind)
    yield f"# {_title(kind)}\n"
    yield f"Parameters are given after the name: {code(KINDS[kind][1])}.\n"
    for name in own.builtin:
        yield from _entry(own, name)


def _entry(own: Catalogue, name: str) -> Iterator[str]:
    one = own.describe(name)
    yield f"## {name}\n"
    for paragraph in own.manual(name).split("\n\n"):
        yield plain(paragraph) + "\n"
    for need in one.needs:
        yield plain(f"Needs {own.filled[need]}.") + "\n"
    yield table(("parameter", "default"), [(code(k), code(v)) for k, v in one.parameters.items()])
