"""Commands that are imported only when they are called: each is known by its place and one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeAlias

import click

Sections: TypeAlias = Mapping[str, Mapping[str, tuple[str, str]]]


def loaded(place: str) -> Any:
    """The object at a place such as `dovetail.cli.jobs.queue:why`."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class LazyGroup(click.Group):
    """`sections`: by title and name, the place of a command and its line in the help."""

    def __init__(self, *args: Any, sections: Sections, **more: Any) -> None:
        super().__init__(*args, **more)
        self._sections = sections
        self._places = {
            name: place for section in sections.values() for name, (place, _) in section.items()
        }

    def lines(self) -> Iterator[tuple[str, str]]:
        """Every command with its line in the help; none of them is imported."""
        for name, command in self.commands.items():
            yield name, command.get_short_help_str(80)
        for section in self._sections.values():
            for name, (_, line) in section.items():
                yield name, line

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._places]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return super().get_command(ctx, cmd_name)
        command: click.Command = loaded(self._places[cmd_name])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [(name, command.get_short_help_str(80)) for name, command in self.commands.items()]
        for title, section in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([*own, *((name, line) for name, (_, line) in section.items())])
            own = []
