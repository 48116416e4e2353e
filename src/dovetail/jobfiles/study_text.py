"""Settings put into texts: `python train.py --lr {lr}`.

`{name}` is a parameter, `{settings}` all of them as `--name=value`, `{trial}` the trial's number.
`{{` … `}}` stands for braces of the text itself, and what stands in `${…}` is the shell's. Braces
around anything but a name are left alone, so most scripts need no escapes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from difflib import get_close_matches

from dovetail.tune.space import NAME, RESERVED
from dovetail.tune.study import Setting

TOKEN = re.compile(rf"\$\{{|\{{\{{|\}}\}}|\{{({NAME.pattern})([:!][^{{}}]*)?\}}")
ALL = "{settings}"


def fill(text: str, value: Callable[[str, str], str | None]) -> str:
    """`value` is asked for each name and the format behind it; None leaves the braces as they are."""
    found: list[str] = []
    at = escaped = 0
    while match := TOKEN.search(text, at):
        found.append(text[at : match.start()])
        token, at = match[0], match.end()
        if token == "${":
            at = _closing(text, at)
            token = text[match.start() : at]
        elif token == "{{":
            token, escaped = "{", escaped + 1
        elif token == "}}" and escaped:
            token, escaped = "}", escaped - 1
        elif match[1]:
            told = value(match[1], match[2] or "")
            token = token if told is None else told
        found.append(token)
    return "".join([*found, text[at:]])


def _closing(text: str, at: int) -> int:
    """Behind the brace that closes the one before this place; the end of the text if none does."""
    depth = 1
    while depth and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return at


def problem(text: str, names: Mapping[str, object]) -> str:
    """The mistake in the names of a text; nothing if it can be filled."""
    problems: list[str] = []

    def look(name: str, behind: str) -> None:
        if behind and name in names:
            problems.append(f"{{{name}{behind}}} asks for a format; write {{{name}}}")
        elif not behind and name not in names and name not in RESERVED:
            problems.append(f"there is no parameter {{{name}}}; {_hint(name, names)}")

    fill(text, look)
    return problems[0] if problems else ""


def _hint(name: str, names: Mapping[str, object]) -> str:
    close = get_close_matches(name, [*names, *RESERVED], 1)
    meant = f"did you mean {{{close[0]}}}, or, as plain text," if close else "for plain text write"
    return f"{meant} {{{{{name}}}}}"


class Filling:
    """The settings of one trial on their way into texts."""

    def __init__(self, settings: Mapping[str, Setting], number: int) -> None:
        self._options = [f"--{name}={spelled(value)}" for name, value in settings.items()]
        self._values = {name: spelled(value) for name, value in settings.items()}
        self._values |= {"trial": str(number), "settings": shlex.join(self._options)}

    def word(self, text: str) -> str:
        """For a place that no shell reads. What does not count in this trial is empty."""
        return fill(text, lambda name, behind: None if behind else self._values.get(name, ""))

    def words(self, text: str) -> list[str]:
        return self._options if text == ALL else [self.word(text)]

    def script(self, text: str) -> str:
        """For a place that a shell reads: every value is one word to it."""

        def quoted(name: str, behind: str) -> str | None:
            if behind:
                return None
            value = self._values.get(name, "")
            return value if name == "settings" else shlex.quote(value)

        return fill(text, quoted)


def spelled(value: Setting) -> str:
    """As in JSON, but texts without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
