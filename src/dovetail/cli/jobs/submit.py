"""`dovetail submit` and `dovetail run`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import Any, TypeVar

import click

from dovetail.api.job_row import SubmittedJobs, WouldBe
from dovetail.api.wire import plain, read
from dovetail.cli.reach import as_json, command_again, found_jobs, with_client
from dovetail.client.connection import Client, RequestRefused
from dovetail.client.shell import job_as_sent
from dovetail.jobfiles.merging import merged
from dovetail.text.counting import counted
from dovetail.text.promises import promise_text

Answer = TypeVar("Answer")


class SubmitCommand(click.Command):
    """Notes whether its words stand behind `--`: then they are a command, else a file and its
    arguments. Options end with the first word, so that a program keeps its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        words = ctx.params.get("words") or ()
        before = len(given) - len(words) - 1
        ctx.meta["is_command"] = before >= 0 and given[before] == "--"
        return rest


def described_job(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is to run, and the options that describe the job."""
    words = click.argument(
        "words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND... | FILE"
    )
    return words(job_options(command))


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe a job."""
    return _with_choices(
        command, [*_what_it_needs(), *_when_it_runs(), _array, *_how_it_is_treated("yes")]
    )


def changed_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a job that is there: what is not said stays as it was."""
    command = job_options(command)
    for own in command.__click_params__:  # type: ignore[attr-defined]
        own.help = None if own.help is None else own.help.partition("  [")[0]
    return command


def seat_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Those of a job at which somebody sits: it is one, and does not give way unless it says so."""
    return _with_choices(command, [*_what_it_needs(), *_when_it_runs(), *_how_it_is_treated("no")])


def _with_choices(command: Callable[..., Any], choices: Choices) -> Callable[..., Any]:
    for choice in reversed(choices):
        command = choice(command)
    return command


Choices = list[Callable[..., Any]]


def _what_it_needs() -> Choices:
    text = click.option
    return [
        text("--name", help="What listings call it."),
        click.option("--gpus", type=click.IntRange(0), help="GPUs or slots.  [1]"),
        text("--kind", metavar="KIND[,KIND]", help="GPU kinds of which any will do."),
        text("--gpu-memory", metavar="SIZE", help="That each GPU must have: 20GB."),
        text("--share", metavar="PART", help="Part of one GPU: 0.25 or 25%."),
        text("--cpus", metavar="N", help="Processors."),
        text("--memory", metavar="SIZE", help="Main memory: 32GB."),
    ]


def _when_it_runs() -> Choices:
    text = click.option
    return [
        click.option("--priority", type=float, help="Higher goes first.  [0]"),
        click.option("--nice", type=int, help="The same as --priority, with the other sign."),
        text("--deadline", metavar="WHEN", help="+2h, friday, or '2026-12-01 18:00'."),
        text("--late-cost", metavar="X/TIME", help="Money for the time beyond it: 0.5/h."),
        text("--time-limit", metavar="TIME", help="It is stopped after that: 2h30m."),
        text("--estimate", metavar="TIME", help="How long you think it will run."),
        text(
            "--option",
            metavar="KIND:N=TIME",
            multiple=True,
            help="What it takes with N GPUs of a kind: H100:2=70m.",
        ),
        text("--profile", metavar="FILE[@STEPS]", help="The same, from dovetail profile."),
        text("--after", metavar="ID", multiple=True, help="Not before these have finished."),
        text("--after-any", metavar="ID", multiple=True, help="Not before these have ended."),
        text("--after-failed", metavar="ID", multiple=True, help="Only once these have failed."),
        text("--begin", metavar="WHEN", help="Not before that: +2h, 22:00, 'friday 18:00'."),
        click.option("--hold", is_flag=True, help="Not before dovetail resume releases it."),
    ]


_array = click.option("--array", metavar="INDICES", help="Once per index: 0-9, 1,3,5, or 0-99%4.")


def _how_it_is_treated(gives_way: str) -> Choices:
    text = click.option
    return [
        click.option("--retries", type=click.IntRange(0), help="Further attempts if it fails."),
        text("--tenant", help="Whose quota it counts against."),
        text("--model", help="What it trains, for policies that know its speed: resnet50@64."),
        text("--group", help="The study or pipeline it belongs to."),
        click.option(
            "--preemptible/--no-preemptible",
            default=None,
            help=f"May it be made to give way?  [{gives_way}]",
        ),
        click.option(
            "--restartable", is_flag=True, help="Even by starting over from its beginning."
        ),
        text("--grace", metavar="TIME", help="It saves itself on SIGTERM, in that time."),
        text("--checkpoint-dir", metavar="DIR", help="It saves itself on SIGTERM, there."),
        text("--workdir", metavar="DIR", help="Folder to run in, instead of this one."),
        text("--image", metavar="NAME", help="Container image to run in, by podman or docker."),
        text("--env", metavar="NAME=VALUE", multiple=True, help="Besides those of this shell."),
        text(
            "--notify",
            metavar="HOW",
            multiple=True,
            help="desktop, mail, webhook, https://…, command.",
        ),
        text("--notify-on", metavar="WHEN", help="Of end, failure, start.  [end]"),
        text("--output", metavar="FILE", help="Also write what it prints there: train-%j.out."),
        text("--error", metavar="FILE", help="The same for its errors alone."),
    ]


SETTINGS = {"allow_interspersed_args": False}


@click.command(cls=SubmitCommand, context_settings=SETTINGS)
@described_job
@click.option("--dry-run", is_flag=True, help="Say whether it would be taken; hand in nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Print the id and nothing else.")
@as_json
@click.pass_context
@with_client
def submit(
    client: Client, ctx: click.Context, dry_run: bool, quiet: bool, as_json: bool, **asked: Any
) -> None:
    """Hand in a job: a command behind --, a YAML file, or a script (#SBATCH lines are read)."""
    is_command = ctx.meta["is_command"]
    if dry_run:
        with_spec(asked, is_command, lambda spec: _say_what_would_be(client, spec, as_json))
        return
    say_submitted(submitted(client, asked, is_command), quiet, as_json)


def _say_what_would_be(client: Client, spec: Mapping[str, Any], as_json: bool) -> None:
    found = _asked_with_members(client, spec, lambda own: _check(client, own))
    if as_json:
        click.echo(json.dumps(vars(found)))
        return
    each = " each" if found.jobs > 1 else ""
    told = f"{counted(found.jobs, 'job')} of {counted(found.gpus, 'GPU')}{each}"
    again = f"{command_again()} whatif says when it would start"
    click.echo(f"It would be taken: {told}. Nothing was handed in; {again}.")


def _check(client: Client, spec: Mapping[str, Any]) -> WouldBe:
    return read(WouldBe, client.post("/v1/jobs/check", {"jobs": [job_as_sent(spec)]}))


def say_submitted(found: SubmittedJobs, quiet: bool, as_json: bool, note: str = "") -> None:
    ids = found.ids
    whole = ids[0].partition(".")[0]
    if as_json:
        told = {"id": whole, "ids": ids} if "." in ids[0] else {"id": whole}
        click.echo(json.dumps(told | _deadlines_json(found)))
    elif quiet:
        click.echo(whole)
    elif "." in ids[0]:
        number = counted(len(ids), "job")
        click.echo(f"Submitted array {whole}: {number}, {_first_and_last(ids)}{note}.")
        _tell_deadlines(found)
    else:
        click.echo(f"Submitted job {ids[0]}{note}.")
        _tell_deadlines(found)


def _deadlines_json(found: SubmittedJobs) -> dict[str, Any]:
    return {"deadlines": plain(found.deadlines)} if found.deadlines else {}


def _tell_deadlines(found: SubmittedJobs) -> None:
    """Of an array: how many are promised, and why the first of the others is not."""
    told = found.deadlines
    kept = [one for one in told if one.promised]
    if len(told) > 1:
        click.echo(f"Promised: the deadlines of {len(kept)} of {counted(len(told), 'job')}.")
    first = next((one for one in told if not one.promised), told[0] if told else None)
    if first is not None and (len(told) == 1 or not first.promised):
        which = "Its deadline" if len(told) == 1 else f"That of {first.id}"
        click.echo(f"{which} is {promise_text(first, time())}.")


def _first_and_last(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"


@click.command(cls=SubmitCommand, context_settings=SETTINGS)
@described_job
@click.option("-n", "--no-stdin", is_flag=True, help="Do not pass on what comes to this command.")
@click.option(
    "-i", "-t", "--interactive", is_flag=True, help="In a terminal, as dovetail shell: -it."
)
@click.option("--linger", metavar="TIME", default="10m", help="With -it: see dovetail shell.")
@click.option("--detach-key", metavar="KEY", default="ctrl-]", help="With -it: see dovetail shell.")
@click.pass_context
@with_client
def run(
    client: Client,
    ctx: click.Context,
    no_stdin: bool,
    interactive: bool,
    linger: str,
    detach_key: str,
    **asked: Any,
) -> None:
    """Submit a job, pass its input on, show what it prints, and end with its exit code.

    Ctrl-C cancels it. With -it it runs in a terminal, and Ctrl-C is its own.
    """
    if interactive:
        from dovetail.cli.jobs.terminal import run_in_terminal

        run_in_terminal(client, asked, ctx.meta["is_command"], linger, detach_key)
    if asked["array"]:
        raise click.UsageError("run follows one job; hand in an array with dovetail submit")
    from dovetail.cli.jobs.attached import are_apart, attend, has_input, send_input

    is_command = ctx.meta["is_command"]
    describes = not is_command and asked["words"][:1] == ("-",)  # what comes is the description
    streams = {"apart": are_apart(), "stdin": not (no_stdin or describes) and has_input()}
    ids = submitted(client, asked, is_command, streams).ids
    if "." in ids[0]:
        click.echo(f"Submitted array {ids[0].partition('.')[0]}; following {ids[0]}.", err=True)
    if streams["stdin"]:
        send_input(client, ids[0])
    sys.exit(attend(client, ids[0], streams["apart"]))


# ------------------------------------------------------------------------------------ what is sent


def submitted(
    client: Client,
    asked: Mapping[str, Any],
    is_command: bool,
    streams: Mapping[str, Any] | None = None,
) -> SubmittedJobs:
    """The job that the words and options describe, handed in."""
    return with_spec(asked, is_command, lambda spec: _send(client, spec, streams or {}))


def with_spec(
    asked: Mapping[str, Any], is_command: bool, send: Callable[[Mapping[str, Any]], Answer]
) -> Answer:
    """Send the job that the words and options describe; of a file that is refused, say the line."""
    words = list(asked["words"])
    if not words:
        raise click.UsageError("say what to run: -- COMMAND, or a file")
    if is_command:
        return send(described(asked) | {"command": words})
    from dovetail.jobfiles.any_file import read

    spec = read(words[0], words[1:])
    try:
        return send(merged(spec.fields, described(asked)))  # the options have the last word
    except RequestRefused as error:
        if error.status == 422 and spec.explain is not None:
            spec.explain()
        raise


def _send(client: Client, spec: Mapping[str, Any], streams: Mapping[str, Any]) -> SubmittedJobs:
    if "terminal" in streams:
        spec = {
            "preemptible": False,
            **spec,
        }  # somebody sits there: it gives way only if they say so

    def send(own: Mapping[str, Any]) -> SubmittedJobs:
        job = {**job_as_sent(own), **streams}
        found = read(SubmittedJobs, client.post("/v1/jobs", {"jobs": [job]}))
        warn_of_ways(client, job["spec"].get("notify"))
        return found

    return _asked_with_members(client, spec, send)


def warn_of_ways(client: Client, ways: str | Sequence[str] | None) -> None:
    """It is taken on all the same: what is missing may be set up before it ends."""
    if not ways:
        return
    from dovetail.client.notify_settings import is_here, notify_settings, troubles_of

    if is_here(client):
        for trouble in troubles_of([ways] if isinstance(ways, str) else ways, notify_settings()):
            click.echo(f"dovetail: warning: {trouble}", err=True)


def _asked_with_members(
    client: Client, spec: Mapping[str, Any], ask: Callable[[Mapping[str, Any]], Answer]
) -> Answer:
    try:
        return ask(spec)
    except RequestRefused as error:
        members = with_members(client, spec) if error.status == 404 else spec
        if members != spec:
            return _asked_with_members(client, members, ask)
        told = str(error).removeprefix("jobs[0].spec").lstrip(".: ")
        raise RequestRefused(error.status, told) from None


def with_members(client: Client, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """To come after an array is to come after each of its members."""
    lists = {name: spec[name] for name in _AFTER if isinstance(spec.get(name), list)}
    found = {
        name: [row.id for one in own for row in found_jobs(client, str(one))]
        for name, own in lists.items()
    }
    return {**spec, **found}


_AFTER = ("after", "after_any", "after_failed")
_PLAIN = (
    *("name", "priority", "deadline", "late_cost", "time_limit", "estimate", "array", "retries"),
    *("tenant", "group", "model", "workdir", "image", "begin", "output", "error"),
)
_RESOURCES = ("gpus", "gpu_memory", "share", "cpus", "memory")


def described(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the job's description that options were given for."""
    fields = {name: asked[name] for name in _PLAIN if asked.get(name) is not None}
    resources = {name: asked[name] for name in _RESOURCES if asked[name] is not None}
    if asked["kind"]:
        resources["any_of"] = asked["kind"].split(",")
    checkpoint = {"grace": asked["grace"], "dir": asked["checkpoint_dir"]}
    checkpoint = {name: own for name, own in checkpoint.items() if own is not None}
    if asked["nice"] is not None:
        if asked["priority"] is not None:
            raise click.UsageError("--nice and --priority say the same thing; give one of them")
        fields["priority"] = -asked["nice"]
    parts: dict[str, Any] = {
        "resources": resources,
        "checkpoint": checkpoint,
        **{name: [one for own in asked[name] for one in own.split(",")] for name in _AFTER},
        "hold": asked["hold"] or None,
        "notify": list(asked["notify"]),
        "notify_on": asked["notify_on"],
        "envs": dict(map(_variable, asked["env"])),
        "preemptible": _preemptible(asked),
        "options": _options(asked["option"]),
        "profile": asked["profile"],
    }
    return fields | {name: own for name, own in parts.items() if own not in ({}, [], None)}


def _options(given: Sequence[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for text in given:
        way, equals, time = text.partition("=")
        kind, colon, gpus = way.rpartition(":")
        if not (equals and colon):
            raise click.BadParameter(f"--option {text}: write KIND:N=TIME, such as H100:2=70m")
        found.setdefault(kind, {})[gpus] = time
    return found


def _preemptible(asked: Mapping[str, Any]) -> bool | str | None:
    if asked["restartable"]:
        if asked["preemptible"] is False:
            raise click.UsageError("--restartable and --no-preemptible contradict each other")
        return "restart"
    found: bool | None = asked["preemptible"]
    return found


def _variable(text: str) -> tuple[str, str]:
    """NAME=VALUE, or the NAME of a variable that is set here."""
    name, equals, value = text.partition("=")
    if not equals and name not in os.environ:
        raise click.BadParameter(f"--env {text}: write NAME=VALUE; there is no {name} here")
    return name, value if equals else os.environ[name]
