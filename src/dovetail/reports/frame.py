"""The frame of every page: one file with its style, script and data, which loads nothing else."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template


def framed(
    main: str,
    *,
    title: str,
    facts: Iterable[str],
    data: object,
    styles: Sequence[str] = (),
    scripts: Sequence[str],
    nav: str = "",
    **fields: str,
) -> str:
    """The whole page as text. `main` is the part between header and footer, with its `fields`;
    scripts are joined into one module in their order: a page that is one file has nothing to
    import. `Template` fills in one pass, so no data is taken for a field."""
    style = "".join(asset(name) for name in ("style.css", *styles))
    script = "".join(asset(name) for name in ("dom.js", "page.js", "units.js", *scripts))
    return Template(asset("frame.html").replace("$main", main)).substitute(
        fields,
        title=escape(title),
        facts="".join(f"<li>{escape(fact)}</li>" for fact in facts),
        nav=nav,
        data=embedded(data),
        style=style,
        script=script,
        style_hash=hash_of(style),
        script_hash=hash_of(script),
    )


def asset(name: str) -> str:
    return (files("dovetail.reports") / "assets" / name).read_text("utf-8")


def hash_of(text: str) -> str:
    """The page forbids every script and style but its own: a second wall behind the escaping."""
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def embedded(data: object) -> str:
    """JSON in which nothing can end the element that contains it, nor a line of script."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
