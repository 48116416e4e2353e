"""A request to a service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from math import inf
from operator import itemgetter
from typing import NamedTuple


class Request(NamedTuple):
    """Comes `at` for a service; an answer after `deadline` is late."""

    at: float
    service: str
    deadline: float = inf
    prompt_tokens: int = 0
    output_tokens: int = 0
    adapter: str = ""  # of a language model
    input: str = ""  # what is asked, where that is known; the answer to the same may be kept


def merged(streams: Iterable[Iterable[Request]]) -> Iterator[Request]:
    """Several streams, each in order of time, as one."""
    return merge(*streams, key=itemgetter(0))
