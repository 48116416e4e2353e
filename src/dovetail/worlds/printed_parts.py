"""Which part of the data a stretch of a printed line is about: `{'val': {'loss': 0.4}}`,
`DEV : loss 0.31`, fairseq's `| valid on 'valid' subset | loss 4.2 |`.

All expressions here take time in proportion to the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_VALIDATION: Final = ("val", "valid", "validation", "dev")
_ALIKE: Final = {
    **dict.fromkeys(_VALIDATION, "val"),
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("eval", "evaluation"), "eval"),
}
PARTS: Final = frozenset(_ALIKE)
_MOST = 50  # of one line
_BRACES = re.compile(r"""(?:["']?([A-Za-z][\w./@-]{0,40})["']?[ \t]{0,3}[:=][ \t]{0,3})?\{|\}""")
_NAMES = "|".join(sorted(PARTS, key=len, reverse=True))
_HEAD = re.compile(rf"[ \t]{{0,9}}({_NAMES})[ \t]{{0,3}}:[ \t]", re.IGNORECASE)
_COLUMN = re.compile(
    rf"(?:^|\|)[ \t]{{0,9}}({_NAMES})(?: on '[^'|]{{1,40}}' subset)?[ \t]{{0,9}}\|", re.IGNORECASE
)


class PrintedPart(NamedTuple):
    name: str  # as a metric would begin with it
    start: int
    end: int

    def holds(self, place: int) -> bool:
        return self.start <= place < self.end

    def hides(self, metric: str) -> bool:
        """Is a metric of that very name another one here? Not if it says itself of what it is."""
        words = words_of(metric)
        return not words or words[0] not in PARTS or not PARTS.intersection(words_of(self.name))

    def rest_of(self, metric: str) -> tuple[str, ...]:
        """The metric without the part's name; empty if it is not of that part."""
        words, own = words_of(metric), words_of(self.name)
        begins = tuple([_ALIKE.get(word, word) for word in words[: len(own)]])
        return words[len(own) :] if begins == tuple([_ALIKE.get(w, w) for w in own]) else ()


def words_of(text: str) -> tuple[str, ...]:
    return tuple([word.lower() for word in re.split(r"[\W_]+", text) if word])


def parts_of(line: str) -> list[PrintedPart]:
    """None where the whole line is about one and the same."""
    if "{" in line:
        return list(_objects(line))
    columns = {_ALIKE[match[1].lower()]: match.end() for match in _COLUMN.finditer(line)}
    if len(columns) == 1:
        return [PrintedPart(name, start, len(line)) for name, start in columns.items()]
    if columns:  # of which of them each number is cannot be told
        return [PrintedPart("", 0, len(line))]
    head = _HEAD.match(line)
    return [] if head is None else [PrintedPart(head[1].lower(), head.end(), len(line))]


def _objects(line: str) -> Iterator[PrintedPart]:
    """Those in others, that have a key of their own which says of what they are."""
    open_: list[tuple[str, int]] = []
    for number, match in enumerate(_BRACES.finditer(line)):
        if number == 2 * _MOST:
            break
        if match[0] != "}":
            open_.append((match[1] or "", match.end()))
        elif open_:
            name, start = open_.pop()
            if open_ and name and _tells(name):
                yield PrintedPart(name, start, match.start())


def _tells(name: str) -> bool:
    return any(word in PARTS or word == "ema" for word in words_of(name))
