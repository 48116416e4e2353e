"""Text files: plain or gzip, a file or standard input; every failure is one clear line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase, TextIOWrapper
from typing import IO, TextIO, cast

from dovetail.core.errors import BadInput

STDIN = "-"
GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def opened(path: str) -> Iterator[TextIO]:
    """The text of a file. Any failure while it is read is raised as `BadInput`."""
    try:
        with _bytes(path) as raw:
            # "utf-8-sig" drops the mark that spreadsheets put in front; newlines are left to csv
            text = TextIOWrapper(_unpacked(raw), encoding="utf-8-sig", newline="")
            try:
                yield text
            finally:
                text.detach()  # otherwise standard input would be closed with it
    except FileNotFoundError:
        raise BadInput(f"cannot read {path!r}: there is no such file") from None
    except IsADirectoryError:
        raise BadInput(f"cannot read {path!r}: it is a directory; name a file in it") from None
    except UnicodeDecodeError:
        raise BadInput(
            f"cannot read {path!r}: it is not UTF-8 text; save it as UTF-8 CSV"
        ) from None
    except EOFError:
        raise BadInput(
            f"cannot read {path!r}: the gzip data end too early; copy it again"
        ) from None
    except OSError as error:
        raise BadInput(f"cannot read {path!r}: {error.strerror or error}") from None
    except Exception as error:
        # zlib is only loaded for gzip files, so its error is known by name
        if type(error).__module__ != "zlib":
            raise
        raise BadInput(f"cannot read {path!r}: the gzip data are damaged ({error})") from None


@contextmanager
def _bytes(path: str) -> Iterator[BufferedReader]:
    if path == STDIN:
        given = sys.stdin.buffer  # when it is replaced, as in tests, it may not let us peek
        yield given if isinstance(given, BufferedReader) else BufferedReader(cast(RawIOBase, given))
        return
    try:
        file = open(path, "rb")  # noqa: SIM115 (closed by the `with` below)
    except ValueError as error:  # a path with a NUL inside
        raise BadInput(f"cannot read {path!r}: {error}") from None
    with file:
        yield file


def _unpacked(raw: BufferedReader) -> IO[bytes]:
    if raw.peek(2)[:2] != GZIP_MAGIC:
        return raw
    import gzip

    return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
