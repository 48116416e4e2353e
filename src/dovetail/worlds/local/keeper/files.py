"""Small files that are never half written."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # as in typing, which would take 3 ms to import
if TYPE_CHECKING:
    from typing import Any

_NO_DESCRIPTOR = (23, 24)  # ENFILE, EMFILE


def read_json(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content


def write_durably(folder: str, name: str, text: str) -> None:
    temporary = os.path.join(folder, name + ".tmp")
    overwrite(temporary, text.encode())
    rename_durably(temporary, folder, name)


def overwrite(path: str, content: bytes) -> None:
    """In place: where the file has so many bytes already, no room is needed."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        done = 0
        while done < len(content):
            done += os.pwrite(fd, content[done:], done)
        os.ftruncate(fd, len(content))
        os.fsync(fd)
    finally:
        os.close(fd)


def rename_durably(path: str, folder: str, name: str) -> None:
    os.rename(path, os.path.join(folder, name))
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_numbers(path: str) -> list[int]:
    try:
        with open(path, encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR:
            raise  # that it cannot be looked at does not say that there is none
        return []


def write_number(path: str, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.pwrite(fd, text, 0)  # in one go and always as long: never half a number
    finally:
        os.close(fd)
