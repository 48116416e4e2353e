"""A configuration file: TOML whose mistakes are told with their line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from dovetail.core.errors import BadInput

TABLES: Final = ("up", "notify", "hosts")  # of `dovetail up`, of messages, of other machines
_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"))*)\s*=")


@dataclass(frozen=True)
class ConfigFile:
    """What stands in it, and where."""

    path: Path
    tables: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def at(self, *keys: str) -> str:
        """`/etc/dovetail/config.toml:4`; of a key that is not found, the line of its table."""
        for number in range(len(keys), 0, -1):
            if line := self.lines.get(keys[:number]):
                return f"{self.path}:{line}"
        return str(self.path)

    def table(self, name: str) -> Mapping[str, Any]:
        found = self.tables.get(name, {})
        if not isinstance(found, dict):
            raise BadInput(f"{self.at(name)}: {name} is a table: write [{name}]")
        return found


def read_config(path: Path) -> ConfigFile:
    """One that is not there is empty."""
    try:
        text = path.read_text("utf-8")
        tables = tomllib.loads(text)
    except FileNotFoundError:
        return ConfigFile(path)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        where = f"{path}:{line[1]}" if line else str(path)
        raise BadInput(f"{where}: this is no TOML: {str(error).partition(' (at')[0]}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    found = ConfigFile(path, tables, dict(_lines(text)))
    for name in tables:
        check_known(found, name, TABLES)
    return found


def check_known(file: ConfigFile, key: str, known: tuple[str, ...], *within: str) -> None:
    if key in known:
        return
    near = get_close_matches(key, known, 1)
    way = f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"
    table = f"[{'.'.join(within)}]" if within else "the file"
    raise BadInput(f"{file.at(*within, key)}: {table} has no {key!r}; {way}")


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Where each key stands, as far as can be seen at a glance: for messages alone."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, *_parts(key[1])), number


def _parts(text: str) -> tuple[str, ...]:
    return tuple(
        part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", text)
    )
