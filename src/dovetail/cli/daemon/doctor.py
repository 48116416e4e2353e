"""`dovetail doctor`: looks at everything that may be missing, and says what to do about it."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence

import click

from dovetail.api.machine_row import Acknowledged, Findings, Gpu, Health, NodeRow, Nodes
from dovetail.api.wire import read
from dovetail.cli.reach import as_json as as_json_option
from dovetail.cli.reach import command_again, print_json
from dovetail.client.connection import Client, RequestRefused
from dovetail.core.errors import DovetailError
from dovetail.home import Home, find_home
from dovetail.text.counting import counted
from dovetail.text.durations import duration_text
from dovetail.text.tables import has_colours, paint
from dovetail.version import version
from dovetail.worlds.world import BAD, GOOD, NOTE, Finding

_MARKS = {GOOD: ("✓", "green"), BAD: ("✗", "red"), NOTE: ("–", "yellow")}
_LITTLE_BYTES = 200_000_000


@click.command()
@click.option("--acknowledge", is_flag=True, help="Notices are known now: no longer show them.")
@as_json_option
@click.pass_obj
def doctor(home: str | None, acknowledge: bool, as_json: bool) -> None:
    """Say what works here, what does not, and what to do about it. 1: something is broken."""
    if acknowledge:
        _acknowledge(find_home(home))
    findings = list(_examine(find_home(home), home))
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            click.echo(_line(finding))
    sys.exit(1 if any(finding.state == BAD for finding in findings) else 0)


def _acknowledge(home: Home) -> None:
    client = Client(home)
    try:
        known = read(Acknowledged, client.post("/v1/notices/acknowledge")).notices
    finally:
        client.close()
    click.echo(f"Acknowledged {counted(len(known), 'notice')}.", err=True)


def _line(finding: Finding) -> str:
    mark, style = _MARKS[finding.state]
    mark = paint(mark, style) if has_colours() else mark
    return f"{mark} {finding.what:<9} {finding.text}"


def _examine(home: Home, named: str | None) -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("version", GOOD, f"Dovetail {version()}, Python {python}")
    yield _state_folder(home)
    yield _disk(home)
    yield from _daemon(home, named)


# --------------------------------------------------------------------------------------- its things


def _state_folder(home: Home) -> Finding:
    folder = home.state
    if not folder.exists():
        return Finding("folder", NOTE, f"{folder} is not there yet; {command_again()} up makes it")
    if not os.access(folder, os.W_OK | os.X_OK):
        # A shared daemon's folder is its own; we need no more than its socket.
        state = NOTE if os.access(home.socket, os.W_OK) else BAD
        return Finding("folder", state, f"{folder} is another user's ({folder.stat().st_uid})")
    if not home.mark.exists() and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        return Finding("folder", BAD, f"{folder} is open to others; try: chmod 700 {folder}")
    return Finding("folder", GOOD, str(folder))


def _disk(home: Home) -> Finding:
    there = next(path for path in (home.state, *home.state.parents) if path.exists())
    free = shutil.disk_usage(there).free
    told = f"{free / 1e9:,.1f} GB free for the journal and the logs"
    if free < _LITTLE_BYTES:
        return Finding("disk", BAD, f"{told}: make room on the disk of {there}")
    return Finding("disk", GOOD, told)


# --------------------------------------------------------------------------------------- the daemon


def _daemon(home: Home, named: str | None) -> Iterator[Finding]:
    client = Client(home, timeout_s=5.0, named=named)
    try:
        health = read(Health, client.get("/v1/health"))
        nodes = read(Nodes, client.get("/v1/nodes")).nodes
        found = _findings(client)
    except DovetailError as error:
        yield Finding("daemon", BAD, f"{error}{_last_words(home)}")
        yield from _machine()
        return
    finally:
        client.close()
    since = duration_text(health.uptime_s)
    yield Finding("daemon", GOOD, f"up for {since}, process {health.pid}, {_told_jobs(health)}")
    yield _socket(home)
    if health.version != version():
        yield Finding(
            "daemon",
            BAD,
            f"it is version {health.version}; renew it: {command_again()} down, then up"
            + (" --system" if health.system else ""),
        )
    if health.threads:
        yield Finding("daemon", BAD, f"{health.threads}; see {home.log}")
    yield _policy(health)
    yield from _journal(health)
    yield Finding("keeps", GOOD, health.keep)
    yield from (Finding("power", NOTE, notice) for notice in health.power)
    if health.costs:
        yield Finding("costs", NOTE, health.costs)
    yield from _strangers(nodes)
    yield from found


def _findings(client: Client) -> list[Finding]:
    """As the daemon's world has them: its jobs may run elsewhere, or with other rights than ours. A
    daemon of an earlier version does not know."""
    try:
        found = read(Findings, client.get("/v1/findings")).findings
        return [Finding(own.what, own.state, own.text) for own in found]
    except RequestRefused:
        return list(_machine())


def _told_jobs(health: Health) -> str:
    jobs = health.jobs
    return f"{counted(jobs.running, 'job')} running, {jobs.waiting:,} waiting"


def _last_words(home: Home) -> str:
    """The last complaint in the log of a daemon that is gone."""
    try:
        lines = home.log.read_text(errors="replace").splitlines()[-50:]
    except OSError:
        return ""
    complaints = [line for line in lines if " ERROR " in line or line.startswith("dovetail: ")]
    return f" (its last complaint: {complaints[-1][:200]})" if complaints else ""


def _socket(home: Home) -> Finding:
    mode = stat.S_IMODE(home.socket.stat().st_mode)
    if mode & 0o007:
        return Finding("socket", BAD, f"{home.socket} is open to others (mode {mode:o})")
    return Finding("socket", GOOD, f"{home.socket} (mode {mode:o})")


def _policy(health: Health) -> Finding:
    if health.trouble:
        way = f"choose one: {command_again()} policy set NAME"
        return Finding("policy", BAD, f"{health.trouble}; {way}")
    return Finding("policy", GOOD, f"{health.policy} decides")


def _journal(health: Health) -> Iterator[Finding]:
    if health.full:
        yield Finding("journal", BAD, "the disk is full: nothing new is taken on; make room")
    yield from (Finding("notice", BAD, told) for told in health.notices)
    if health.notices:
        yield Finding(
            "notice", NOTE, f"once you know of it: {command_again()} doctor --acknowledge"
        )
    elif not health.full:
        yield Finding("journal", GOOD, f"{health.seq:,} entries, nothing amiss")


def _strangers(nodes: Sequence[NodeRow]) -> Iterator[Finding]:
    taken = [_taken(node, gpu) for node in nodes for gpu in node.gpus if gpu.strangers]
    if taken:
        told = (
            f"processes of others use {', '.join(taken)}; they are left alone until they are free"
        )
        yield Finding("GPUs", NOTE, told)


def _taken(node: NodeRow, gpu: Gpu) -> str:
    by = f" ({'; '.join(gpu.others)})" if gpu.others else ""
    return f"{node.id}:{gpu.index}{by}"


def _machine() -> Iterator[Finding]:
    from dovetail.worlds.local.findings import of_this_machine

    yield from of_this_machine()
