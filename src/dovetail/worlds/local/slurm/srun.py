"""`srun` and `scontrol show hostnames` for batch scripts, as far as one machine goes.

A copy of this file lies in the folder of each job that is a Slurm script, first in its PATH, and runs by
whatever Python its user has: it needs the standard library only, from Python 3.8 on.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

if __name__ != "__main__":  # there an older Python could not read them
    from collections.abc import Sequence
    from typing import IO, NoReturn

MOST_TASKS = 4096
KILL_AFTER_S = 10.0
NOT_FOUND = 2  # as Slurm has it
FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT")

SHORT = {
    "n": "ntasks", "N": "nodes", "c": "cpus-per-task", "G": "gpus", "l": "label", "D": "chdir",
    "o": "output", "e": "error", "i": "input", "K": "kill-on-bad-exit", "u": "unbuffered",
    "Q": "quiet", "v": "verbose", "O": "overcommit", "s": "oversubscribe", "k": "no-kill",
    "H": "hold", "X": "disable-status", "Z": "no-allocate", "t": "time", "J": "job-name",
    "p": "partition", "A": "account", "w": "nodelist", "x": "exclude", "m": "distribution",
    "r": "relative", "W": "wait", "C": "constraint", "q": "qos", "d": "dependency", "T": "threads",
    "L": "licenses", "M": "clusters", "S": "core-spec", "b": "begin", "B": "extra-node-info",
}  # fmt: skip
BARE = {  # they take no value, or one only after "="
    *("label", "unbuffered", "quiet", "verbose", "overcommit", "oversubscribe", "exclusive"),
    *("overlap", "exact", "kill-on-bad-exit", "no-kill", "pty", "hold", "disable-status", "whole"),
    *("no-allocate", "multi-prog", "contiguous", "propagate", "spread-job", "use-min-nodes"),
    *("interactive", "preserve-env", "immediate", "reboot", "bcast", "compress", "nice"),
    *("resv-ports", "send-libs", "x11", "stepmgr", "oom-kill-step", "test-only", "share"),
}
VALUED = {  # all others that Slurm's own knows
    *("account", "acctg-freq", "attach", "bb", "bbf", "bcast-exclude", "begin", "chdir"),
    *("cluster-constraint", "clusters", "comment", "constraint", "container", "container-id"),
    *("core-spec", "cores-per-socket", "cpu-bind", "cpu-freq", "cpus-per-gpu", "cpus-per-task"),
    *("deadline", "debugger-test", "delay-boot", "dependency", "distribution", "epilog", "error"),
    *(
        "exclude",
        "export",
        "export-file",
        "extra",
        "extra-node-info",
        "gid",
        "gpu-bind",
        "gpu-freq",
    ),
    *(
        "gpus",
        "gpus-per-node",
        "gpus-per-socket",
        "gpus-per-task",
        "gres",
        "gres-flags",
        "het-group",
    ),
    *(
        "hint",
        "input",
        "job-name",
        "jobid",
        "job",
        "licenses",
        "mail-type",
        "mail-user",
        "mcs-label",
    ),
    *("mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "mpi", "msg-timeout", "network"),
    *("nodefile", "nodelist", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "open-mode"),
    *("ntasks-per-node", "ntasks-per-socket", "ntasks-per-tres", "output", "pack-group"),
    *("partition", "power", "prefer", "priority", "profile", "prolog", "qos", "relative"),
    *("reservation", "segment", "signal", "slurmd-debug", "sockets-per-node", "switches"),
    *("task-epilog", "task-prolog", "tasks", "tasks-per-node", "thread-spec", "threads"),
    *("threads-per-core", "time", "time-min", "tmp", "treewidth", "tres-bind", "tres-per-job"),
    *("tres-per-task", "uid", "wait", "wait-all-nodes", "wckey", "cpu_bind", "mem_bind"),
}
IMPOSSIBLE = {
    "het-group": "parts of a job on several machines",
    "pack-group": "parts of a job on several machines",
    "multi-prog": "different programs in one step",
    "attach": "attaching to another step",
}
KEPT = ("SLURM_", "DOVETAIL_", "CUDA_")  # by --export=NONE, and the following
KEPT_NAMES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LD_LIBRARY_PATH")


class Wrong(Exception):
    """One line for whoever wrote the script."""


# ---------------------------------------------------------------------------------- what is asked


def parse(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options by their long names, and the command."""
    found: dict[str, str] = {}
    waiting = list(reversed(words))
    while waiting and waiting[-1].startswith("-") and waiting[-1] != "-":
        word = waiting.pop()
        if word == "--":
            break
        name, value = _split(word)
        name = _known(name, word)
        if value is None and name not in BARE:
            if not waiting:
                raise Wrong(f"{word} needs a value")
            value = waiting.pop()
        found[name] = value or ""
    return found, list(reversed(waiting))


def _split(word: str) -> tuple[str, str | None]:
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return name.lower(), value if equals else None
    name = SHORT.get(word[1], word[1])
    if name in BARE and name != "kill-on-bad-exit" and len(word) > 2:
        raise Wrong(f"{word}: write short options one by one")
    return name, word[2:].lstrip("=") or None


def _known(name: str, word: str) -> str:
    """Its name in full: what begins only one may stand for it."""
    known = BARE | VALUED
    begun = [own for own in known if own.startswith(name)]
    if name in known or (len(begun) == 1 and len(name) > 1):
        return name if name in known else begun[0]
    raise Wrong(f"{word}: srun has no such option; those of the command come behind it")


def check(options: dict[str, str]) -> None:
    for name, what in IMPOSSIBLE.items():
        if name in options:
            raise Wrong(f"--{name}: {what}: not possible here, where a job has one machine")
    least = options.get("nodes", "1").partition("-")[0]
    if least != "1":
        raise Wrong(f"--nodes={options['nodes']}: a job has one machine here; ask for 1 node")


def task_count(options: dict[str, str], env: dict[str, str]) -> int:
    for text in (
        options.get("ntasks"),
        options.get("ntasks-per-node"),
        env.get("SLURM_NTASKS"),
        env.get("SLURM_NTASKS_PER_NODE"),
    ):
        if text:
            return _whole(text, "ntasks", MOST_TASKS)
    return 1


def _whole(text: str, name: str, most: int) -> int:
    if not re.fullmatch(r"\d{1,6}", text) or not 1 <= int(text) <= most:
        raise Wrong(f"--{name}={text}: a whole number from 1 to {most} is needed")
    return int(text)


def gpus_of(task: int, options: dict[str, str], env: dict[str, str]) -> str | None:
    """The GPUs that the task sees: all of the job's, unless each task is to have its own."""
    each = options.get("gpus-per-task") or env.get("SLURM_GPUS_PER_TASK")
    own = [gpu for gpu in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    if not each:
        return None
    count = _whole(each.rpartition(":")[2], "gpus-per-task", 1024)
    if (task + 1) * count > len(own):
        raise Wrong(f"--gpus-per-task={each}: task {task} would have none of the job's {len(own)}")
    return ",".join(own[task * count : (task + 1) * count])


def environment(
    task: int, tasks: int, step: int, options: dict[str, str], env: dict[str, str]
) -> dict[str, str]:
    own = _exported(options.get("export", "ALL"), env)
    node = env.get("SLURM_JOB_NODELIST") or os.uname().nodename
    own.update(
        SLURM_PROCID=str(task),
        SLURM_LOCALID=str(task),
        SLURM_NODEID="0",
        SLURM_NTASKS=str(tasks),
        SLURM_NPROCS=str(tasks),
        SLURM_TASKS_PER_NODE=str(tasks),
        SLURM_STEP_ID=str(step),
        SLURM_STEPID=str(step),
        SLURM_STEP_NUM_TASKS=str(tasks),
        SLURM_STEP_NUM_NODES="1",
        SLURM_STEP_TASKS_PER_NODE=str(tasks),
        SLURM_STEP_NODELIST=node,
        SLURM_GTIDS=",".join(map(str, range(tasks))),
        SLURM_LAUNCH_NODE_IPADDR="127.0.0.1",
        SLURM_SRUN_COMM_HOST="127.0.0.1",
    )
    if "cpus-per-task" in options:
        own["SLURM_CPUS_PER_TASK"] = str(_whole(options["cpus-per-task"], "cpus-per-task", 65536))
    gpus = gpus_of(task, options, env)
    if gpus is not None:
        own["CUDA_VISIBLE_DEVICES"] = gpus
    return own


def _exported(asked: str, env: dict[str, str]) -> dict[str, str]:
    """--export=ALL, NONE, or some: NAME takes it over, NAME=VALUE sets it."""
    words = [word for word in asked.split(",") if word]
    found = dict(env) if "ALL" in words or not words else {}
    found.update({k: v for k, v in env.items() if k.startswith(KEPT) or k in KEPT_NAMES})
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif name in env:
            found[name] = env[name]
    return found


# --------------------------------------------------------------------------------------- the tasks


class SrunStep:
    """The tasks of one call."""

    def __init__(self, options: dict[str, str], command: list[str], env: dict[str, str]) -> None:
        check(options)
        if not command:
            raise Wrong("say what to run: srun [options] COMMAND ...")
        self.options = options
        self.command = command
        self.env = env
        self.tasks = task_count(options, env)
        self.number = next_step(env.get("SLURM_STEPS_FILE"))
        self.kills = options.get("kill-on-bad-exit", "1") != "0"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.copying: list[threading.Thread] = []

    def run(self) -> int:
        """The worst exit code of its tasks. When one fails the others are ended: on one machine they
        would wait for it with the GPUs in their hands."""
        environments = [
            environment(task, self.tasks, self.number, self.options, self.env)
            for task in range(self.tasks)
        ]
        for name in FORWARDED:
            signal.signal(getattr(signal, name), lambda number, frame: self.tell(number))
        try:
            for task, own in enumerate(environments):
                self.start(task, own)
        except OSError as error:
            self.end(range(len(self.processes)))
            say(f"error: execve(): {self.command[0]}: {error.strerror}")
            return NOT_FOUND
        worst = self.wait()
        for thread in self.copying:
            thread.join()
        return worst

    def start(self, task: int, env: dict[str, str]) -> None:
        is_labelled = "label" in self.options
        out = None if is_labelled else self.opened("output", task)
        err = None if is_labelled else self.opened("error", task)
        process = subprocess.Popen(
            self.command,
            env=env,
            cwd=self.options.get("chdir"),
            stdin=self.input(task),
            stdout=subprocess.PIPE if is_labelled else out,
            stderr=subprocess.PIPE if is_labelled else err or (subprocess.STDOUT if out else None),
            start_new_session=True,  # one stroke reaches the task and its children
        )
        self.processes.append(process)
        for stream, to in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            if stream is not None:
                label = f"{task:>{len(str(self.tasks - 1))}}: ".encode()
                thread = threading.Thread(target=copy, args=(stream, to.buffer, label))
                thread.start()
                self.copying.append(thread)

    def input(self, task: int) -> IO[bytes] | int | None:
        """One task reads on; of several the first, or the one that is named."""
        asked = self.options.get("input", "0")
        if asked in ("all", "0") or asked.isdigit():
            reads = 0 if asked == "all" else int(asked)
            return None if task == reads else subprocess.DEVNULL
        return subprocess.DEVNULL if asked == "none" else open(self.named(asked, task), "rb")

    def opened(self, option: str, task: int) -> IO[bytes] | int | None:
        asked = self.options.get(option, "all")
        if asked in ("all", ""):
            return None
        if asked == "none" or (asked.isdigit() and int(asked) != task):
            return subprocess.DEVNULL
        return None if asked.isdigit() else open(self.named(asked, task), "ab")

    def named(self, pattern: str, task: int) -> str:
        """`log.%j.%t`: the job's number and the task's."""
        known = {
            "%t": str(task),
            "%j": self.env.get("SLURM_JOB_ID", "0"),
            "%J": f"{self.env.get('SLURM_JOB_ID', '0')}.{self.number}",
            "%A": self.env.get("SLURM_ARRAY_JOB_ID", self.env.get("SLURM_JOB_ID", "0")),
            "%a": self.env.get("SLURM_ARRAY_TASK_ID", "0"),
            "%s": str(self.number),
            "%n": "0",
            "%N": os.uname().nodename,
            "%u": self.env.get("USER", ""),
            "%x": self.env.get("SLURM_JOB_NAME", ""),
            "%%": "%",
        }
        return re.sub("%.", lambda match: known.get(match[0], match[0]), pattern)

    def wait(self) -> int:
        worst, left, is_ending = 0, set(range(self.tasks)), False
        while left:
            for task in sorted(left):
                code = self.processes[task].poll()
                if code is None:
                    continue
                left.remove(task)
                code = 128 - code if code < 0 else code
                worst = max(worst, code)
                if code and left and self.kills and not is_ending:
                    is_ending = True
                    say(
                        f"error: task {task}: exit code {code}; ending the others (not so with -K0)"
                    )
                    threading.Thread(target=self.end, args=(sorted(left),), daemon=True).start()
            time.sleep(0.01)
        return worst

    def end(self, tasks: Sequence[int]) -> None:
        for number in (signal.SIGTERM, signal.SIGCONT):
            self.tell(number, tasks)
        until = time.monotonic() + KILL_AFTER_S
        while time.monotonic() < until and any(self.processes[t].poll() is None for t in tasks):
            time.sleep(0.05)
        self.tell(signal.SIGKILL, tasks)

    def tell(self, number: int, tasks: Sequence[int] | None = None) -> None:
        """Each task is a process group of its own."""
        for task in range(len(self.processes)) if tasks is None else tasks:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.processes[task].pid, number)


def copy(stream: IO[bytes], to: IO[bytes], label: bytes) -> None:
    for line in stream:
        to.write(label + line if line.endswith(b"\n") else label + line + b"\n")
        to.flush()


def next_step(path: str | None) -> int:
    """Counted over all calls of a job, also those at the same time."""
    if not path:
        return 0
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return 0
    with os.fdopen(fd, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        number = int(file.read() or "0")
        file.seek(0)
        file.write(str(number + 1))
    return number


def say(text: str) -> None:
    print(f"srun: {text}", file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------- the commands


def srun(words: Sequence[str]) -> int:
    try:
        options, command = parse(words)
        return SrunStep(options, command, dict(os.environ)).run()
    except (Wrong, OSError) as problem:
        say(f"error: {problem}")
        return 1


def scontrol(words: Sequence[str]) -> int:
    """`show hostnames [LIST]`, which scripts call to find the first machine."""
    if list(words[:2]) not in (["show", "hostnames"], ["show", "hostname"]):
        print("scontrol: error: only `show hostnames` works here", file=sys.stderr)
        return 1
    names = words[2] if len(words) > 2 else os.environ.get("SLURM_JOB_NODELIST", "")
    for name in hostnames(names or os.uname().nodename):
        print(name)
    return 0


def hostnames(text: str) -> list[str]:
    """`a,b[1-2]`"""
    found = []
    for piece in re.findall(r"[^,\[]+(?:\[[^]]*\])?", text):
        stem, _, inside = piece.partition("[")
        for part in inside.rstrip("]").split(","):
            low, _, high = part.partition("-")
            if not low.isdigit():
                found.append(stem + part)
                continue
            for number in range(int(low), min(int(high or low), int(low) + 10_000) + 1):
                found.append(f"{stem}{number:0{len(low)}d}")
    return found


def main() -> NoReturn:
    called = os.path.basename(sys.argv[0])
    sys.exit((scontrol if called == "scontrol" else srun)(sys.argv[1:]))


if __name__ == "__main__":
    main()
