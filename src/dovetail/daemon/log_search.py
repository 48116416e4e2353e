"""Finding a text in a long log, a stretch at a time: who asks goes on from where the answer ends."""

from __future__ import annotations

from time import monotonic

from dovetail.api.page_row import LogFound, LogPlace
from dovetail.daemon.logs import as_shown, first_after
from dovetail.worlds.world import JobLog

_CHUNK = 1 << 20
_WITHIN_S = 0.5  # then the answer tells how far it came
_LONGEST_LINE = 400


def find(log: JobLog, text: str, start: int, most: int) -> LogFound:
    """The lines with the text, small and capital letters alike, from `start` on."""
    wanted, places = text.lower().encode(), list[LogPlace]()
    upto, end, gives_up = first_after(log, start), log.end(), monotonic() + _WITHIN_S
    carried = b""  # a line that goes on in the next chunk
    while len(places) < most and upto < end and monotonic() < gives_up:
        first, chunk = log.read(upto, _CHUNK)
        if not chunk:
            break
        carried = carried if first == upto else b""
        upto = first + len(chunk)
        both, at = carried + chunk, first - len(carried)
        whole = len(both) if upto >= end else both.rfind(b"\n") + 1 or len(both)
        found, came = _lines_with(wanted, both[:whole], at, most - len(places))
        places += found
        carried = both[whole:]
        if len(places) >= most:
            return LogFound(found=places, upto=came, end=end)
    return LogFound(found=places, upto=upto - len(carried), end=end)


def _lines_with(wanted: bytes, text: bytes, place: int, most: int) -> tuple[list[LogPlace], int]:
    """And how far it came."""
    lower, found, at = text.lower(), list[LogPlace](), 0
    while len(found) < most and (at := lower.find(wanted, at)) >= 0:
        begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
        end = len(text) if end < 0 else end
        line = text[max(begin, at - _LONGEST_LINE // 2) : end][:_LONGEST_LINE]
        found.append(LogPlace(at=place + begin, line=as_shown(line.decode(errors="replace"))))
        at = end
    return found, place + (at if at >= 0 else len(text))
