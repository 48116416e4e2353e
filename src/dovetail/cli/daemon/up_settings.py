"""The settings of `dovetail up` from a configuration file: the table `up`, an option each.

The options themselves say what may stand there: what `up` learns, the file and its schema know.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

import click

from dovetail.client.hosts import KINDS as HOST_FIELDS
from dovetail.config_file import ConfigFile, check_known, read_config
from dovetail.core.errors import BadInput
from dovetail.home import Home
from dovetail.notify.message import EVENTS
from dovetail.notify.settings import SECURITIES, MailSettings

_NOT_IN_A_FILE: Final = ("system", "foreground", "help")  # said where the command is typed
_PATHS: Final = ("costs", "speed_table", "tls_cert", "tls_key", "kubeconfig", "power_table")


def options_of(command: click.Command) -> dict[str, click.Option]:
    """By the name in a file, which is that of the option: `free-memory`."""
    return {
        own.opts[0].removeprefix("--"): own
        for own in command.params
        if isinstance(own, click.Option) and own.name not in _NOT_IN_A_FILE
    }


def from_file(command: click.Command, place: Home) -> tuple[ConfigFile, dict[str, Any]]:
    """The file of that daemon, and what it says, by parameter."""
    file = read_config(place.config)
    _check_owner(file, place)
    known, found = options_of(command), dict[str, Any]()
    for key, value in file.table("up").items():
        name = key.replace("_", "-")
        check_known(file, name if name in known else key, tuple(known), "up")
        option = known[name]
        assert option.name is not None
        found[option.name] = _converted(file, key, option, value)
    return file, found


def fill_in(ctx: click.Context, asked: dict[str, Any], place: Home) -> dict[str, str]:
    """What was not typed is taken from the file; where each value that was said comes from."""
    file, said = from_file(ctx.command, place)
    sources = dict[str, str]()
    for name in asked:
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            sources[name] = "typed"
        elif name in said:
            asked[name] = said[name]
            sources[name] = line_of(file, name)
    return sources


def line_of(file: ConfigFile, name: str) -> str:
    written = next((key for key in file.table("up") if key.replace("-", "_") == name), name)
    return file.at("up", written)


def _converted(file: ConfigFile, key: str, option: click.Option, value: Any) -> Any:
    where = f"{file.at('up', key)}: {key}"
    values = value if option.multiple and isinstance(value, list) else [value]
    if option.multiple and not isinstance(value, list):
        raise BadInput(f'{where}: a list of texts is needed, such as ["runs=30d"]')
    for own in values:
        if not _is_of_type(own, option):
            raise BadInput(f"{where}: {own!r} is not {_needed(option)}")
    try:
        found = [option.type.convert(own, option, None) for own in values]
    except click.BadParameter as error:
        raise BadInput(f"{where}: {error.message.rstrip('.')}") from None
    if option.name in _PATHS:
        found = [_beside(file, own) for own in found]
    return tuple(found) if option.multiple else found[0]


def _is_of_type(value: object, option: click.Option) -> bool:
    if option.is_flag:
        return isinstance(value, bool)
    if isinstance(option.type, click.types.IntParamType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(option.type, click.types.FloatParamType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def _needed(option: click.Option) -> str:
    if option.is_flag:
        return "true or false"
    if isinstance(option.type, click.types.IntParamType):
        return "a whole number"
    return "a number" if isinstance(option.type, click.types.FloatParamType) else "a text"


def _beside(file: ConfigFile, text: str) -> str:
    """Paths count from the folder of the file."""
    kind, equals, path = text.rpartition("=")
    if text == "none":
        return text
    return f"{kind}{equals}{os.path.join(file.path.parent, os.path.expanduser(path))}"


def _check_owner(file: ConfigFile, place: Home) -> None:
    """Whoever can write the file of everybody's daemon decides what root does."""
    if not (place.system and file.tables):
        return
    found = file.path.stat()
    if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BadInput(
            f"{file.path} can be changed by others than root; try: chown root {file.path}; "
            f"chmod 644 {file.path}"
        )


# ---------------------------------------------------------------------------------------- schema


def schema(command: click.Command) -> dict[str, Any]:
    """Of the whole file, as JSON Schema: editors complete and check by it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Dovetail's config.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "up": {
                "description": "As if it were typed with `dovetail up`; what is typed wins.",
                "type": "object",
                "additionalProperties": False,
                "properties": dict(_properties(options_of(command))),
            },
            "notify": {
                "description": "How you are told of your jobs: docs/howto/be-told.md.",
                "type": "object",
                "additionalProperties": False,
                "properties": _notify_properties(),
            },
            "hosts": {
                "description": "Daemons of other machines, by name: dovetail --host NAME.",
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        name: {"type": "boolean" if kind is bool else "string"}
                        for name, kind in HOST_FIELDS.items()
                    },
                },
            },
        },
    }


def _notify_properties() -> dict[str, Any]:
    text = {"type": "string"}
    texts = {"type": ["array", "string"], "items": text}
    own: dict[str, dict[str, Any]] = {
        "how": texts,
        "on": {**texts, "items": {"enum": list(EVENTS)}},
        "webhook": text,
        "command": texts,
    }
    mail: dict[str, Any] = {item.name: text for item in fields(MailSettings)}
    mail |= {"port": {"type": "integer"}, "security": {"enum": list(SECURITIES)}}
    own["mail"] = {"type": "object", "additionalProperties": False, "properties": mail}
    return own


def _properties(options: Mapping[str, click.Option]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, option in options.items():
        found: dict[str, Any] = {"description": " ".join((option.help or "").split())}
        if option.multiple:
            found |= {"type": "array", "items": {"type": "string"}}
        elif option.is_flag:
            found["type"] = "boolean"
        else:
            found |= _numbers(option.type)
        yield name, found


def _numbers(kind: Any) -> dict[str, Any]:
    is_whole = isinstance(kind, click.types.IntParamType)
    if not is_whole and not isinstance(kind, click.types.FloatParamType):
        return {"type": "string"}
    bounds = {"minimum": getattr(kind, "min", None), "maximum": getattr(kind, "max", None)}
    told = {name: bound for name, bound in bounds.items() if bound is not None}
    return {"type": "integer" if is_whole else "number", **told}
