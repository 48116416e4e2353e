"""How a value that cannot be used is shown in a message that stays one short line."""

from __future__ import annotations

SHOWN = 60  # characters of a value


class Complaint(ValueError):
    """A whole sentence, to be told as it stands: it names the field, and the value if it may."""

    def __init__(self, sentence: str, *path: str) -> None:
        super().__init__(sentence)
        self.path = path  # of the field at fault, below where this was raised


def shown(value: object) -> str:
    """As the user wrote it, clipped. Containers go unshown: they may be endless or hold secrets."""
    if isinstance(value, bool | None):
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str):
        return repr(clipped(value))
    if isinstance(value, int | float):
        return clipped(_digits(value))
    return "a list" if isinstance(value, list | tuple) else "a table of fields"


def clipped(text: str, length: int = SHOWN) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _digits(value: float) -> str:
    try:
        return str(value)
    except ValueError:  # more digits than Python turns into text
        return "a number of thousands of digits"
