"""From pydantic's list of errors to one line that says where, what, and what is needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from dovetail.jobfiles.complaint import Complaint, clipped, shown

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Path = tuple[str | int, ...]
Lines = Mapping[Path, int]  # where each field stands in its file

ELSEWHERE = {  # what other tools call it, and what to do instead
    "env": "did you mean 'envs'?",
    "environment": "did you mean 'envs'?",
    "secrets": "use 'envs': only you can read what is kept of them",
    "cmd": "did you mean 'command'?",
    "commands": "use 'run', a shell script",
    "script": "did you mean 'run'?",
    "gpu": "did you mean 'resources.gpus'?",
    "mem": "did you mean 'resources.memory'?",
    "timeout": "did you mean 'time_limit'?",
    "max_duration": "did you mean 'time_limit'?",
    "walltime": "did you mean 'time_limit'?",
    "depends_on": "did you mean 'after'?",
    "dependency": "did you mean 'after'?",
    "retry": "did you mean 'retries'?",
    "requeue": "use 'preemptible: restart' or 'retries'",
    "num_nodes": "did you mean 'nodes'?",
    "file_mounts": "jobs run on this machine and see its files; leave it out",
    "ordered": "did you mean 'any_of'?",
    "<<": "merging is not understood; write the fields out",
}
NEEDED = {
    "tuple_type": "is not a list; write [first, second]",
    "model_type": "is not a table of fields",
    "model_attributes_type": "is not a table of fields",
    "dict_type": "is not a table of fields",
    "string_unicode": "holds bytes that are not UTF-8 text",
}


def explain(error: ValidationError, source: str = "", lines: Lines | None = None) -> str:
    """`job.yaml, line 4: resources.memory: 'lots' is not a size; …` and how many more there are."""
    return told(error.errors(include_url=False), source, lines, error.title)


def told(
    errors: Sequence[Mapping[str, Any]],
    source: str = "",
    lines: Lines | None = None,
    title: str = "JobSpec",
) -> str:
    """The same from the errors as a list, which is how a web framework hands them on."""
    first = min(errors, key=lambda error: _line(error, lines))  # of equals, the one found first
    where = [source] if source else []
    if _line(first, lines):
        where.append(f"line {_line(first, lines)}")
    more = f" ({len(errors) - 1} more to mend)" if len(errors) > 1 else ""
    return f"{', '.join(where)}{': ' if where else ''}{_sentence(first, title)}{more}"


def _line(error: Mapping[str, Any], lines: Lines | None) -> int:
    """The line of the field at fault, or of what encloses it; 0 if the file is not known."""
    path = _path(error)
    while lines and path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0) if lines else 0


def _path(error: Mapping[str, Any]) -> Path:
    path: Path = tuple(error["loc"])
    reason = error.get("ctx", {}).get("error")
    return path + reason.path if isinstance(reason, Complaint) else path


def _sentence(error: Mapping[str, Any], title: str) -> str:
    reason = error.get("ctx", {}).get("error")
    if isinstance(reason, Complaint):
        return str(reason)
    name = _spelled(error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{name}: there is no such field; {_hint(error['loc'], title)}"
    if error["type"] == "missing":
        return f"{name}: this field is needed"
    return f"{name}: {shown(error['input'])} {_why(error, reason)}"


def _why(error: Mapping[str, Any], reason: object) -> str:
    if error["type"] == "too_long":
        return f"is too long; {error['ctx']['max_length']:,} is the most"
    return str(reason) if reason else NEEDED.get(error["type"], f"is refused: {error['msg']}")


def _spelled(path: Path) -> str:
    """`resources.cpus`, `command[2]`, on one line whatever the keys are."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    text = clipped(text.removeprefix("."))
    return text if text.isprintable() else ascii(text)


def _hint(path: Path, title: str) -> str:
    """What was meant: what other tools call so, a field beside it, or one in another table."""
    from difflib import get_close_matches

    name = clipped(str(path[-1])).lower()
    if name in ELSEWHERE and title not in ("ServicesFile", "LanguageLatencyFields"):
        return _known_elsewhere(name, title)
    tables = _tables(title)
    table = str(path[0]) if len(path) > 1 else ""
    for own in sorted(tables, key=lambda own: own != table):
        if close := get_close_matches(name, tables[own], 1, 0.7):
            return f"did you mean {'.'.join(filter(None, (own, close[0])))!r}?"
    return f"known are {', '.join(tables[table])}"


def _known_elsewhere(name: str, title: str) -> str:
    if title == "StudySpec" and "'after'" in ELSEWHERE[name]:
        from dovetail.jobfiles.study_model import NOT_OF_A_STUDY

        return NOT_OF_A_STUDY["after"]
    return ELSEWHERE[name]


def _tables(title: str) -> dict[str, list[str]]:
    """The names of the fields by the table they stand in; the outer table has no name."""
    from dovetail.jobfiles.job_model import Checkpoint, Elastic, JobSpec, Resources

    tables: dict[str, type[BaseModel]] = {
        "": JobSpec,
        "resources": Resources,
        "checkpoint": Checkpoint,
        "elastic": Elastic,
    }
    left_out: Collection[str] = ()
    if title == "ServicesFile":
        from dovetail.jobfiles.served_models import ServedSpec, ServicesFile

        tables = {"": ServicesFile, "services": ServedSpec}
    if title == "LanguageLatencyFields":
        from dovetail.jobfiles.language_latency import LanguageLatencyFields

        tables = {"": LanguageLatencyFields}
        for name, field in LanguageLatencyFields.model_fields.items():
            tables[name] = cast("type[BaseModel]", field.annotation)
    if title == "ServiceSpec":
        from dovetail.jobfiles.service_model import Replicas, ServiceSpec, Sleep

        tables |= {"": ServiceSpec, "replicas": Replicas, "sleep": Sleep}
    if title == "StudySpec":
        from dovetail.jobfiles.study_model import NOT_OF_A_STUDY, Budget, StudySpec

        tables |= {"": StudySpec, "budget": Budget}
        left_out = NOT_OF_A_STUDY
    return {
        name: [field for field in table.model_fields if name or field not in left_out]
        for name, table in tables.items()
    }
