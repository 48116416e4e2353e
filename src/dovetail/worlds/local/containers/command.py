"""From the launch of a job to the launch of the engine's client, which runs the job in its image.

The client is a process of the job's owner like any other, so that nobody gets more rights by an image
than they have: podman runs without root for everybody but root, and docker asks its own daemon. The
container has the owner's number, no capabilities and no way to gain any. Of this machine it sees its
working folder and the job's own folder, under the names that they have here, and the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from dovetail.core.errors import BadInput
from dovetail.worlds.consoles import CommandBeside
from dovetail.worlds.local.containers.engine import PODMAN, Engine
from dovetail.worlds.local.machine import host_memory_bytes
from dovetail.worlds.local.runs.run import Launch
from dovetail.worlds.world import UserAccount

# Variables that the client itself goes by: a container is given them by value, and the client is not.
_CLIENTS_OWN: Final = frozenset(("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "SHELL"))
_CLIENTS_PREFIXES: Final = (
    *(
        "LD_",
        "XDG_",
        "DBUS_",
        "CONTAINER",
        "DOCKER_",
        "PODMAN_",
        "STORAGE_",
        "REGISTRY_",
        "BUILDAH_",
    ),
    *("GODEBUG", "GOTRACEBACK", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy", "NOTIFY_"),
)
_ANSWER_WITHIN_S: Final = 60.0
_NOT_INSIDE: Final = ("DOVETAIL_SOCKET",)  # it is not mounted


def in_image(
    launch: Launch,
    image: str,
    engine: Engine,
    folders: Sequence[Path],
    envs: Mapping[str, str],
    gpus: Sequence[str],
    account: UserAccount | None,
) -> Launch:
    """The same job in an image. `envs` is what the launch's file of variables holds; `folders` are the
    job's own. What the container cannot be given is a BadInput."""
    if os.path.normpath(launch.cwd) == "/":
        raise BadInput("the working folder of a job in an image cannot be /: all would be mounted")
    client = _client_environment(account)
    uid, gid = (os.getuid(), os.getgid()) if account is None else (account.uid, account.gid)
    inside = {
        "HOME": "/tmp",
        "USER": client["USER"],
        "LOGNAME": client["USER"],
        **envs,
        **launch.env,
    }
    inside = {name: value for name, value in inside.items() if name not in _NOT_INSIDE}
    name = container_name(launch)
    words = [engine.program, "run", "--rm", "--init", f"--name={name}", f"--user={uid}:{gid}"]
    words += ["--network=host", "--log-driver=none", f"--shm-size={host_memory_bytes() // 2}"]
    words += ["--cap-drop=ALL", "--security-opt=no-new-privileges", f"--workdir={launch.cwd}"]
    words += _of_podman(launch, uid) if engine.name == PODMAN else []
    words += ["--interactive"] if launch.stdin is not None or launch.terminal else []
    words += ["--tty"] if launch.terminal else []
    words += engine.gpu_options(gpus) if gpus else []
    words += [f"--mount={_bind(path)}" for path in _mounts(launch.cwd, folders)]
    words += [word for own in inside.items() for word in ("--env", _variable(*own))]
    words += [f"--entrypoint={_entrypoint(engine, launch.argv[0])}", image, *launch.argv[1:]]
    hidden = dict.fromkeys((own for own in envs if _steers_client(own)), "")
    env = {**launch.env, **hidden, **client}
    return replace(
        launch, argv=tuple(words), env=env, image=image, engine=engine.name, container=name
    )


def beside_in_image(launched: Mapping[str, Any], command: CommandBeside) -> tuple[str, ...]:
    """A command in the container of this launch (see `Launch`), with its user and its variables."""
    tty = ("--tty",) if command.size is not None else ()
    folder = (f"--workdir={command.cwd}",) if command.cwd else ()
    program, container = launched["argv"][0], launched["container"]
    return (program, "exec", "--interactive", *tty, *folder, container, *command.argv)


def before_the_first(engine: Engine, account: UserAccount | None) -> None:
    """Podman without root keeps the namespace that its containers share by a process which its first
    command leaves behind. That must not be a job's: it would end with the job, and the others' files
    be out of reach."""
    if engine.name != PODMAN or (os.getuid() if account is None else account.uid) == 0:
        return
    _as_owner([engine.program, "unshare", "true"], account)


def remove(launched: Mapping[str, Any], account: UserAccount | None) -> None:
    """Remove what a killed client has left of the container of this launch (see `Launch`)."""
    if launched.get("container"):
        _as_owner([launched["argv"][0], "rm", "--force", launched["container"]], account)


def _as_owner(words: Sequence[str], account: UserAccount | None) -> None:
    whose: dict[str, Any] = {}
    if account is not None:
        whose = {"user": account.uid, "group": account.gid, "extra_groups": account.groups}
    env = _client_environment(account)
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            words,
            **whose,
            check=False,
            capture_output=True,
            cwd="/",
            env=env,
            timeout=_ANSWER_WITHIN_S,
        )


def container_name(launch: Launch) -> str:
    """One name for each launch on this machine."""
    stop = launch.env["DOVETAIL_STOP"]
    return (
        f"dovetail-{launch.env['DOVETAIL_JOB_ID']}-{hashlib.sha256(stop.encode()).hexdigest()[:12]}"
    )


def _of_podman(launch: Launch, uid: int) -> Iterator[str]:
    yield f"--umask={launch.umask:04o}"
    yield "--security-opt=label=disable"  # where SELinux is: the folders keep their labels
    if uid:
        yield "--userns=keep-id"


def _client_environment(account: UserAccount | None) -> dict[str, str]:
    """Our own variables if the owner is our user; else those of a login."""
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    if account is None:
        own = {name: own for name, own in os.environ.items() if _steers_client(name)}
        return {"USER": _user(os.getuid())[0], **own, **path}
    user, home = _user(account.uid)
    runtime = f"/run/user/{account.uid}"
    more = {"XDG_RUNTIME_DIR": runtime} if os.path.isdir(runtime) else {}
    return {**path, "HOME": home, "USER": user, "LOGNAME": user, **more}


def _user(uid: int) -> tuple[str, str]:
    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return str(uid), "/"
    return found.pw_name, found.pw_dir


def _steers_client(name: str) -> bool:
    return name in _CLIENTS_OWN or name.startswith(_CLIENTS_PREFIXES)


def _variable(name: str, value: str) -> str:
    """Its name alone where that is enough: values must not be in the list of processes."""
    return f"{name}={value}" if _steers_client(name) else name


def _mounts(cwd: str, folders: Sequence[Path]) -> list[str]:
    return sorted({os.path.normpath(cwd), *map(str, folders)})


def _bind(path: str) -> str:
    """As a row of CSV: a path may hold commas and quotes."""
    return ",".join(_quoted(field) for field in ("type=bind", f"source={path}", f"target={path}"))


def _quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if set(field) & set(',"\n') else field


def _entrypoint(engine: Engine, command: str) -> str:
    return json.dumps([command]) if engine.name == PODMAN else command
