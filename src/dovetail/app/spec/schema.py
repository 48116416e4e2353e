"""The published JSON Schema of job descriptions, for editors and other programs.

`python -m dovetail.app.spec.schema > docs/job.schema.json` writes it anew.
"""

from __future__ import annotations

import json
from typing import Any

from dovetail.app.spec.model import JobSpec

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


def schema() -> dict[str, Any]:
    """Draft 2020-12. It says what to write; the readers accept a few spellings more."""
    found = JobSpec.model_json_schema()
    head = {"$schema": DIALECT, "$id": "urn:dovetail:job", "title": "Dovetail job"}
    either = {"oneOf": [{"required": ["run"]}, {"required": ["command"]}]}
    return (
        head
        | {name: own for name, own in found.items() if name != "title"}
        | either
        | {"examples": list(EXAMPLES)}
    )


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
