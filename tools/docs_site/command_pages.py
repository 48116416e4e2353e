"""The commands, from the texts of `--help`; the same walk as that of the manual pages."""

from __future__ import annotations

from collections.abc import Iterator

import click

from dovetail.cli.completion import manual
from dovetail.cli.main import cli
from tools.docs_site.markdown import block, code, plain, table

FOLDER = "reference/commands"


def command_pages() -> dict[str, str]:
    """By path: one for each command of the first level, with all below it."""
    pages: dict[str, list[str]] = {}
    rows = []
    with click.Context(cli, info_name="dovetail") as root:
        for context in manual.contexts(root):
            words = context.command_path.split()
            if len(words) == 1:
                continue
            lines = pages.setdefault(f"{FOLDER}/{words[1]}.md", [])
            lines += _section(context, len(words) - 1)
            if len(words) == 2:
                told = plain(manual.paragraphs(context.command)[0])
                rows.append((f"[{code(words[1])}]({words[1]}.md)", told))
    index = f"# Commands\n\n{table(('dovetail …', 'what it does'), rows)}"
    texts = {path: "\n".join(lines) for path, lines in pages.items()}
    return {f"{FOLDER}/index.md": index} | texts


def _section(context: click.Context, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} {context.command_path}\n"
    for paragraph in manual.paragraphs(context.command):
        as_it_stands = "\b" in paragraph
        yield block(paragraph.replace("\b\n", "")) if as_it_stands else plain(paragraph) + "\n"
    yield block(manual.usage(context))
    rows = [(code(words), plain(told)) for words, told in manual.options(context)]
    yield table(("option", "what it does"), rows)
