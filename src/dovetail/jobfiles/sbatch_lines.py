"""The options on the `#SBATCH` lines of a batch script, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dovetail.core.errors import BadInput

MARK = "#SBATCH"
LETTERS = {
    "A": "account",
    "a": "array",
    "B": "extra-node-info",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "k": "no-kill",
    "L": "licenses",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "O": "overcommit",
    "o": "output",
    "p": "partition",
    "Q": "quiet",
    "q": "qos",
    "S": "core-spec",
    "s": "oversubscribe",
    "t": "time",
    "v": "verbose",
    "W": "wait",
    "w": "nodelist",
    "x": "exclude",
}
BARE = {  # options that take no value, or one only after "="
    *("contiguous", "exclusive", "get-user-env", "hold", "ignore-pbs", "kill-on-invalid-dep"),
    *("nice", "no-kill", "no-requeue", "overcommit", "oversubscribe", "parsable", "quiet"),
    *("requeue", "reboot", "spread-job", "test-only", "use-min-nodes", "verbose", "wait"),
}


class SbatchOption(NamedTuple):
    """One option of a `#SBATCH` line, by its long name."""

    name: str
    value: str
    line: int

    def __str__(self) -> str:
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


def is_script(text: str) -> bool:
    """Is this a script to run, rather than a description in YAML?"""
    return text.startswith("#!") or f"\n{MARK}" in f"\n{text}"


def options(script: str, notices: list[str]) -> Iterator[SbatchOption]:
    """In order. Like Slurm, looks no further than the first command of the script."""
    begun = False
    for number, line in enumerate(script.split("\n"), 1):
        if not line.startswith(MARK) or line[len(MARK) :][:1].strip():
            begun = begun or bool(line.strip() and not line.lstrip().startswith("#"))
        elif begun:
            notices.append(f"line {number}: {MARK} after the first command is not read")
        else:
            yield from _of_line(_words(line[len(MARK) :], number), number)


def _words(text: str, line: int) -> list[str]:
    import shlex

    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise BadInput(f"line {line}: {MARK} cannot be read: {str(error).lower()}") from None


def _of_line(words: list[str], line: int) -> Iterator[SbatchOption]:
    waiting = words[::-1]
    while waiting:
        name, value = _name_and_value(waiting.pop(), line)
        if value is None and name not in BARE and waiting and not _is_option(waiting[-1]):
            value = waiting.pop()
        yield SbatchOption(name, value or "", line)


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit()


def _name_and_value(word: str, line: int) -> tuple[str, str | None]:
    """`--time=5` and `-t5` bring their values; `--time 5` and `-t 5` have them in the next word."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return name.lower(), value if equals else None
    if word in ("hetjob", "packjob"):
        raise BadInput(
            f"line {line}: {MARK} {word}: a job of several parts needs several machines; "
            "submit each part by itself"
        )
    if not _is_option(word):
        raise BadInput(f"line {line}: {MARK} has {word!r:.60} where an option is needed")
    return LETTERS.get(word[1], word[1]), word[2:] or None
