"""`#SBATCH` lines of an existing batch script, as fields of a job description.

Needs the standard library only: submitting a script must not wait for pydantic to load.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dovetail.core.errors import BadInput
from dovetail.jobfiles.sbatch_lines import SbatchOption, options

DAY, HOUR, MINUTE = 86_400, 3600, 60
DAYS_FIRST = re.compile(r"(\d{1,9})-(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?")
MINUTES_FIRST = re.compile(r"(\d{1,9})(?::(\d{1,9}))?")
HOURS_FIRST = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9})")
SIZE = re.compile(r"(\d{1,12})([kmgt]?)b?", re.IGNORECASE)
UNIT_NAMES = {"": "MiB", "k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB"}
SIGNAL = re.compile(r"(?:[RB]+:)?(?:SIG)?(\w+)(?:@(\d{1,6}))?", re.IGNORECASE)
NODES = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
SIGNALS_TERM = ("TERM", "15")
NOW_AND = re.compile(r"now(?:\+(\d{1,9})(seconds?|minutes?|hours?|days?|weeks?)?)?", re.IGNORECASE)
BEGIN_UNITS = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
MAIL_TYPES = {
    "NONE": (),
    "BEGIN": ("start",),
    "END": ("end",),
    "FAIL": ("failure",),
    "ALL": ("start", "end"),
}
DEPENDENCIES = {"afterok": "after", "afterany": "after_any", "afternotok": "after_failed"}
SRUN = re.compile(r"(?:^|[\s;&|(])srun(?=[ \t])")
NO_LIMIT = ("0", "UNLIMITED", "INFINITE", "-1")
DEFAULT_SIGNAL_S = 60  # as Slurm has it
DEFAULT_NICE = 100
MOST_TASKS = 100_000

NEEDLESS = {"comment", "parsable", "quiet", "verbose", "open-mode"}  # nobody misses them
REASONS = {
    "partition": "there is one queue",
}


class SbatchRequest:
    """The fields asked for so far. (A dataclass would take longer to import than all the rest.)"""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.gpus: dict[str, tuple[str, int, SbatchOption]] = {}  # by option: kind and number
        self.cpus_per_task: int | None = None
        self.tasks: dict[str, tuple[int, SbatchOption]] = {}  # by option
        self.nodes = 0  # 0: it does not say
        self.variables: dict[str, str] = {}  # that Slurm sets for options
        self.memory: tuple[str, int, str] = ("mem", 0, "")  # the option, the amount, its unit
        self.mail: dict[str, str] = {}  # by option
        self.notices: list[str] = []
        self.ignored: list[SbatchOption] = []


def parse_sbatch(
    script: str, args: Sequence[str] = (), source: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """The fields of a job description, ready to be sent, and what the user should know."""
    request = SbatchRequest()
    try:
        for option in options(script, request.notices):
            _take(option, request)
        tasks = _tasks_a_node(request, script)
        if request.nodes <= 1:
            _check_steps(script)
        resources = _resources(request, tasks)
    except BadInput as error:
        raise BadInput(f"{source}, {error}" if source else str(error)) from None
    if request.nodes:
        request.fields["nodes"] = request.nodes
    _tell_by_mail(request)
    envs = {**request.variables, **request.fields.get("envs", {})}
    request.fields |= {
        **({"envs": envs} if envs else {}),
        "run": _without_values(script),
        "slurm": True,
        "resources": resources,
    }
    if args:
        request.fields["args"] = list(args)
    return request.fields, [*request.notices, *_told_ignored(request.ignored)]


def _take(option: SbatchOption, request: SbatchRequest) -> None:
    take = TAKEN.get(option.name)
    if take is None:
        if option.name not in NEEDLESS:
            request.ignored.append(option)
        return
    try:
        take(option, request)
    except ValueError as error:
        raise BadInput(f"line {option.line}: {option!s:.80}: {error}") from None


def _told_ignored(options: Sequence[SbatchOption]) -> list[str]:
    """One sentence for all, and why where there is more to say."""
    if not options:
        return []
    names = dict.fromkeys(f"{option!s:.60}" for option in options)
    reasons = dict.fromkeys(REASONS[own.name] for own in options if own.name in REASONS)
    return [f"not used: {', '.join(names)}{''.join(f'; {reason}' for reason in reasons)}"]


def _as(name: str) -> Callable[[SbatchOption, SbatchRequest], None]:
    """Taken as it is, under our name."""

    def take(option: SbatchOption, request: SbatchRequest) -> None:
        request.fields[name] = _given(option)

    return take


def _given(option: SbatchOption) -> str:
    if not option.value:
        raise ValueError("it has no value")
    return option.value


def _count(option: SbatchOption) -> int:
    if not re.fullmatch(r"\d{1,6}", option.value):
        raise ValueError("a whole number is needed")
    return int(option.value)


def _time(option: SbatchOption, request: SbatchRequest) -> None:
    seconds = _slurm_seconds(_given(option))
    if seconds:
        request.fields["time_limit"] = seconds
    else:
        request.fields.pop("time_limit", None)


def _slurm_seconds(text: str) -> int:
    """Minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""
    if text.upper() in NO_LIMIT:
        return 0
    for pattern, units in (
        (DAYS_FIRST, (DAY, HOUR, MINUTE, 1)),
        (HOURS_FIRST, (HOUR, MINUTE, 1)),
        (MINUTES_FIRST, (MINUTE, 1)),
    ):
        if match := pattern.fullmatch(text):
            parts = (int(part or 0) for part in match.groups())
            return sum(part * unit for part, unit in zip(parts, units, strict=True))
    raise ValueError("a time such as 90 (minutes), 1:30:00 or 1-12:00:00 is needed")


def _gres(option: SbatchOption, request: SbatchRequest) -> None:
    for own in _given(option).split(","):
        name, *rest = own.removeprefix("gres/").split("(")[0].replace("=", ":").split(":")
        if name == "gpu":
            request.gpus[option.name] = (*_kind_and_count(rest), option)
        elif name != "none":
            request.ignored.append(option._replace(value=own))


def _gpus(option: SbatchOption, request: SbatchRequest) -> None:
    asked = _given(option).split(",")
    if len(asked) > 1:
        raise ValueError("a job has GPUs of one kind; name one")
    request.gpus[option.name] = (*_kind_and_count(asked[0].split(":")), option)


def _kind_and_count(parts: list[str]) -> tuple[str, int]:
    """`a100:2`, `a100`, `2` or nothing, which is one GPU."""
    *kind, count = parts if parts and parts[-1].isdecimal() else [*parts, "1"]
    if len(kind) > 1 or len(count) > 6:
        raise ValueError("a kind and a number are needed, such as gpu:a100:2")
    return "".join(kind), int(count)


def _cpus(option: SbatchOption, request: SbatchRequest) -> None:
    request.cpus_per_task = _count(option)
    request.variables["SLURM_CPUS_PER_TASK"] = str(request.cpus_per_task)


def _tasks(option: SbatchOption, request: SbatchRequest) -> None:
    request.tasks[option.name] = (max(_count(option), 1), option)


def _tasks_a_node(request: SbatchRequest, script: str) -> int:
    """The script runs once on each node, and starts its tasks by `srun`."""
    each = request.tasks.get("ntasks-per-node")
    told = request.tasks.get("ntasks") or each
    if told is not None and each is not None:
        _take_nodes_for(told[0], each[0], told[1], request)
    nodes = max(request.nodes, 1)
    if nodes > 1:
        request.notices.append(f"--nodes={nodes}: the script is run once on each node")
    if told is None:
        return 1
    count, option = told
    if nodes == 1 and count > 1 and SRUN.search(script) is None:
        notice = f"{option}: the script is run once, with room for so many tasks; srun starts them"
        request.notices.append(notice)
    a_node = each[0] if each is not None else -(-count // nodes)
    tasks = str(count if "ntasks" in request.tasks else count * nodes)
    request.variables |= {
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_TASKS_PER_NODE": f"{a_node}(x{nodes})" if nodes > 1 else tasks,
        **({"SLURM_NTASKS_PER_NODE": str(each[0])} if each is not None else {}),
    }
    return min(a_node if nodes > 1 else count, MOST_TASKS)


def _take_nodes_for(count: int, each: int, option: SbatchOption, request: SbatchRequest) -> None:
    """More tasks than one node may have need another."""
    needed = -(-count // each)
    if request.nodes and needed > request.nodes:
        raise BadInput(
            f"line {option.line}: {option}: with {each} a node it needs {needed} nodes, and it asks "
            f"for {request.nodes}"
        )
    if needed > 1:
        request.nodes = request.nodes or needed


def _check_steps(script: str) -> None:
    """What `srun` would refuse when the job runs, where it can be seen now."""
    if SRUN.search(script) is None:
        return
    from dovetail.worlds.local.slurm.srun import Wrong, check, parse

    for number, line in enumerate(script.split("\n"), 1):
        called = SRUN.search(line)
        if called is None or line.lstrip().startswith("#"):
            continue
        try:
            check(parse(line[called.end() :].split())[0])
        except Wrong as problem:
            if "$" not in str(problem):
                raise BadInput(f"line {number}: srun {problem}") from None


def _nodes(option: SbatchOption, request: SbatchRequest) -> None:
    match = NODES.fullmatch(_given(option))
    if match is None or int(match[1]) < 1:
        raise ValueError("a number of nodes is needed, such as 2")
    request.nodes = int(match[1])
    if match[2] is not None and match[2] != match[1]:
        request.notices.append(f"{option}: it gets {match[1]}, the fewest that it asks for")


def _memory(option: SbatchOption, request: SbatchRequest) -> None:
    match = SIZE.fullmatch(option.value)
    if match is None:
        raise ValueError("a size such as 4G or 500M is needed")
    request.memory = (option.name, int(match[1]), UNIT_NAMES[match[2].lower()])


def _signal(option: SbatchOption, request: SbatchRequest) -> None:
    match = SIGNAL.fullmatch(_given(option))
    if match is None:
        raise ValueError("a signal and seconds are needed, such as USR1@90")
    request.fields["checkpoint"] = {"grace": int(match[2] or DEFAULT_SIGNAL_S)}
    if match[1].upper() not in SIGNALS_TERM:
        request.notices.append(f"{option}: it is told to stop by SIGTERM, not by {match[1]}")


def _nice(option: SbatchOption, request: SbatchRequest) -> None:
    if not re.fullmatch(r"-?\d{1,9}", option.value or str(DEFAULT_NICE)):
        raise ValueError("a whole number is needed")
    request.fields["priority"] = -int(option.value or DEFAULT_NICE)


def _dependency(option: SbatchOption, request: SbatchRequest) -> None:
    for name in DEPENDENCIES.values():
        request.fields.pop(name, None)  # the last line has the last word
    for piece in _given(option).split(","):
        kind, *jobs = piece.split(":")
        if kind not in DEPENDENCIES or not jobs or "?" in piece or "+" in piece:
            raise ValueError(
                f"only {', '.join(DEPENDENCIES)} with :ID[:ID…] are understood; it would start too "
                "early"
            )
        ids = [job.replace("_", ".") for job in jobs]
        request.fields.setdefault(DEPENDENCIES[kind], []).extend(ids)


def _begin(option: SbatchOption, request: SbatchRequest) -> None:
    """`now+1hour` as Slurm writes it; times and days are written as ours are."""
    given = _given(option)
    match = NOW_AND.fullmatch(given)
    if match is None:
        request.fields["begin"] = given.replace("T", " ") if given[:4].isdigit() else given
    elif match[1]:
        unit = (match[2] or "seconds").lower()[0]
        request.fields["begin"] = f"+{int(match[1]) * BEGIN_UNITS[unit]}"


def _hold(option: SbatchOption, request: SbatchRequest) -> None:
    request.fields["hold"] = True


def _mail(option: SbatchOption, request: SbatchRequest) -> None:
    request.mail[option.name] = _given(option)
    for kind in _mail_types(request.mail.get("mail-type", "")):
        if kind not in MAIL_TYPES:
            request.notices.append(f"--mail-type={kind}: nobody is told of that")


def _mail_types(text: str) -> list[str]:
    return [kind.strip().upper() for kind in text.split(",") if kind.strip()]


def _tell_by_mail(request: SbatchRequest) -> None:
    """As under Slurm an address alone says nothing; without one it is the user's own."""
    found = [
        event
        for kind in _mail_types(request.mail.get("mail-type", ""))
        for event in MAIL_TYPES.get(kind, ())
    ]
    if found:
        address = request.mail.get("mail-user", "")
        request.fields["notify"] = [f"mail:{address}" if "@" in address else "mail"]
        request.fields["notify_on"] = list(dict.fromkeys(found))


def _requeue(option: SbatchOption, request: SbatchRequest) -> None:
    request.fields["preemptible"] = "restart" if option.name == "requeue" else True


def _without_values(script: str) -> str:
    """What `--export` sets is in the environment now; the script is kept longer than that."""
    return re.sub(r"(?m)^(#SBATCH\s.*--export[= ]).*$", r"\1(set)", script)


def _export(option: SbatchOption, request: SbatchRequest) -> None:
    """Variables that are set; the others come along in any case."""
    words = _given(option).split(",")
    envs = dict(word.split("=", 1) for word in words if "=" in word)
    if envs:
        request.fields["envs"] = envs
    if "ALL" not in words:
        request.notices.append("--export: the job gets all variables of your shell all the same")


def _resources(request: SbatchRequest, tasks: int) -> dict[str, Any]:
    """What each node is to have. A script that asks for no GPU gets none, as under Slurm."""
    kind, gpus = _gpus_a_node(request, tasks)
    found: dict[str, Any] = {"gpus": gpus}
    if not gpus:
        request.notices.append("it asks for no GPU (--gres, --gpus), so it gets none")
    if kind and gpus:
        found["accelerators"] = kind
    if request.cpus_per_task is not None or request.tasks or not gpus:
        found["cpus"] = max(1, request.cpus_per_task or 1) * tasks
    if memory := _memory_a_node(request, gpus, found.get("cpus", 1)):
        found["memory"] = memory
    return found


def _gpus_a_node(request: SbatchRequest, tasks: int) -> tuple[str, int]:
    """--gpus counts those of all nodes; the others are per node or per task."""
    for name in ("gpus", "gpus-per-node", "gres", "gpus-per-task"):
        if name in request.gpus:
            kind, count, option = request.gpus[name]
            if name != "gres":
                request.variables[f"SLURM_{name.upper().replace('-', '_')}"] = str(count)
            if name == "gpus":
                return kind, _evenly(count, request.nodes or 1, option)
            return kind, count * (tasks if name == "gpus-per-task" else 1)
    return "", 0


def _evenly(count: int, nodes: int, option: SbatchOption) -> int:
    if count % nodes:
        raise BadInput(
            f"line {option.line}: {option}: {nodes} nodes cannot have equally many of {count} GPUs; "
            f"ask for {-(-count // nodes) * nodes}"
        )
    return count // nodes


def _memory_a_node(request: SbatchRequest, gpus: int, cpus: int) -> str:
    """--mem=0 asks for all there is: a job that names no amount may use it."""
    name, amount, unit = request.memory
    total = amount * {"mem": 1, "mem-per-cpu": cpus, "mem-per-gpu": gpus}[name]
    return f"{total}{unit}" if total else ""


TAKEN: Mapping[str, Callable[[SbatchOption, SbatchRequest], None]] = {
    "account": _as("tenant"),
    "array": _as("array"),
    "begin": _begin,
    "chdir": _as("workdir"),
    "cpus-per-task": _cpus,
    "dependency": _dependency,
    "error": _as("error"),
    "export": _export,
    "gpus": _gpus,
    "gpus-per-node": _gpus,
    "gpus-per-task": _gpus,
    "gres": _gres,
    "hold": _hold,
    "job-name": _as("name"),
    "mail-type": _mail,
    "mail-user": _mail,
    "mem": _memory,
    "mem-per-cpu": _memory,
    "mem-per-gpu": _memory,
    "nice": _nice,
    "no-requeue": _requeue,
    "nodes": _nodes,
    "ntasks": _tasks,
    "ntasks-per-node": _tasks,
    "output": _as("output"),
    "requeue": _requeue,
    "signal": _signal,
    "time": _time,
}
