"""The types of a description's fields: how each is read, and how the JSON Schema tells of it.

The schema is there for editors, which help with what is plainly wrong; the readers look closer, and
say in words what is wrong and what is needed.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from dovetail.jobfiles import arrays, quantities, texts
from dovetail.jobfiles import profiles as timed
from dovetail.notify.message import EVENTS
from dovetail.worlds.images import LONGEST_IMAGE

MOST_RETRIES = 1000
MOST_NODES = 10_000
MOST_WORDS = 100_000
MOST_IN_A_LIST = 1000
LARGEST_PRIORITY = 1e9


def _json(*types: str, low: float | None = None, high: float | None = None, **more: Any) -> Any:
    limits = {"minimum": low, "maximum": high}
    told = {name: limit for name, limit in limits.items() if limit is not None}
    return WithJsonSchema({"type": types[0] if len(types) == 1 else list(types), **told, **more})


_SCALAR = {"type": ["string", "number", "boolean"]}

Label = Annotated[str, BeforeValidator(texts.label), _json("string", maxLength=texts.LONGEST_NAME)]
Pattern = Annotated[
    str,
    BeforeValidator(texts.pattern),
    _json("string", format="regex", maxLength=texts.LONGEST_PATTERN),
]
Folder = Annotated[str, BeforeValidator(texts.path), _json("string", maxLength=texts.LONGEST_PATH)]
Image = Annotated[str, BeforeValidator(texts.image), _json("string", maxLength=LONGEST_IMAGE)]
Volumes = Annotated[
    dict[str, str],
    BeforeValidator(texts.volumes),
    Field(max_length=MOST_IN_A_LIST),
    _json("object", additionalProperties={"type": "string"}),
]
ServiceAccount = Annotated[
    str, BeforeValidator(texts.service_account), _json("string", maxLength=63)
]
Script = Annotated[str, BeforeValidator(texts.script), _json("string", minLength=1)]
Word = Annotated[str, BeforeValidator(texts.word), WithJsonSchema(_SCALAR)]
Words = Annotated[tuple[Word, ...], Field(max_length=MOST_WORDS)]
Variables = Annotated[
    dict[str, str],
    BeforeValidator(texts.variables),
    _json("object", additionalProperties=_SCALAR),
]
JobIds = Annotated[
    tuple[str, ...],
    BeforeValidator(texts.job_ids),
    Field(max_length=MOST_IN_A_LIST),
    _json("array", "string", "integer", items={"type": ["string", "integer"]}),
]
NotifyWays = Annotated[
    tuple[str, ...],
    BeforeValidator(texts.notify_ways),
    Field(max_length=10),
    _json("array", "string", items={"type": "string"}),
]
NotifyEvents = Annotated[
    tuple[str, ...],
    BeforeValidator(texts.notify_events),
    _json("array", "string", items={"enum": list(EVENTS)}),
]
Indices = Annotated[str, BeforeValidator(arrays.array), _json("string", "integer", low=0)]

Gpus = Annotated[
    int,
    BeforeValidator(quantities.whole(0, quantities.MOST_GPUS)),
    _json("integer", "string", low=0, high=quantities.MOST_GPUS),
]
SomeGpus = Annotated[
    int,
    BeforeValidator(quantities.whole(1, quantities.MOST_GPUS)),
    _json("integer", "string", low=1, high=quantities.MOST_GPUS),
]
Accelerators = Annotated[
    tuple[str, ...],
    BeforeValidator(quantities.accelerators),
    Field(max_length=MOST_IN_A_LIST),
    _json(
        *("string", "integer", "object", "array"),
        low=0,
        high=quantities.MOST_GPUS,
        additionalProperties={"type": ["integer", "string", "null"]},
        items={"type": ["string", "integer", "object"]},
    ),
]
Share = Annotated[
    float, BeforeValidator(quantities.share), _json("number", "string", low=0.001, high=1000)
]
Cpus = Annotated[
    float,
    BeforeValidator(quantities.cpus),
    _json("number", "string", low=0, high=quantities.MOST_CPUS),
]
Gigabytes = Annotated[
    float,
    BeforeValidator(quantities.gigabytes),
    _json("string", "number", low=0, high=quantities.MOST_GB),
]

Duration = Annotated[
    float, BeforeValidator(quantities.duration), _json("string", "number", exclusiveMinimum=0)
]
Grace = Annotated[float, BeforeValidator(quantities.grace), _json("string", "number", low=0)]
Options = Annotated[
    dict[str, dict[int, float]],
    BeforeValidator(timed.options),
    _json(
        "object",
        additionalProperties={
            "type": "object",
            "additionalProperties": {"type": ["string", "number"]},
        },
    ),
]
LateCost = Annotated[str, BeforeValidator(timed.late_cost), _json("string")]
Deadline = Annotated[str, BeforeValidator(quantities.deadline), _json("string")]

Steps = Annotated[
    float,
    BeforeValidator(quantities.within(1e-9, quantities.LARGEST_WHOLE)),
    _json("number", "string", exclusiveMinimum=0),
]
Retries = Annotated[
    int,
    BeforeValidator(quantities.whole(0, MOST_RETRIES)),
    _json("integer", "string", low=0, high=MOST_RETRIES),
]
Nodes = Annotated[
    int,
    BeforeValidator(quantities.whole(1, MOST_NODES)),
    _json("integer", "string", low=1, high=MOST_NODES),
]
Priority = Annotated[
    float,
    BeforeValidator(quantities.within(-LARGEST_PRIORITY, LARGEST_PRIORITY)),
    _json("number", "string", low=-LARGEST_PRIORITY, high=LARGEST_PRIORITY),
]
Truth = Annotated[bool, BeforeValidator(quantities.truth), _json("boolean", "string")]
Preemptible = Annotated[
    bool | Literal["restart"],
    BeforeValidator(quantities.preemptible),
    WithJsonSchema({"enum": [True, False, "restart"]}),
]
