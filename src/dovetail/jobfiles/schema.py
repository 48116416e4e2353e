"""The published JSON Schemas of jobs and studies, for editors and other programs.

`python -m dovetail.jobfiles.schema > docs/job.schema.json` writes one anew, and
`python -m dovetail.jobfiles.schema study > docs/study.schema.json` the other.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pydantic import BaseModel

from dovetail.jobfiles.job_model import JobSpec
from dovetail.jobfiles.service_model import ServiceSpec
from dovetail.jobfiles.study_model import NOT_OF_A_STUDY, StudySpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
EXAMPLES: tuple[dict[str, Any], ...] = (
    {"run": "python train.py"},
    {
        "name": "fine-tune",
        "resources": {"accelerators": "H100:2", "memory": "64GB"},
        "envs": {"EPOCHS": 3},
        "run": "python train.py --epochs $EPOCHS",
        "time_limit": "2h30m",
        "checkpoint": {"grace": "90s"},
    },
    {
        "name": "seeds",
        "command": ["python", "train.py", "--small"],
        "resources": {"share": 0.25, "gpu_memory": "20GB"},
        "array": "0-9%4",
        "preemptible": "restart",
    },
)


STUDY_EXAMPLES: tuple[dict[str, Any], ...] = (
    {
        "name": "digits",
        "run": "python train.py --lr {lr} --units {units}",
        "space": {"lr": {"log": [1e-4, 0.1]}, "units": {"int": [16, 256]}},
        "metric": "val_loss",
        "steps": 27,
        "trials": 27,
    },
    {
        "function": "train:objective",
        "space": {
            "optimizer": {"choice": ["sgd", "adam"]},
            "beta": {"float": [0.8, 0.999], "when": {"optimizer": "adam"}},
            "decay": {"choice": [0.1, 0.5], "from_step": 20},
        },
        "metric": "accuracy",
        "direction": "max",
        "steps": 30,
        "trials": 50,
        "sampler": "tpe",
        "target": 0.98,
        "budget": {"time": "2h", "gpu_hours": 10},
    },
)


def schema() -> dict[str, Any]:
    return _published(JobSpec, "job", ("run", "command"), EXAMPLES)


def study_schema() -> dict[str, Any]:
    found = _published(StudySpec, "study", ("run", "command", "function"), STUDY_EXAMPLES)
    for name in NOT_OF_A_STUDY:
        del found["properties"][name]
    return found


def service_schema() -> dict[str, Any]:
    return _published(ServiceSpec, "service", ("run", "command"), ())


def _published(
    model: type[BaseModel], name: str, ways: tuple[str, ...], examples: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    """Draft 2020-12. It says what to write; the readers accept a few spellings more."""
    found = model.model_json_schema()
    head = {"$schema": DIALECT, "$id": f"urn:dovetail:{name}", "title": f"Dovetail {name}"}
    return (
        head
        | {name: own for name, own in found.items() if name != "title"}
        | {"oneOf": [{"required": [way]} for way in ways]}
        | {"examples": list(examples)}
    )


def text(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(study_schema() if sys.argv[1:] == ["study"] else schema()), end="")
