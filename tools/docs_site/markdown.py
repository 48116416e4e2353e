"""Texts of the code as Markdown, in which no character of theirs is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_MARKUP = re.compile(r"[\\*_\[\]<>|#&~$`]")
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def plain(text: str) -> str:
    """What stands between backquotes stays code, as it is meant."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:
        return _escaped("`".join(parts))
    return "".join(code(part) if i % 2 else _escaped(part) for i, part in enumerate(parts))


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: f"&#{ord(found.group())};", text)


def code(text: str) -> str:
    """As HTML, since a cell of a table ends at a bar also within code."""
    return f"<code>{_escaped(text)}</code>" if text else ""


def block(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(own) + " |" for own in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines]) + "\n"


def separated(text: str) -> str:
    """An empty line before each list: the hosts of repositories need none there, mkdocs does."""
    return "\n".join(_separated(text.split("\n")))


def _separated(lines: list[str]) -> Iterator[str]:
    before, fenced = "", False
    for line in lines:
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        follows_text = bool(before.strip()) and not before.startswith(" ")
        if not fenced and _ITEM.match(line) and follows_text and not _ITEM.match(before):
            yield ""
        yield line
        before = line
