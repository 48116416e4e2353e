"""Texts of a job: names, words of a command, scripts, paths, variables.

Each reader takes what was written and returns what is kept, or says by a `ValueError` what is wrong
with the value: "is not …".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import import_module

from dovetail.jobfiles.complaint import Complaint, shown
from dovetail.notify.message import EVENTS, way_trouble
from dovetail.worlds.images import image_trouble, is_cluster_name, volume_trouble

LONGEST_NAME = 200
LONGEST_PATTERN = 1000
LONGEST_PATH = 4096  # bytes, as Linux has it
LONGEST_WORD = 128 * 1024 - 1  # bytes of one argument or variable, as Linux has it
MOST_BYTES = 1_000_000  # of command, scripts and variables together
JOB_ID = re.compile(r"[0-9]{1,18}(\.[0-9]{1,10})?")


def text(value: object) -> str:
    """Any text that can be stored as UTF-8 and handed to a process."""
    if not isinstance(value, str):
        raise ValueError("is not a text; put it in quotes")
    if "\0" in value:
        raise ValueError("holds a NUL character, which no process can be given")
    size(value)
    return value


def size(value: str) -> int:
    """Its bytes as UTF-8."""
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise ValueError("holds bytes that are not UTF-8 text") from None


def label(value: object) -> str:
    """A name: one line that can be printed as it is."""
    found = text(value).strip()
    if not found.isprintable():
        raise ValueError(
            "holds characters that cannot be printed; a name is one line of plain text"
        )
    if len(found) > LONGEST_NAME:
        raise ValueError(f"has {len(found):,} characters; a name has {LONGEST_NAME} at most")
    return found


def pattern(value: object) -> str:
    """A regular expression whose named groups are metrics."""
    found = text(value)
    if len(found) > LONGEST_PATTERN:
        raise ValueError(f"has {len(found):,} characters; {LONGEST_PATTERN:,} is the most")
    try:
        groups = groups_of(found)
    except (re.error, RecursionError, OverflowError) as problem:
        raise ValueError(f"is not a regular expression: {problem}") from None
    if not groups - {"step"}:
        raise ValueError("names no metric; write one as a group, such as loss=(?P<loss>[0-9.]+)")
    return found


def groups_of(expression: str) -> set[str]:
    """The names of its groups. It is parsed and not compiled: that takes a second for some, while a
    daemon that reads them hears nobody else."""
    return set(import_module("re._parser").parse(expression).state.groupdict)


def path(value: object) -> str:
    found = text(value)
    if size(found) > LONGEST_PATH:
        raise ValueError(f"has {size(found):,} bytes; a path has {LONGEST_PATH:,} at most")
    return found


def image(value: object) -> str:
    found = text(value).strip()
    if found and (trouble := image_trouble(found)):
        raise ValueError(trouble)
    return found


def service_account(value: object) -> str:
    found = text(value).strip()
    if found and not is_cluster_name(found):
        raise ValueError("is not the name of a service account, such as trainer")
    return found


def volumes(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise Complaint("volumes: a table of paths and claims is needed, such as {/data: datasets}")
    found = {str(path): str(claim) for path, claim in value.items()}
    troubles = (volume_trouble(path, claim) for path, claim in found.items())
    if trouble := next((own for own in troubles if own), ""):
        raise Complaint(f"volumes: {trouble}")
    return found


def script(value: object) -> str:
    found = text(value)
    if not found.strip():
        raise ValueError("is empty; write the commands to run")
    return found


def word(value: object) -> str:
    """One word of a command. Numbers are welcome: `[python, train.py, --epochs, 3]`."""
    found = text(_written(value))
    if size(found) > LONGEST_WORD:
        raise ValueError(f"has {size(found):,} bytes; one word has {LONGEST_WORD:,} at most")
    return found


def variables(value: object) -> dict[str, str]:
    """Environment variables. Their values may be secrets, so no message shows one."""
    if not isinstance(value, Mapping):
        raise Complaint("envs: a table of names and values is needed, such as {EPOCHS: 3}")
    return {_variable_name(name): _variable(name, own) for name, own in value.items()}


def _variable_name(name: object) -> str:
    if not isinstance(name, str) or not name or "=" in name or not name.isprintable():
        raise Complaint(f"envs: {shown(name)} cannot be the name of a variable", str(name))
    return name


def _variable(name: str, value: object) -> str:
    if value is None:
        raise Complaint(f"envs.{name}: it has no value; write '' for an empty one", name)
    try:
        found = text(_written(value))
        if size(name) + size(found) >= LONGEST_WORD:
            raise ValueError(f"is too long; a variable has {LONGEST_WORD:,} bytes at most")
    except ValueError as error:
        raise Complaint(f"envs.{shown(name)[1:-1]}: its value {error}", name) from None
    return found


def _written(value: object) -> object:
    """Numbers and truth values as they are written in JSON; the rest as it is."""
    return json.dumps(value) if isinstance(value, int | float) else value


def notify_ways(value: object) -> list[str]:
    """`desktop`, `mail:ann@example.org`, or a list of such."""
    found = [text(own).strip() for own in (value if isinstance(value, list | tuple) else [value])]
    for way in found:
        if trouble := way_trouble(way):
            raise Complaint(f"notify: {shown(way)} {trouble}", "notify")
    return found


def notify_events(value: object) -> list[str]:
    given = value if isinstance(value, list | tuple) else str(value).split(",")
    found = [text(own).strip() for own in given]
    if wrong := [own for own in found if own not in EVENTS]:
        raise Complaint(f"notify_on: {shown(wrong[0])} is none of {', '.join(EVENTS)}", "notify_on")
    return list(dict.fromkeys(found))


def job_ids(value: object) -> list[str]:
    """One job id or a list of them."""
    return [_job_id(own) for own in (value if isinstance(value, list | tuple) else [value])]


def _job_id(value: object) -> str:
    found = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(found, str) or not JOB_ID.fullmatch(found.strip()):
        raise Complaint(f"after: {shown(value)} is not a job id, such as 12 or 12.3 (in quotes)")
    return found.strip()
