"""The command `dovetail`. Subcommands are imported only when they are called."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from dovetail.cli.lazy_group import LazyGroup, loaded
from dovetail.core.errors import DovetailError
from dovetail.extras import explained

_SECTIONS = {
    "To begin with": {
        "demo": ("dovetail.cli.demo:demo", "Twelve real jobs under two policies."),
    },
    "The daemon": {
        "up": ("dovetail.cli.daemon.up:up", "Start it: it finds the GPUs and runs the queue."),
        "down": ("dovetail.cli.daemon.up:down", "Stop it; jobs go on."),
        "doctor": (
            "dovetail.cli.daemon.doctor:doctor",
            "Say what is missing here, and how to get it.",
        ),
        "policy": (
            "dovetail.cli.daemon.policy:policy",
            "Say who decides; change it while jobs run.",
        ),
        "tenant": ("dovetail.cli.daemon.policy:tenant", "List tenants and set their quotas."),
        "limit": ("dovetail.cli.daemon.limit:limit", "List what users may have, and set it."),
        "nodes": (
            "dovetail.cli.daemon.nodes:nodes",
            "List the GPUs and who has them; close and open them.",
        ),
        "token": ("dovetail.cli.daemon.token:token", "Make and revoke tokens for other machines."),
        "top": ("dovetail.cli.daemon.top:top", "Watch it all in the terminal."),
        "dashboard": ("dovetail.cli.daemon.dashboard:dashboard", "Watch it all in a browser."),
    },
    "This installation": {
        "install": (
            "dovetail.cli.installation.commands:install",
            "Let the daemon start with the machine.",
        ),
        "uninstall": (
            "dovetail.cli.installation.commands:uninstall",
            "Take that back; jobs and journal stay.",
        ),
        "config": (
            "dovetail.cli.daemon.config:config",
            "Show and check the settings, and where they come from.",
        ),
        "completion": (
            "dovetail.cli.completion.commands:completion",
            "Completion for bash, zsh and fish.",
        ),
        "man": ("dovetail.cli.completion.commands:man", "Write manual pages."),
    },
    "Jobs": {
        "submit": (
            "dovetail.cli.jobs.submit:submit",
            "Hand in a command, a YAML file or a script.",
        ),
        "run": ("dovetail.cli.jobs.submit:run", "The same, and follow it to its end."),
        "shell": ("dovetail.cli.jobs.terminal:shell", "A shell on GPUs of its own."),
        "notebook": ("dovetail.cli.jobs.notebook:notebook", "Jupyter on GPUs of its own."),
        "attach": (
            "dovetail.cli.jobs.terminal:attach",
            "Look into a job's terminal, and type there.",
        ),
        "exec": ("dovetail.cli.jobs.beside:exec_command", "Run a command beside a job that runs."),
        "predict": ("dovetail.cli.jobs.predict:predict", "Say how long a job would run, and why."),
        "queue": ("dovetail.cli.jobs.queue:queue", "List what runs and what waits (also: ps)."),
        "show": ("dovetail.cli.jobs.queue:show", "Everything about a job."),
        "why": ("dovetail.cli.jobs.queue:why", "Say what a job waits for."),
        "whatif": (
            "dovetail.cli.jobs.whatif:whatif",
            "When would a job end, at what cost? Not handed in.",
        ),
        "logs": ("dovetail.cli.jobs.logs:logs", "Show what a job prints."),
        "wait": ("dovetail.cli.jobs.queue:wait", "Wait until jobs have ended."),
        "cancel": ("dovetail.cli.jobs.queue:cancel", "End jobs."),
        "pause": ("dovetail.cli.jobs.queue:pause", "Take jobs off their GPUs for a while."),
        "resume": (
            "dovetail.cli.jobs.queue:resume",
            "Let paused or held jobs go on (also: release).",
        ),
        "requeue": ("dovetail.cli.jobs.queue:requeue", "Let running jobs start over."),
        "again": ("dovetail.cli.jobs.again:again", "Hand in an ended job once more."),
        "prio": ("dovetail.cli.jobs.queue:prio", "Change the priority of jobs."),
        "notify": ("dovetail.cli.jobs.notify:notify", "Be told when jobs end."),
        "history": (
            "dovetail.cli.jobs.history:history",
            "List jobs that have ended; write a trace.",
        ),
        "report": ("dovetail.cli.jobs.report:report", "Who has used what: by user and tenant."),
        "costs": ("dovetail.cli.jobs.history:costs", "Say what running jobs has cost."),
        "profile": (
            "dovetail.cli.jobs.profile:profile",
            "Measure how fast a job is on 1, 2, … GPUs.",
        ),
    },
    "Studies": {
        "tune": (
            "dovetail.cli.studies.tune:tune",
            "Find good hyper-parameters: submit a study, follow it.",
        ),
        "study": (
            "dovetail.cli.studies.study:study",
            "List, show, stop, resume, report and replay studies.",
        ),
    },
    "Services": {
        "serve": (
            "dovetail.cli.serving.serve:serve",
            "Declare an inference service: replicas, one address.",
        ),
        "services": (
            "dovetail.cli.serving.services:services",
            "List, show, explain, scale, pause and stop services.",
        ),
    },
    "Simulation": {
        "simulate": ("dovetail.cli.simulation.simulate:simulate", "Run a trace under one policy."),
        "compare": ("dovetail.cli.simulation.simulate:compare", "Run it under several policies."),
        "analyze": (
            "dovetail.cli.simulation.analyze:analyze",
            "Say what matters for your jobs, and which policies to try.",
        ),
        "plan": ("dovetail.cli.simulation.plan:plan", "Decide once, on a request in JSON."),
        "bound": ("dovetail.cli.simulation.bound:bound", "How cheap could it be at all?"),
        "speeds": ("dovetail.cli.simulation.speeds:speeds", "How fast a model is on which GPUs."),
        "policies": (
            "dovetail.cli.simulation.catalogues:policies",
            "List policies and parameters.",
        ),
        "catalogue": (
            "dovetail.cli.simulation.catalogues:catalogue",
            "List all that can be named, also what packages add.",
        ),
        "trace": ("dovetail.cli.simulation.trace:trace", "Describe or generate traces."),
    },
}


_ALSO = {"ps": "queue", "release": "resume"}
_UNLISTED = {
    "there": "dovetail.cli.remote.there:there",
    "where": "dovetail.cli.remote.where:where",
}
_OF_THIS_SIDE = ("config", "completion", "man")
_ASK_NO_DAEMON = {
    *(*_SECTIONS["To begin with"], *_SECTIONS["Simulation"]),
    *(*_OF_THIS_SIDE, *_UNLISTED),
}
_WORDS = "dovetail.words"


class _Commands(LazyGroup):
    """Older habits are understood."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _UNLISTED:
            command: click.Command = loaded(_UNLISTED[cmd_name])
            return command
        return super().get_command(ctx, _ALSO.get(cmd_name, cmd_name))

    def invoke(self, ctx: click.Context) -> Any:
        ctx.meta[_WORDS] = [*ctx._protected_args, *ctx.args]
        return super().invoke(ctx)


@click.group(cls=_Commands, sections=_SECTIONS, invoke_without_command=True)
@click.version_option(package_name="dovetail")
@click.option(
    "--home",
    metavar="DIR",
    envvar="DOVETAIL_HOME",
    help="The daemon that keeps its things there, independent of others.",
)
@click.option(
    "--host",
    metavar="HOST",
    envvar="DOVETAIL_HOST",
    help="One on another machine: user@box (by ssh), https://box:7733, or a name of config.toml.",
)
@click.pass_context
def cli(ctx: click.Context, home: str | None, host: str | None) -> None:
    """Dovetail schedules deep-learning work, on this machine and in simulation.

    \b
    A queue for this machine:  dovetail up; dovetail submit -- python train.py
    Good hyper-parameters:     dovetail tune study.yaml
    Which policy for my jobs?  dovetail compare jobs.csv --cluster 8x8 --policies fifo,srtf,las
    What matters for my jobs?  dovetail analyze jobs.csv --cluster 8x8
    """
    ctx.obj = home
    if host:
        from dovetail.cli.remote.choice import choose

        choose(ctx, host, home, ctx.meta[_WORDS], _ASK_NO_DAEMON)
    if ctx.invoked_subcommand is None:
        click.echo(_FIRST_STEPS)


_FIRST_STEPS = """\
Dovetail schedules deep-learning work, on this machine and in simulation.

  dovetail up                         start the queue of this machine
  dovetail submit -- python train.py  hand in a job
  dovetail queue                      what runs and what waits
  dovetail why 3                      what job 3 waits for
  dovetail logs -f 3                  what it prints
  dovetail tune study.yaml            find good hyper-parameters
  dovetail demo                       twelve real jobs under two policies
  dovetail compare jobs.csv --cluster 8x8 --policies fifo,srtf,las

dovetail --help lists all commands, dovetail COMMAND --help says more of one."""


def main() -> None:
    """Run the command; a user's mistake is one line, never a traceback."""
    if instruction := os.environ.get("_DOVETAIL_COMPLETE"):
        from dovetail.cli.completion.shells import answer

        answer(cli, instruction)
        return
    try:
        cli(standalone_mode=False)
    except click.exceptions.Abort:
        _fail("stopped", 130)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except click.ClickException as error:
        _explain(error)
    except DovetailError as error:
        _fail(str(error), getattr(error, "exit_code", 1))
    except ModuleNotFoundError as error:
        known = explained(error)
        if known is None:
            raise
        _fail(str(known), 1)
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
    said = " ".join(error.format_message().split()).rstrip(".")
    for theirs, ours in _PLAINER.items():
        said = said.replace(theirs, ours)
    _fail(said + _others(said, context) + hint, error.exit_code)


_PLAINER = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid integer": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid float": "is not a number",
}
_FEW = 8


def _others(said: str, context: click.Context | None) -> str:
    """Instead of a command that does not exist: those like it, or all if they are few."""
    if context is None or not isinstance(context.command, click.Group):
        return ""
    if not said.startswith("No such command '") or "did you mean" in said.lower():
        return ""
    names = context.command.list_commands(context)
    from difflib import get_close_matches  # which takes its time

    near = get_close_matches(said.split("'")[1], names, 3, 0.6)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; there are {', '.join(names)}" if len(names) <= _FEW else ""


def _fail(message: str, code: int) -> None:
    click.echo(f"dovetail: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
