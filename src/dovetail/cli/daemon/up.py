"""`dovetail up` and `dovetail down`: the daemon's process is started, and asked to stop."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dovetail.api.job_row import Ids
from dovetail.api.machine_row import Counts, Health, NodeRow, Nodes
from dovetail.api.service_row import ServicesTold
from dovetail.api.wire import read
from dovetail.cli.daemon.policy import predictor, with_predictor
from dovetail.cli.daemon.up_settings import fill_in
from dovetail.cli.named import Named
from dovetail.cli.reach import command_again
from dovetail.client.connection import Client, DaemonUnreachable
from dovetail.core.errors import BadInput, DovetailError
from dovetail.extras import check_live
from dovetail.home import Home, check_own, find_home, home_in, system_home
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text

_STARTS_WITHIN_S = 120.0
_STOPS_WITHIN_S = 60.0


class DidNotStart(DovetailError):
    """The daemon ended before it could be asked anything."""


@click.command()
@click.option("--policy", help="Who goes first, such as srtf.  [as last time, else fair-share]")
@predictor
@click.option(
    "--world",
    type=Named("worlds"),
    help="Where jobs run.  [as last time, else local: this machine]",
)
@click.option("--kubeconfig", metavar="FILE", help="With --world kubernetes: how it is reached.")
@click.option("--context", help="Which cluster of that file.  [its current one]")
@click.option("--namespace", help="Where jobs of no tenant run.  [that of the context]")
@click.option("--slots", type=click.IntRange(1, 4096), help="Processor slots, instead of GPUs.")
@click.option(
    "--gpus",
    metavar="NUMBERS",
    help="Only these, such as 0,2-3 (as nvidia-smi counts, or UUIDs); all for all.  [as last time]",
)
@click.option(
    "--free-memory",
    metavar="PART|GB",
    help="GPUs of which others leave less, such as 90% or 70, are left alone; any: those that others "
    "use at all.  [as last time, else any]",
)
@click.option(
    "--suspended-gb",
    type=click.FloatRange(0),
    metavar="GB",
    help="Main memory that suspended jobs may take up.  [60 % of all]",
)
@click.option(
    "--speed-table",
    metavar="FILE",
    help="CSV model,kind,gpus,steps_per_s: for policies that know speeds; none to forget it.  "
    "[as last time]",
)
@click.option(
    "--costs",
    metavar="FILE",
    help="TOML: prices and watts; none to forget them.  [as last time]",
)
@click.option(
    "--power-table",
    multiple=True,
    metavar="[KIND=]FILE",
    help="CSV: time and watts of models under power limits; none to forget it.  [as last time]",
)
@click.option(
    "--keep",
    multiple=True,
    metavar="WHAT=HOW",
    help="runs=30d, runs=100GB, journal=1y, environments=no.  [as last time]",
)
@click.option("--listen", metavar="HOST:PORT", help="Also over TCP, for who has the token.")
@click.option("--tls-cert", metavar="FILE", help="With --listen: the certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="Its key.  [in the same file]")
@click.option(
    "--without-tls", is_flag=True, help="With --listen: the network is safe, others cannot read."
)
@click.option("--system", is_flag=True, help="For everybody on this machine (as root).")
@click.option(
    "--group", help="With --system: whose members may use it.  [as last time, else dovetail]"
)
@click.option(
    "--admins",
    metavar="GROUP",
    help="With --system: whose members administer it besides root; none for nobody.  "
    "[as last time]",
)
@click.option("--foreground", is_flag=True, help="Stay here; Ctrl-C stops it.")
@click.pass_context
def up(ctx: click.Context, /, system: bool, foreground: bool, **asked: Any) -> None:
    """Start the daemon. Jobs of a daemon before it go on.

    What is not typed is taken from the configuration file, if it stands there: dovetail config.
    """
    place = place_for(ctx.obj, system)
    sources = fill_in(ctx, asked, place)
    for name in ("group", "admins"):
        if asked[name] and not place.system:
            raise click.UsageError(f"--{name} goes with --system")
    check_tls(asked)
    asked["world"] = with_cluster(asked["world"], asked)
    named = asked.pop("predictor")
    if named and not asked["policy"]:
        raise click.UsageError("--predictor goes with --policy, such as --policy qssf")
    asked["policy"] = asked["policy"] and with_predictor(asked["policy"], named)
    for name in ("costs", "speed_table", "tls_cert", "tls_key"):
        if asked[name] not in (None, "none"):
            asked[name] = os.path.abspath(asked[name])  # the daemon runs elsewhere
    asked["power_table"] = [_absolute(text) for text in asked["power_table"]] or None
    asked["keep"] = list(asked["keep"]) or None
    client = Client(place, timeout_s=10.0)
    running = _health(client)
    if running is not None:
        click.echo(f"Dovetail is up already (process {running.pid}, {place.socket}).")
        _say_what_is_not_heeded(asked, running.system)
        return
    check_live()
    _prepare(place)
    command = [
        sys.executable,
        "-m",
        "dovetail.daemon",
        _settings(place, {**asked, "sources": sources}),
    ]
    if foreground:
        click.echo(f"Dovetail serves {place.socket}; Ctrl-C stops it, its jobs go on.", err=True)
        os.execv(sys.executable, command)
    start(command, place)
    _greet(client, place, asked)


def with_cluster(world: str | None, asked: dict[str, Any]) -> str | None:
    """`--world kubernetes --context there` is `--world kubernetes:context=there`."""
    given = {name: asked.pop(name) for name in ("kubeconfig", "context", "namespace")}
    if given["kubeconfig"]:
        given["kubeconfig"] = os.path.abspath(given["kubeconfig"])
    parts = [f"{name}={value}" for name, value in given.items() if value]
    if not parts:
        return world
    if world is None or world.partition(":")[0] != "kubernetes":
        raise click.UsageError(f"--{parts[0].partition('=')[0]} goes with --world kubernetes")
    return ":".join((world, *parts))


def check_tls(asked: Mapping[str, Any]) -> None:
    for name in ("tls_cert", "without_tls"):
        if asked[name] and not asked["listen"]:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --listen")
    if asked["tls_key"] and not asked["tls_cert"]:
        raise click.UsageError("--tls-key goes with --tls-cert")


def _absolute(text: str) -> str:
    """`V100=zeus.csv`, or a file alone."""
    kind, equals, path = text.rpartition("=")
    return text if text == "none" else f"{kind}{equals}{os.path.abspath(path)}"


def place_for(home: str | None, system: bool, as_root: bool = True) -> Home:
    if not system:
        return find_home(home)
    if as_root and os.geteuid() != 0:
        raise BadInput("--system is for everybody on this machine: start it as root")
    return replace(home_in(Path(home)), system=True) if home else system_home()


def _health(client: Client) -> Health | None:
    try:
        return read(Health, client.get("/v1/health"))
    except DaemonUnreachable as error:
        if "permission" in str(error) or "not open to you" in str(error):
            raise
        return None


def _say_what_is_not_heeded(asked: Mapping[str, Any], system: bool) -> None:
    if asked["policy"]:
        click.echo(f"To change its policy: {command_again()} policy set NAME", err=True)
    if any(value not in (None, False) for name, value in asked.items() if name != "policy"):
        anew = f"{command_again()} down, then up{' --system' if system else ''}"
        click.echo(f"To start it anew with these options: {anew}", err=True)


def _prepare(place: Home) -> None:
    mode = 0o711 if place.system else 0o700
    try:
        place.state.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make the folder {place.state}: {error.strerror}") from None
    check_own(place)  # before anything is opened there
    if not os.access(place.state, os.W_OK | os.X_OK):
        raise BadInput(f"the folder {place.state} cannot be written; name another with --home")


def _settings(place: Home, asked: Mapping[str, Any]) -> str:
    told = {"state": str(place.state), "socket": str(place.socket), "system": place.system}
    return json.dumps({**told, **asked})


# ------------------------------------------------------------------------------------ starting it


def start(command: list[str], place: Home) -> None:
    """In a session of its own, with nothing of ours but a pipe on which it tells that it is ready."""
    import subprocess

    listening, telling = os.pipe()
    log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    seen = os.fstat(log).st_size
    try:
        process = subprocess.Popen(
            [*command, str(telling)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            pass_fds=[telling],
            start_new_session=True,
        )
    finally:
        os.close(telling)
        os.close(log)
    said = _hear(listening, place)
    if said != b"1":
        process.wait()
        raise DidNotStart(_why_not(said, place.log, seen))
    process.returncode = 0  # it is not ours to wait for


def _hear(listening: int, place: Home) -> bytes:
    import select

    told, _, _ = select.select([listening], [], [], _STARTS_WITHIN_S)
    if not told:
        raise DidNotStart(
            f"the daemon has not come up in {_STARTS_WITHIN_S:.0f} s and still tries; "
            f"see {place.log}"
        )
    with open(listening, "rb", buffering=0) as pipe:
        return pipe.read(4096) or b""


def _why_not(said: bytes, log: Path, seen: int) -> str:
    """Its own words; else the last line it left behind."""
    if said:
        return f"the daemon did not start: {said.decode(errors='replace')}"
    with open(log, errors="replace") as file:
        file.seek(seen)
        lines = [line.strip() for line in file if line.strip()]
    last = lines[-1] if lines else "it said nothing"
    return f"the daemon did not start: {last[:300]} (see {log})"


def _greet(client: Client, place: Home, asked: Mapping[str, Any]) -> None:
    health = read(Health, client.get("/v1/health"))
    nodes = read(Nodes, client.get("/v1/nodes")).nodes
    jobs = health.jobs
    click.echo(f"Dovetail is up: {told_of(nodes)}, policy {health.policy}.")
    if jobs.running or jobs.waiting:
        click.echo(f"  jobs    {jobs.running:,} go on, {jobs.waiting:,} wait")
    click.echo(f"  socket  {place.socket}")
    if asked["listen"]:
        how = "https" if asked["tls_cert"] else "http"
        click.echo(f"  listens at {how}://{asked['listen']}; its own token is in {place.token},")
        click.echo(
            f"          and everybody makes one of their own: {command_again()} token create"
        )
    if asked["without_tls"]:
        click.echo("  warning what is said there, the token too, can be read on the way", err=True)
    for notice in health.notices:
        click.echo(f"  notice  {notice}")
    if health.trouble:
        click.echo(f"  notice  {health.trouble}")
    for notice in (*health.power, health.costs):
        if notice:
            click.echo(f"  notice  {notice}")
    click.echo(f"  try     {command_again()} submit -- python train.py")


def told_of(nodes: Sequence[NodeRow]) -> str:
    """`2 H200 GPUs` or `8 processor slots`."""
    told = [
        counted(len(node.gpus), "processor slot" if node.kind == "cpu" else f"{node.kind} GPU")
        for node in nodes
    ]
    return ", ".join(told) or "nothing to run on"


# ------------------------------------------------------------------------------------ stopping it


@click.command()
@click.option("--cancel", is_flag=True, help="Stop all services and cancel all jobs first.")
@click.pass_obj
def down(home: str | None, cancel: bool) -> None:
    """Stop the daemon. Its jobs go on, and the next daemon takes them on again."""
    place = find_home(home)
    client = Client(place)
    health = _health(client)
    if health is None:
        _stop_by_signal(place)
        return
    if cancel:
        _stop_services(client)
        _cancel_all(client, place, read(Health, client.get("/v1/health")).jobs)
    jobs = read(Health, client.get("/v1/health")).jobs
    client.post("/v1/stop")
    client.close()
    _wait_until_gone(health.pid)
    click.echo(f"Dovetail is down{_told_left(jobs, health.system)}.")


def _stop_by_signal(place: Home) -> None:
    """A daemon whose socket was removed cannot be asked, but it says who it is."""
    from dovetail.worlds.local.runs.processes import is_alive

    try:
        note = json.loads(place.note.read_text())
    except (OSError, ValueError):
        note = {}
    if not note or not is_alive(note["pid"], note["started"]):
        click.echo(f"Dovetail is not up ({place.socket}).")
        return
    os.kill(note["pid"], signal.SIGTERM)
    _wait_until_gone(note["pid"])
    click.echo(f"Dovetail is down; its socket {place.socket} was gone. Its jobs go on.")


def _told_left(jobs: Counts, system: bool) -> str:
    if not (jobs.running or jobs.waiting):
        return ""
    told = f"; {counted(jobs.running, 'job')} still running, {jobs.waiting:,} waiting"
    return f"{told}: {command_again()} up{' --system' if system else ''} takes them on again"


def _stop_services(client: Client) -> None:
    """Or each replica that is cancelled would be followed by another."""
    for row in read(ServicesTold, client.get("/v1/services")).services:
        client.post(f"/v1/services/{row.id}/stop")
        click.echo(f"Stopped service {row.name}.")


def _cancel_all(client: Client, place: Home, jobs: Counts) -> None:
    if jobs.running or jobs.waiting:
        ended = read(Ids, client.post("/v1/jobs/cancel", {"ids": ["*"]})).ids
        click.echo(f"Cancelled {counted(len(ended), 'job')}.")
    live = place.runs / "live"  # has an entry for each job with processes
    until = time.monotonic() + _STOPS_WITHIN_S
    while _has_any(live) and time.monotonic() < until:
        time.sleep(0.05)


def _has_any(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def _wait_until_gone(pid: int) -> None:
    until = time.monotonic() + _STOPS_WITHIN_S
    while _lives(pid):
        if time.monotonic() > until:
            raise BadInput(
                f"the daemon (process {pid}) was told to stop, but has not in "
                f"{duration_text(_STOPS_WITHIN_S)}"
            )
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    """A process that nobody has waited for yet counts as gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False
