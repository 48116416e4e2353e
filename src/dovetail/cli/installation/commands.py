"""`dovetail install` and `dovetail uninstall`."""

from __future__ import annotations

import grp
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from dovetail.cli.completion import manual
from dovetail.cli.completion.shells import script
from dovetail.cli.installation import places, units
from dovetail.cli.installation.places import Places
from dovetail.cli.installation.plan import (
    File,
    Folder,
    Link,
    ManPages,
    Remove,
    RemoveManPages,
    RunProgram,
    Step,
    check_reachable,
    existing,
    systemd_runs,
)
from dovetail.core.errors import BadInput
from dovetail.home import Home, home_in, system_home, user_home

_SYSTEM_CONFIG = """\
# Settings of everybody's daemon; `dovetail config check --system` says whether they are right.
# A change holds from the next start: systemctl restart dovetail. Jobs go on meanwhile.

[up]
group = "{group}"           # whose members may use it
# admins = "gpu-admins"     # whose members administer it besides root
# policy = "fair-share"
# gpus = "0,2-3"            # only these
# free-memory = "90%"       # GPUs of which others leave less are left alone
# keep = ["runs=90d", "journal=1y"]
"""
_USER_CONFIG = "# Your own settings: dovetail config\n"

_system = click.option("--system", is_flag=True, help="For everybody on this machine (as root).")
_dry_run = click.option("--dry-run", is_flag=True, help="Show every step; do none.")
_root = click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    metavar="DIR",
    help="Write below that folder and start nothing: for packages and images.",
)


@click.command()
@_system
@click.option(
    "--group", default="dovetail", help="With --system: whose members may use it.  [dovetail]"
)
@_dry_run
@_root
@click.pass_context
def install(ctx: click.Context, system: bool, group: str, dry_run: bool, root: Path) -> None:
    """Let the daemon start with the machine: a unit of systemd, completion, manual pages.

    \b
    dovetail install            for you alone, without root
    dovetail install --system   for everybody: also the group, the folders and the program's link
    To upgrade: install the new version in the same place, then the same command again.
    Jobs go on through it.
    """
    home = _home(ctx.obj, system)
    _check_may(system, root, dry_run)
    where = places.for_everybody(root) if system else places.for_user(root)
    program = Path(sys.executable).with_name("dovetail")
    if system:
        check_reachable(program)
    steps = [
        *(_group_and_folders(home, group, root) if system else ()),
        *_files(ctx.find_root().command, where, home, group if system else ""),
        *([] if _found_on_path(program, where) else [Link(where.program, program)]),
        *(_starting(home, system) if root == Path("/") and systemd_runs() else ()),
    ]
    _carry_out(steps, dry_run)
    if not dry_run:
        _say_what_is_next(home, system, group, root)


@click.command()
@_system
@click.option("--purge", is_flag=True, help="Also settings, journal, logs and checkpoints.")
@_dry_run
@_root
@click.pass_context
def uninstall(ctx: click.Context, system: bool, purge: bool, dry_run: bool, root: Path) -> None:
    """Take back what install has done. Jobs that run go on; journal and settings stay.

    The package itself is removed as it was installed: pip uninstall dovetail.
    """
    home = _home(ctx.obj, system)
    _check_may(system, root, dry_run)
    where = places.for_everybody(root) if system else places.for_user(root)
    steps: list[Step] = list(_stopping(system)) if root == Path("/") and systemd_runs() else []
    files = [where.unit, where.bash, where.zsh, where.fish, where.program]
    steps += existing([Remove(path) for path in files])
    steps += [RemoveManPages(where.man)] if RemoveManPages(where.man).paths() else []
    if purge:
        _refuse_while_up(home)
        below = root / home.state.relative_to("/")
        steps += existing(
            [Remove(below, is_folder=True), Remove(where.config.parent, is_folder=True)]
        )
    _carry_out(steps, dry_run)


def _home(named: str | None, system: bool) -> Home:
    if named:
        return home_in(Path(named))
    return system_home() if system else user_home()


def _check_may(system: bool, root: Path, dry_run: bool) -> None:
    if system and os.geteuid() != 0 and not dry_run and root == Path("/"):
        raise BadInput("--system is for everybody on this machine: install it as root")


def _carry_out(steps: Sequence[Step], dry_run: bool) -> None:
    for step in steps:
        click.echo(step)
        if not dry_run:
            step.do()
    if not steps:
        click.echo("There is nothing to do.")


# -------------------------------------------------------------------------------------- the steps


def _group_and_folders(home: Home, group: str, root: Path) -> Iterator[Step]:
    if root == Path("/") and not _group_exists(group):
        yield RunProgram(("groupadd", "--system", group))
    yield Folder(root / home.state.relative_to("/"), 0o711)


def _group_exists(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def _files(cli: click.Command, where: Places, home: Home, group: str) -> Iterator[Step]:
    """With a group it is everybody's."""
    command = _start_command(home, bool(group))
    unit = units.system_unit(command) if group else units.user_unit(command)
    yield File(where.unit, unit)
    for shell, path in (("bash", where.bash), ("zsh", where.zsh), ("fish", where.fish)):
        yield File(path, _marked(shell, script(shell, cli)))
    found = manual.pages(cli).items()
    yield ManPages(where.man, {name: f'.\\" {units.MARK}\n{text}' for name, text in found})
    if home.state in (system_home().state, user_home().state):
        config = _SYSTEM_CONFIG.format(group=group) if group else _USER_CONFIG
        yield File(where.config, config, keep=True)


def _marked(shell: str, text: str) -> str:
    """The first line of a zsh function says what it completes."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{units.MARK}\n{rest}" if shell == "zsh" else f"{units.MARK}\n{text}"


def _start_command(home: Home, system: bool) -> list[str]:
    named = home.state != system_home().state  # else `up` would take everybody's if there is one
    where = ["--home", str(home.state)] if named else []
    words = [sys.executable, "-m", "dovetail.cli.main", *where, "up"]
    return [*words, *(["--system"] if system else []), "--foreground"]


def _found_on_path(program: Path, where: Places) -> bool:
    """Is `dovetail` found as it is, in a folder that everybody searches?"""
    return program.parent in (Path("/usr/bin"), Path("/usr/local/bin"), where.program.parent)


def _starting(home: Home, system: bool) -> Iterator[Step]:
    """A daemon that was started by hand gives way to that of the unit; its jobs go on."""
    systemctl = ("systemctl",) if system else ("systemctl", "--user")
    yield RunProgram((*systemctl, "daemon-reload"))
    yield RunProgram((*systemctl, "enable", "dovetail"))
    if home.socket.exists():
        by_hand = (sys.executable, "-m", "dovetail.cli.main", "--home", str(home.state), "down")
        yield RunProgram(by_hand if not system else (*by_hand[:3], "down"), may_fail=True)
    yield RunProgram((*systemctl, "restart", "dovetail"))


def _stopping(system: bool) -> Iterator[Step]:
    systemctl = ("systemctl",) if system else ("systemctl", "--user")
    yield RunProgram((*systemctl, "disable", "--now", "dovetail"), may_fail=True)


def _refuse_while_up(home: Home) -> None:
    if home.note.exists() and home.socket.exists():
        raise BadInput(
            "--purge removes the journal, and the daemon is up: first dovetail down --cancel"
        )


def _say_what_is_next(home: Home, system: bool, group: str, root: Path) -> None:
    if root != Path("/"):
        return
    if not systemd_runs():
        command = shlex.join(_start_command(home, system))
        click.echo(f"systemd does not run here; what its unit would start: {command}", err=True)
    if system:
        click.echo(f"Let people in: usermod -aG {group} NAME; it counts from their next login on.")
        click.echo("Settings: /etc/dovetail/config.toml, then systemctl restart dovetail.")
    else:
        click.echo("It ends when you log out, unless: loginctl enable-linger")
