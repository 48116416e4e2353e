"""The launch of a description: the files to write beforehand, and the argument vector."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePath

from dovetail.jobfiles import arrays
from dovetail.jobfiles.job_model import JobSpec
from dovetail.worlds.world import Script

BASH, SH = "/bin/bash", "/bin/sh"
INTERPRETERS = (
    "python",
    "bash",
    "sh",
    "env",
    "uv",
    "torchrun",
    "accelerate",
    "srun",
    "run",
    "launch",
    "nohup",
    "time",
    "exec",
)
PREPARE = ("cd", "set", "source", "export", "module", ".", "conda", "echo")
LONGEST_NAME = 40
# $1 is the script that must succeed first; the rest is the job itself.
AFTER_SETUP = 'shell=$1 setup=$2; shift 2; "$shell" "$setup" && exec "$@"'


def scripts(spec: JobSpec) -> dict[str, str]:
    """The files that `argv` needs, by name: scripts may be longer than one argument may be."""
    found = {"run": spec.run, "setup": spec.setup}
    return {name: text for name, text in found.items() if text is not None}


def argv(spec: JobSpec) -> tuple[str, ...]:
    """The argument vector; of the `scripts` it has the names."""
    main = spec.command
    if spec.run is not None:
        main = (*interpreter(spec.run, spec.image), Script("run"), *spec.args)
    if spec.setup is None:
        return main
    return (SH, "-c", AFTER_SETUP, "dovetail", shell(spec.image), Script("setup"), *main)


def interpreter(script: str, image: str = "") -> tuple[str, ...]:
    """The interpreter of the first line, as Linux reads it (a program, one argument); else the shell."""
    first = script.partition("\n")[0].rstrip("\r")
    named = first.removeprefix("#!").strip() if first.startswith("#!") else ""
    return tuple(named.split(None, 1)) or (shell(image),)


def shell(image: str = "") -> str:
    """An image need not have more than the simplest."""
    return BASH if not image and os.path.exists(BASH) else SH


def slurm_variables(
    spec: JobSpec,
    job_id: str,
    name: str,
    submitted_in: str,
    index: int | None = None,
    array: str | None = None,
) -> dict[str, str]:
    """What batch scripts read, if it is one; where it runs its world tells. What follows from single
    options (SLURM_NTASKS …) is in its `envs`, and only if it has the option, as under Slurm: some
    libraries believe then that Slurm starts their other processes."""
    if not spec.slurm:
        return {}
    same = (
        (job_id, "JOB_ID JOBID"),
        (name, "JOB_NAME"),
        (submitted_in, "SUBMIT_DIR"),
        ("dovetail", "CLUSTER_NAME JOB_PARTITION"),
    )
    found = {f"SLURM_{own}": value for value, names in same for own in names.split()}
    if spec.resources.cpus:
        cpus = str(max(int(spec.resources.cpus), 1))
        found |= dict.fromkeys(("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"), cpus)
    return {**found, **(_of_array(job_id, index, array) if index is not None else {})}


def _of_array(job_id: str, index: int, array: str | None) -> dict[str, str]:
    found = {
        "SLURM_ARRAY_JOB_ID": job_id.partition(".")[0],
        "SLURM_ARRAY_TASK_ID": str(index),
    }
    if array is not None:
        indices = arrays.parse(array).indices
        found["SLURM_ARRAY_TASK_COUNT"] = str(len(indices))
        found["SLURM_ARRAY_TASK_MIN"] = str(indices[0])
        found["SLURM_ARRAY_TASK_MAX"] = str(indices[-1])
        found["SLURM_ARRAY_TASK_STEP"] = str(indices[1] - indices[0] if len(indices) > 1 else 1)
    return found


def without_slurm(environment: Mapping[str, str]) -> dict[str, str]:
    """Without what another Slurm has told it."""
    return {name: own for name, own in environment.items() if not name.startswith("SLURM_")}


def short_name(spec: JobSpec) -> str:
    """A name for a job that has none: the program it runs, or the script a program is given."""
    words = spec.command or _first_command(spec.run or "")
    names = [PurePath(word).name for word in words if "=" not in word and word[:1] != "-"]
    if "-c" not in words:  # what follows it would be code
        names = [name for name in names if name and not _interprets(name)] or names
    found = names[0] if names else ""
    return found[:LONGEST_NAME] if found and found.isprintable() else "job"


def words_of(spec: JobSpec) -> list[str]:
    """The job's command as words; of a script, its first line that does more than prepare."""
    return [*spec.command] or [*_first_command(spec.run or ""), *spec.args]


def _first_command(script: str) -> list[str]:
    """The words of the first line that does more than prepare."""
    lines = (line.split() for line in script.split("\n"))
    return next((line for line in lines if line and not _prepares(line[0])), [])


def _prepares(word: str) -> bool:
    return word.startswith("#") or word in PREPARE


def _interprets(name: str) -> bool:
    return name.startswith("python") or name in INTERPRETERS
