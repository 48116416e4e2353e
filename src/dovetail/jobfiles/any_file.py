"""Files that describe a job: YAML, batch scripts, any script."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any, NamedTuple

import click

from dovetail.core.errors import BadInput
from dovetail.jobfiles.sbatch_lines import MARK, is_script

_SHELL_SCRIPTS = (".sh", ".bash")
_PROGRAMS = {".py": "python ", ".ipynb": "jupyter nbconvert --execute "}


class Described(NamedTuple):
    fields: Mapping[str, Any]
    explain: Callable[[], object] | None = None  # says more of a description that was refused


def read(path: str, args: list[str]) -> Described:
    _refuse_what_is_none(path)
    from dovetail.jobfiles.yaml_files import parse_yaml, text_of, unchecked

    text = text_of(path)
    source = "standard input" if path == "-" else path
    if is_script(text) or path.endswith(_SHELL_SCRIPTS):
        return Described(_script(text, args, path))
    end = os.path.splitext(path)[1]
    if end in _PROGRAMS:
        raise BadInput(
            f"{path} has no #! line; to run it: {_typed()} -- {_PROGRAMS[end]}{quote(path)}"
        )
    if args:
        raise BadInput(f"{source} is a description in YAML and takes no arguments: {args[0]!r}")
    found = unchecked(text, source)
    if not isinstance(found, Mapping):
        parse_yaml(text, source)  # says what is wrong with it
        raise BadInput(f"{source}: a table of fields is needed")
    return Described(found, lambda: parse_yaml(text, source))


def _refuse_what_is_none(path: str) -> None:
    if path == "-" or os.path.isfile(path):
        return
    if os.path.isdir(path):
        raise BadInput(f"{path} is a folder; name a file, or a command behind --")
    raise BadInput(f"there is no file {path!r}; for a command: {_typed()} -- {quote(path)} …")


def _typed() -> str:
    """Whichever of those that take a description was typed."""
    context = click.get_current_context(silent=True)
    return f"dovetail {context.info_name if context else 'submit'}"


def _script(text: str, args: list[str], path: str) -> dict[str, Any]:
    """Without #SBATCH lines it is a script like any other, and gets a GPU like any other job."""
    if f"\n{MARK}" not in f"\n{text}":
        fields: dict[str, Any] = {"run": text, **({"args": args} if args else {})}
    else:
        from dovetail.jobfiles.sbatch import parse_sbatch

        fields, notices = parse_sbatch(text, args, source=path)
        for notice in notices:
            click.echo(f"dovetail: {path}: {notice}", err=True)
    return {"name": os.path.basename(path) if path != "-" else "", **fields}
