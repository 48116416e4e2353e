"""Where requests come from: a file or a kind of traffic, read or made anew for each rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from dovetail.core.errors import BadInput
from dovetail.serving.request import Request, merged
from dovetail.serving.service import ServedModel
from dovetail.serving.traffic import catalogue
from dovetail.serving.traffic.files import read_requests
from dovetail.traces.readers.text_files import STDIN

_TAIL = 4096  # bytes, in which the last line of a file is


@dataclass(frozen=True)
class RequestSource:
    """`part` says how much of it is over at a time."""

    name: str
    requests: Callable[[], Iterator[Request]]
    until: float = 0.0  # when it ends; 0: not known

    def part(self, at: float) -> float:
        return min(at / self.until, 1.0) if self.until > 0 else 0.0


def source_of(text: str, services: Mapping[str, ServedModel], seed: int = 0) -> RequestSource:
    """`requests.csv`, or traffic such as `bursty:rate=300`: so many a second to each service."""
    if not Path(text).exists() and catalogue.is_traffic(text):
        traffic = catalogue.make(text)

        def made() -> Iterator[Request]:
            requests = merged(
                traffic.requests(name, own.slo_s, seed * 1_000_003 + number)
                for number, (name, own) in enumerate(services.items())
            )
            first = next(requests, None)
            if first is None:
                raise BadInput(f"{text}: not one request comes; give a higher rate or more seconds")
            return chain([first], requests)

        return RequestSource(text, made, traffic.seconds)
    if text == STDIN:
        raise BadInput("requests are read once for each policy; name a file, not standard input")
    slos = {name: own.slo_s for name, own in services.items()}
    return RequestSource(Path(text).name, lambda: read_requests(text, slos), _last_time(text))


def _last_time(path: str) -> float:
    """Of a plain file of ours: it is the first number of its last line."""
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _TAIL, 0))
            last = file.read().strip().rpartition(b"\n")[2]
        return float(last.partition(b",")[0])
    except (OSError, ValueError):
        return 0.0
