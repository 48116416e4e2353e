"""Manual pages, made from the same texts as `--help`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from dovetail.cli.lazy_group import LazyGroup
from dovetail.version import version


def pages(cli: click.Command) -> dict[str, str]:
    """By file name."""
    with click.Context(cli, info_name="dovetail") as root:
        named = ((own.command_path.replace(" ", "-"), own) for own in contexts(root))
        return {f"{name}.1": "\n".join(_page(own, name)) + "\n" for name, own in named}


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Of a command and, after it, of every command below it."""
    yield context
    command = context.command
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            if found is not None and not found.hidden:
                with click.Context(found, info_name=sub, parent=context) as inner:
                    yield from contexts(inner)


def usage(context: click.Context) -> str:
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def options(context: click.Context) -> list[tuple[str, str]]:
    """What can be typed, and what the help says of it."""
    records = [own.get_help_record(context) for own in context.command.get_params(context)]
    return [(own[0], " ".join(own[1].split())) for own in records if own is not None and own[1]]


def paragraphs(command: click.Command) -> list[str]:
    """Of its help. One with \\b stands as it is, line by line."""
    text = (command.help or "").replace("\r", "")
    return [own for own in text.split("\n\n") if own.strip()] or ["no more is said"]


def _page(context: click.Context, name: str) -> Iterator[str]:
    first, *rest = paragraphs(context.command)
    yield f'.TH "{name.upper()}" "1" "" "Dovetail {version()}" "User Commands"'
    yield from (".nh", ".ad l")
    yield from (".SH NAME", f"{_text(name)} \\- {_text(' '.join(first.split()).rstrip('.'))}")
    yield from (".SH SYNOPSIS", f".B {_text(usage(context))}")
    if rest:
        yield ".SH DESCRIPTION"
        for paragraph in rest:
            yield from _paragraph(paragraph)
    yield from _options(context)
    yield from _commands(context)
    if context.parent is not None:
        yield from (
            ".SH SEE ALSO",
            f".BR {_text(context.parent.command_path.replace(' ', '-'))} (1)",
        )


def _paragraph(text: str) -> Iterator[str]:
    """One that starts with \\b stands as it is, line by line."""
    if "\b" not in text:
        yield from (".PP", _text(" ".join(text.split())))
        return
    yield from (".PP", ".nf")
    yield from [_text(line) for line in text.replace("\b", "").splitlines() if line.strip()]
    yield ".fi"


def _options(context: click.Context) -> Iterator[str]:
    found = options(context)
    if found:
        yield ".SH OPTIONS"
    for words, told in found:
        yield from (".TP", f".B {_text(words)}", _text(told))


def _commands(context: click.Context) -> Iterator[str]:
    command = context.command
    if not isinstance(command, click.Group):
        return
    yield ".SH COMMANDS"
    lines = dict(command.lines()) if isinstance(command, LazyGroup) else {}
    for sub in command.list_commands(context):
        found = command.get_command(context, sub)
        told = lines.get(sub) or (found.get_short_help_str(200) if found else "")
        yield from (".TP", f".B {_text(sub)}", _text(told))


def _text(text: str) -> str:
    """As roff takes it: no line is a request, no hyphen is typeset."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("\b", "")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
