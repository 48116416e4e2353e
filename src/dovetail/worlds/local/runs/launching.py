"""From an order to what a keeper on this machine is told: paths, users, variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

from dovetail.core.errors import DovetailError
from dovetail.core.model import WHOLE_GPU, JobId, Placement
from dovetail.worlds.local.folders import STEPS, Folders
from dovetail.worlds.local.runs.run import Launch, ProcessRun
from dovetail.worlds.local.slurm.tools import TOOLS, tools_environment
from dovetail.worlds.ranks import ALONE, Rank, variables
from dovetail.worlds.shortage import Short, says_short
from dovetail.worlds.world import Order, Script, UserAccount

BEFORE_START = "before-start"
HOSTS = "hosts"  # in the folder of a run: the nodes of a job that has several
_BEGIN_WITHIN_S = 30.0
_TRY_AGAIN_S = 0.05


def launch_of(
    order: Order,
    folders: Folders,
    environment_of: Callable[[JobId], Mapping[str, str]],
    placement: Placement | None,
    gpus: Sequence[str],
    run: int,
    attempts: int,
    rank: Rank = ALONE,
) -> Launch:
    """On these GPUs, as the daemon's own user: see `as_user`."""
    folder = folders.folder(order.job_id)
    env = {
        **order.env,
        "DOVETAIL_SOCKET": str(folders.socket),
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "DOVETAIL_JOB_ID": order.job_id,
        "DOVETAIL_ATTEMPT": str(attempts),
        "DOVETAIL_RESUMED": "1" if run > 1 else "0",
        "DOVETAIL_REPORT": str(folders.reports(order.job_id)),
        "DOVETAIL_CHECKPOINT_DIR": str(folders.checkpoints(order)),
        "DOVETAIL_STOP": str(folder / str(run) / "stop"),
        "DOVETAIL_GRACE_SECONDS": f"{order.grace_s:g}",
        **_given(placement),
        **variables(rank, str(folder / str(run) / HOSTS)),
    }
    scripts = folders.folder(order.kept_under)
    if order.is_slurm:
        env |= tools_environment(environment_of(order.kept_under), scripts / TOOLS)
        env = {**slurm_machine(), **env, "SLURM_STEPS_FILE": str(folder / STEPS)}
        env |= _for_slurm(placement, run)
    words = [str(scripts / word) if isinstance(word, Script) else word for word in order.argv]
    return Launch(
        argv=(*_hook_before(folders.hook(BEFORE_START)), *words),
        cwd=order.workdir,
        env_file=folders.environment(order),
        log=folders.log(order.job_id).path,
        env=env,
        grace_s=order.grace_s,
        umask=order.umask,
        out=folders.log(order.job_id, "stdout").path if order.streams_apart else None,
        err=folders.log(order.job_id, "stderr").path if order.streams_apart else None,
        output=order.output,
        error=order.error,
        is_first=run <= 1,
        stdin=folders.stdin(order.job_id).path if order.has_stdin else None,
        terminal=order.terminal,
    )


def _hook_before(hook: Path) -> tuple[str, ...]:
    """The administrator's program, which must succeed first: with the rights of the job's user."""
    if not is_trusted(hook):
        return ()
    return ("/bin/sh", "-c", '"$0" && exec "$@"', str(hook))


def is_trusted(hook: Path) -> bool:
    """Is it there, and of root or the daemon's own user, so that nobody else can change it?"""
    try:
        found = hook.stat()
    except OSError:
        return False
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022


def as_user(launch: Launch, account: UserAccount | None) -> Launch:
    if account is None:
        return launch
    return replace(launch, uid=account.uid, gid=account.gid, groups=account.groups)


def _given(placement: Placement | None) -> dict[str, str]:
    """How many GPUs or slots a job has. If it is only a part of one: how much, and what JAX goes by."""
    if placement is None:
        return {}
    if placement.share == WHOLE_GPU:
        return {"DOVETAIL_GPUS": str(placement.gpus)}
    part = f"{placement.share / WHOLE_GPU:g}"
    return {
        "DOVETAIL_GPUS": "1",
        "DOVETAIL_GPU_SHARE": part,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": part,
    }


def slurm_machine() -> dict[str, str]:
    """The variables by which a Slurm script learns where it runs."""
    host, cpus = os.uname().nodename.partition(".")[0], str(os.cpu_count() or 1)
    same = (
        (host, "JOB_NODELIST NODELIST SUBMIT_HOST TOPOLOGY_ADDR"),
        ("1", "JOB_NUM_NODES NNODES"),
        ("0", "NODEID PROCID LOCALID GTIDS"),
        (cpus, "CPUS_ON_NODE JOB_CPUS_PER_NODE"),
    )
    found = {f"SLURM_{own}": value for value, names in same for own in names.split()}
    return {**found, "SLURMD_NODENAME": host}


def _for_slurm(placement: Placement | None, run: int) -> dict[str, str]:
    """What a Slurm script may ask about the GPUs that it has."""
    found = {"SLURM_RESTART_COUNT": str(max(run - 1, 0))}
    if placement is None or not placement.gpus:
        return found
    indices = [str(gpu) for piece in placement.slices for gpu in _set_bits(piece.mask)]
    gpus = ",".join(indices)
    found |= {"SLURM_GPUS_ON_NODE": str(len(indices)), "SLURM_JOB_GPUS": gpus}
    return {**found, "SLURM_STEP_GPUS": gpus}


def _set_bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def launch(run: ProcessRun, what: Launch) -> None:
    """Until it has begun. The keeper of a daemon since killed may be on its way: then ours gives up,
    and for a moment neither has begun."""
    until = monotonic() + _BEGIN_WITHIN_S
    run.launch(what)
    while not run.wait_until_begun():
        trouble = run.trouble()
        if says_short(trouble):
            raise Short(trouble)
        if monotonic() > until:
            raise DovetailError(trouble or "the system did not let it begin")
        sleep(_TRY_AGAIN_S)
        run.launch(what)
