"""The command `dovetail`. Subcommands are imported only when they are called."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from dovetail.core.errors import DovetailError

_COMMANDS = {
    "demo": ("dovetail.app.demo.command", "demo", "Twelve real training jobs under two policies."),
    "simulate": ("dovetail.app.simulate_commands", "simulate", "Run a trace under one policy."),
    "compare": ("dovetail.app.simulate_commands", "compare", "Run a trace under several policies."),
    "policies": ("dovetail.app.policies_command", "policies", "List the policies and parameters."),
    "trace": ("dovetail.app.trace_commands", "trace", "Describe or generate traces."),
}


class _LazyGroup(click.Group):
    """Knows its commands by name and one line; loads one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, _, about) in _COMMANDS.items()])


@click.group(cls=_LazyGroup)
@click.version_option(package_name="dovetail")
def cli() -> None:
    """Dovetail schedules deep-learning work on GPU clusters.

    Which policy for my jobs?  dovetail compare jobs.csv --cluster 8x8 --policies fifo,srtf,las
    """


def main() -> None:
    """Run the command; a user's mistake is one line, never a traceback."""
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        _fail("stopped", 130)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except click.ClickException as error:
        _explain(error)
    except DovetailError as error:
        _fail(str(error), 1)
    except BrokenPipeError:
        # Whoever read our output has had enough, e.g. `| head`.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'the system'}: {error.strerror or error}", 1)


def _explain(error: click.ClickException) -> None:
    """Bad usage in one line, with the way to help; help itself as it is."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        error.show()
        sys.exit(error.exit_code)
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f" (see {context.command_path} --help)" if context else ""
    _fail(" ".join(error.format_message().split()).rstrip(".") + hint, error.exit_code)


def _fail(message: str, code: int) -> None:
    click.echo(f"dovetail: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
