"""The types of a study's own fields: how each is read, and how the JSON Schema tells of it."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema

from dovetail.core.errors import BadInput
from dovetail.jobfiles import quantities, texts
from dovetail.jobfiles.complaint import Complaint
from dovetail.tune import sampling
from dovetail.tune.described import dump_space, read_space
from dovetail.tune.parameters import BadSpace
from dovetail.tune.space import Space

MOST_STEPS = 10**9
MOST_TRIALS = 10_000
LARGEST_SEED = 2**53
LONGEST_NAME = 100
STUDY_ID = re.compile(r"s[0-9]+")  # what the daemon calls studies
FUNCTION = re.compile(r"[^:\0]+:[^\W\d]\w*(\.[^\W\d]\w*)*")


def space(given: object) -> Space:
    try:
        return given if isinstance(given, Space) else read_space(given)
    except BadSpace as error:
        raise Complaint(str(error), *error.path[1:]) from None


def name(given: object) -> str:
    """One by which commands and addresses can reach the study."""
    found = texts.label(given)
    if len(found) > LONGEST_NAME:
        raise ValueError(f"has {len(found)} characters; a study's name has {LONGEST_NAME} at most")
    if STUDY_ID.fullmatch(found):
        raise ValueError("looks like the id of a study; give it another name")
    if found and (found != plain_name(found) or not any(map(str.isalnum, found))):
        raise ValueError("is no name for a study; write letters, digits, spaces and . _ - only")
    return found


def plain_name(text: str) -> str:
    """A - for everything that has no place in the name of a study."""
    return "".join([sign if _is_plain(sign) else "-" for sign in text])


def _is_plain(sign: str) -> bool:
    return sign in " ._-" or unicodedata.category(sign)[0] in "LMN"  # letters, marks, numbers


def sampler(given: object) -> str:
    try:
        sampling.check(found := texts.label(given))
    except BadInput as error:
        raise Complaint(f"sampler: {error}") from None
    return found


def direction(given: object) -> str:
    known = {"min": "min", "minimize": "min", "max": "max", "maximize": "max"}
    if not isinstance(given, str) or given.lower() not in known:
        raise ValueError("is not min or max")
    return known[given.lower()]


def metric(given: object) -> str:
    found = texts.label(given)
    if not found:
        raise ValueError("is no name; write the metric that the trials report, such as val_loss")
    return found


def function(given: object) -> str:
    found = texts.word(given)
    if not FUNCTION.fullmatch(found):
        raise ValueError("is not module:function, such as train:objective or train.py:objective")
    return found


def hours(given: object) -> float:
    found = quantities.number(given)
    if not 0 < found <= _MOST_HOURS:
        raise ValueError(f"is out of range; give more than 0 GPU-hours, at most {_MOST_HOURS:g}")
    return found


_MOST_HOURS = 1e9
_SETTING: dict[str, Any] = {"type": ["string", "number", "boolean"]}
_NUMBER: dict[str, Any] = {"type": ["number", "string"]}
_PAIR: dict[str, Any] = {"type": "array", "minItems": 2, "maxItems": 2, "items": _NUMBER}
_FLAG: dict[str, Any] = {"type": ["boolean", "string"]}
_LIST: dict[str, Any] = {"type": "array", "minItems": 1, "items": _SETTING}
_WHEN: dict[str, Any] = {"type": "object", "additionalProperties": {"anyOf": [_SETTING, _LIST]}}


def _described(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}


_PARAMETER = {
    "type": "object",
    "properties": {
        "float": _described(_PAIR, "A number between two bounds."),
        "log": _described(
            {"anyOf": [_PAIR, _FLAG]},
            "A number between two bounds on a log scale; with int or float: whether it is.",
        ),
        "int": _described(_PAIR, "A whole number, both bounds included."),
        "choice": _described(_LIST, "One of these values."),
        "step": _described(_NUMBER, "Only low, low + step, and so on."),
        "text": _described(_FLAG, "The values of the choice stay texts."),
        "when": _described(_WHEN, "It counts only if other parameters have these values."),
        "from_step": _described(
            {"type": ["integer", "string"], "minimum": 0},
            "It makes no difference before that step.",
        ),
    },
    "additionalProperties": False,
}


def _counted(low: int, high: int) -> Any:
    return WithJsonSchema({"type": ["integer", "string"], "minimum": low, "maximum": high})


_TEXT = WithJsonSchema({"type": "string", "minLength": 1})

SearchSpace = Annotated[
    Any,
    PlainValidator(space),
    PlainSerializer(dump_space),
    WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": _PARAMETER}),
]
Name = Annotated[
    str, BeforeValidator(name), WithJsonSchema({"type": "string", "maxLength": LONGEST_NAME})
]
Function = Annotated[str, BeforeValidator(function), _TEXT]
Metric = Annotated[str, BeforeValidator(metric), _TEXT]
Direction = Annotated[str, BeforeValidator(direction), WithJsonSchema({"enum": ["min", "max"]})]
Sampler = Annotated[str, BeforeValidator(sampler), WithJsonSchema({"enum": list(sampling.NAMES)})]
Target = Annotated[float, BeforeValidator(quantities.number), WithJsonSchema(_NUMBER)]
GpuHours = Annotated[
    float, BeforeValidator(hours), WithJsonSchema({**_NUMBER, "exclusiveMinimum": 0})
]
Steps = Annotated[int, BeforeValidator(quantities.whole(1, MOST_STEPS)), _counted(1, MOST_STEPS)]
Trials = Annotated[int, BeforeValidator(quantities.whole(1, MOST_TRIALS)), _counted(1, MOST_TRIALS)]
Seed = Annotated[int, BeforeValidator(quantities.whole(0, LARGEST_SEED)), _counted(0, LARGEST_SEED)]
