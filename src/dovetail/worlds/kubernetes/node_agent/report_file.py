"""The reports of a pod, read from a folder that its processes may write: nothing there is trusted."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from dovetail.worlds.shortage import at_once

REPORTS, STOP_FILE = "reports.jsonl", "stop"
MOST_BYTES: Final = 1 << 16  # of one pod, in one piece
_MOST_A_SIGN: Final = 6
_LONG: Final = re.compile("[\\x00-\\x1f<>&\\u2028\\u2029]")  # as an API server has them: \\u003c
_QUOTED: Final = re.compile(r'["\\]')
_LOOK_BYTES: Final = 1 << 20  # for the end of a line that is too long


def read_after(folder: Path, upto: int, most: int = MOST_BYTES) -> tuple[int, str]:
    """Whole lines that follow that byte, and where they end. A line longer than a piece is left out.
    However long the file is, or says it is: so much is read at once, and no more."""
    try:
        with open(folder / REPORTS, "rb", opener=at_once) as file:
            file.seek(max(upto - 1, 0))
            is_within_a_line = upto > 0 and file.read(1) not in (b"\n", b"")
            piece = b"" if is_within_a_line else file.read(most)
            whole = piece.rfind(b"\n") + 1
            if whole:
                return upto + whole, _text(piece[:whole])
            if is_within_a_line or len(piece) >= MOST_BYTES:
                return upto + _left_out(file, piece), ""
            return upto, ""
    except OSError:
        return upto, ""  # none yet, or not now


def read_within(folder: Path, upto: int, room: int) -> tuple[int, str]:
    """As much of it as takes that much room in an object of the API server."""
    end, text = read_after(folder, upto, min(room, MOST_BYTES))
    if weight(text) > room:
        end, text = read_after(folder, upto, min(room // _MOST_A_SIGN, MOST_BYTES))
    return end, text


def weight(text: str) -> int:
    """Its bytes there, at most: some signs are written as six."""
    signs = len(text) if text.isascii() else len(text.encode())
    return signs + (_MOST_A_SIGN - 1) * len(_LONG.findall(text)) + len(_QUOTED.findall(text))


def size(path: str) -> int:
    """Asked fifty times a second of each pod at work. To put a path together takes longer than this."""
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0


def _left_out(file: IO[bytes], piece: bytes) -> int:
    """How much of a line that is too long. Of one that has no end yet: nothing, up to a limit."""
    following = file.read(_LOOK_BYTES)
    end = following.find(b"\n")
    if end >= 0:
        return len(piece) + end + 1
    return len(piece) + len(following) if len(following) == _LOOK_BYTES else 0


def _text(piece: bytes) -> str:
    """As many bytes as in the file, whatever stands there: places are counted on both sides."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return piece.decode("ascii", "replace").replace("\ufffd", "?")


def ask_to_stop(folder: Path) -> None:
    """Make the file that `should_stop` looks for. A link in its place is not followed."""
    with suppress(FileExistsError):
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY
        os.close(os.open(folder / STOP_FILE, flags, 0o644))
