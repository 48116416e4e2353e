"""`dovetail completion bash|zsh|fish`, and the answers that the shells then ask for."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    _resolve_context,
    _resolve_incomplete,
)

from dovetail.cli.lazy_group import LazyGroup

VARIABLE: Final = "_DOVETAIL_COMPLETE"
# Others choose their names: what a shell would run, expand or split is not put into anybody's line.
_WORD: Final = re.compile(r"[\w@+:,./][\w@%+=:,./-]*")
SHELLS: Final = ("bash", "zsh", "fish")


class _Answers(ShellComplete):
    """Commands by their lines, without importing them; values by `completion.values`."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        context = _resolve_context(self.cli, self.ctx_args, self.prog_name, args)
        wanted, incomplete = _resolve_incomplete(context, args, incomplete)
        if isinstance(wanted, LazyGroup) and not incomplete.startswith("-"):
            return _starting(incomplete, wanted.lines())
        if isinstance(wanted, click.Parameter):
            return _values(context, wanted, incomplete)
        return wanted.shell_complete(context, incomplete)


class _Bash(_Answers, BashComplete):
    # What we know nothing of may be a file.
    source_template = BashComplete.source_template.replace("-o nosort", "-o nosort -o default")

    @staticmethod
    def _check_version() -> None:
        """Asking bash for its version takes longer than all the rest."""


class _Zsh(_Answers, ZshComplete):
    pass


class _Fish(_Answers, FishComplete):
    pass


_BY_SHELL: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def script(shell: str, cli: click.Command) -> str:
    return _BY_SHELL[shell](cli, {}, "dovetail", VARIABLE).source() + "\n"


def answer(cli: click.Command, instruction: str) -> None:
    """For the shell that asks. Whatever goes wrong, the terminal stays as it is."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    shell, _, what = instruction.partition("_")
    with suppress(Exception, SystemExit):
        maker = _BY_SHELL[shell](cli, {}, "dovetail", VARIABLE)
        click.echo(maker.source() if what == "source" else maker.complete())


# -------------------------------------------------------------------------------------- values


def _values(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from dovetail.cli.completion.values import ask, kind_of, values_for

    command = context.command_path.partition(" ")[2]
    kind, complete = kind_of(command, param), values_for(command, param)
    if kind:
        return _names(kind, incomplete)
    root = context.find_root().params
    if complete is None or root.get("host"):  # another machine is too far away for a key press
        return param.shell_complete(context, incomplete)
    already = context.params.get(param.name or "") or ()
    found = [own for own in ask(root.get("home"), complete) if own[0] not in already]
    return _starting(incomplete, found)


def _names(kind: str, incomplete: str) -> list[CompletionItem]:
    """Also the last of several: `fifo,sr`."""
    from dovetail.cli.named import catalogue_of

    before, comma, last = incomplete.rpartition(",")
    names = [name for name in catalogue_of(kind).names() if name.startswith(last)]
    return [CompletionItem(f"{before}{comma}{name}") for name in names]


def _starting(incomplete: str, found: Iterable[tuple[str, Any]]) -> list[CompletionItem]:
    return [
        CompletionItem(value, help=_plain(str(told)))
        for value, told in found
        if value.startswith(incomplete) and _WORD.fullmatch(value)
    ]


def _plain(text: str) -> str:
    """Nothing that a terminal would take for more than text."""
    return "".join(own if own.isprintable() else "?" for own in text)
