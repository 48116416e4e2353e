"""Digests by which commands are compared, so that what people run stays theirs.

A job is compared with runs of the very same command, of the same with another number of epochs or
steps, of the same flags with other values, and of the same script. What a command says outright of its
own length (`--epochs 500`) is an amount of work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from math import isfinite
from typing import NamedTuple

_DIGEST_BYTES = 8
_COUNTS = re.compile(
    r"^(n|nb|num|number_of|max|total|train|training)*_*(n|num|max|train|training)?_*"
    r"(epochs?|steps?|iters?|iterations?|timesteps?|rounds?|episodes?|updates?|generations?)$"
)
_SCRIPT_WORDS = 3  # python -m package.module; what follows are its arguments


class _Word(NamedTuple):
    """A flag and its value, or a value alone (no flag)."""

    flag: str
    value: str


def alike(words: Sequence[str], beside: str, owner: str) -> tuple[str, ...]:
    """Digests from the very command to its script. `beside`: what else makes it the same, such as the
    text of a script. The owner is in them, so that nobody can look for another's command."""
    if not words and not beside:
        return ()
    script, given = _parts(words)
    exact = [*script, *(f"{flag}={value}" for flag, value in given), beside]
    # A flag given twice is two flags; their order is of no account.
    other_amount = sorted(f"{w.flag}={'#' if _counts(w) else w.value}" for w in given)
    flags = sorted(f"{w.flag}={'#' if _counts(w) else '*'}" for w in given)
    texts = (exact, [*script, *other_amount, beside], [*script, *flags], script)
    return tuple(_digest([owner, str(level), *text]) for level, text in enumerate(texts))


def amount(words: Sequence[str]) -> float | None:
    """Epochs or steps that it says it makes; of several kinds, the epochs."""
    found = [word for word in _parts(words)[1] if _counts(word)]
    found.sort(key=lambda word: "epoch" not in word.flag)
    return float(found[0].value) if found else None


def _parts(words: Sequence[str]) -> tuple[list[str], list[_Word]]:
    """The program and its script, and what they are given."""
    script, rest = list(words[:1]), list(words[1:])
    while rest and len(script) < _SCRIPT_WORDS and _names_script(script, rest[0]):
        script.append(rest.pop(0))
    return script, list(_given(rest))


def _names_script(script: Sequence[str], word: str) -> bool:
    if script[-1] in ("-m", "-c"):  # what follows is the module, or the code itself
        return True
    interprets = script[0].rpartition("/")[2].startswith(("python", "bash", "sh", "torchrun"))
    return interprets and len(script) == 1 and (word in ("-m", "-c") or not word.startswith("-"))


def _given(words: Iterable[str]) -> Iterable[_Word]:
    flag = ""
    for word in words:
        if word.startswith("-") and not _is_number(word):
            if flag:
                yield _Word(flag, "")
            flag, _, value = word.partition("=")
            if value:
                yield _Word(flag, value)
                flag = ""
        elif not flag and "=" in word:  # as Hydra has it
            name, _, value = word.partition("=")
            yield _Word(name, value)
        else:
            yield _Word(flag, word)
            flag = ""
    if flag:
        yield _Word(flag, "")


def _counts(word: _Word) -> bool:
    name = word.flag.lstrip("-").replace("-", "_").rpartition(".")[2].lower()
    return bool(_COUNTS.match(name)) and _is_number(word.value) and float(word.value) > 0


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _digest(parts: Iterable[str]) -> str:
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()
