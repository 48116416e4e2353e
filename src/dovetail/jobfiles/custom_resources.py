"""The custom resources of Kubernetes for jobs, studies and services, made of the models of their files.

`python -m dovetail.jobfiles.custom_resources job > dovetailjobs.yaml` in deploy/helm/dovetail/crds
writes one anew, and so do `study > dovetailstudies.yaml` and `service > dovetailservices.yaml`.

An API server wants one type for each value. Where a description takes several (`4` or `"4GB"`), it
leaves the value alone, and the daemon says what is wrong with it. Defaults are left out: an object stays
as its user wrote it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

import yaml

from dovetail.jobfiles.schema import schema, service_schema, study_schema

GROUP: Final = "dovetail.dev"
VERSION: Final = "v1alpha1"
# Fields of a file that an object cannot have, as nobody is there to read another file.
NOT_OF_AN_OBJECT: Final = ("profile",)
_KEPT: Final = ("description", "enum", "minimum", "maximum", "minLength", "maxLength")
_KEPT_OF_LISTS: Final = ("minItems", "maxItems", "minProperties")
_ANYTHING: Final = "x-kubernetes-preserve-unknown-fields"
_NUMBER_OR_TEXT: Final = "x-kubernetes-int-or-string"

Json = dict[str, Any]


def job_resource() -> Json:
    columns = [
        ("Phase", "string", ".status.phase"),
        ("Job", "string", ".status.job"),
        ("Where", "string", ".status.placement"),
        ("Preempted", "integer", ".status.preemptions.count"),
        ("Lost GPU s", "number", ".status.preemptions.lostGpuSeconds"),
        ("Starts", "string", ".status.expectedStart"),
        ("Ends", "string", ".status.expectedEnd"),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Why", "string", ".status.why"),
    ]
    return _resource("DovetailJob", "dovetailjobs", "dtj", schema(), _JOB_STATUS, columns)


def study_resource() -> Json:
    columns = [
        ("Phase", "string", ".status.phase"),
        ("Study", "string", ".status.study"),
        ("Trials", "integer", ".status.trials.planned"),
        ("Done", "integer", ".status.trials.done"),
        ("Running", "integer", ".status.trials.running"),
        ("Best", "number", ".status.best.value"),
        ("GPU h", "number", ".status.gpuHours"),
        ("Switches", "integer", ".status.switches"),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Why", "string", ".status.why"),
    ]
    found = study_schema()
    return _resource("DovetailStudy", "dovetailstudies", "dts", found, _STUDY_STATUS, columns)


def service_resource() -> Json:
    columns = [
        ("Phase", "string", ".status.phase"),
        ("Service", "string", ".status.service"),
        ("Address", "string", ".status.address"),
        ("Ready", "integer", ".status.replicas.Ready"),
        ("Asleep", "integer", ".status.replicas.Asleep"),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Why", "string", ".status.why"),
    ]
    found = service_schema()
    found["required"] = []  # its name is that of the object
    kind, plural = "DovetailService", "dovetailservices"
    return _resource(kind, plural, "dtsv", found, _SERVICE_STATUS, columns)


def _resource(
    kind: str,
    plural: str,
    short: str,
    described: Mapping[str, Any],
    status: Json,
    columns: list[tuple[str, str, str]],
) -> Json:
    both = {"spec": _spec(described), "status": {"type": "object", **status}}
    top = {"type": "object", "required": ["spec"], "properties": both}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": of, "jsonPath": path} for name, of, path in columns
        ],
        "schema": {"openAPIV3Schema": top},
    }
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "shortNames": [short],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


# ---------------------------------------------------------------------------------- their spec


def _spec(described: Mapping[str, Any]) -> Json:
    found = _typed(described, described.get("$defs", {}))
    for name in NOT_OF_AN_OBJECT:
        found["properties"].pop(name, None)
    found["oneOf"] = described["oneOf"]
    return found


def _typed(told: Mapping[str, Any], tables: Mapping[str, Any]) -> Json:
    """One value as an API server can check it."""
    told = _alone(told, tables)
    types = told.get("type", [])
    types = [types] if isinstance(types, str) else list(types)
    kept = {name: told[name] for name in _KEPT if name in told}
    if types == ["object"]:
        kept |= {"type": "object", **_of_object(told, tables)}
    elif types == ["array"]:
        kept |= {"type": "array", "items": _typed(told["items"], tables)}
    elif len(types) == 1:
        kept["type"] = types[0]
    elif set(types) == {"integer", "string"}:
        kept[_NUMBER_OR_TEXT] = True
    elif all(isinstance(value, str) for value in told.get("enum", [0])):
        kept["type"] = "string"
    else:
        return {name: told[name] for name in _KEPT[:2] if name in told} | {_ANYTHING: True}
    return kept | {name: told[name] for name in _KEPT_OF_LISTS if name in told}


def _alone(told: Mapping[str, Any], tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the name of a table, and without null: of a field that may be null, `kubectl` would be
    told no type, and let unknown fields in it pass."""
    if "$ref" in told:
        table = tables[str(told["$ref"]).rpartition("/")[2]]
        return {**table, **{k: v for k, v in told.items() if k != "$ref"}}
    others = [own for own in told.get("anyOf", ()) if own != {"type": "null"}]
    if len(others) == 1:
        return {**_alone(others[0], tables), **{k: v for k, v in told.items() if k != "anyOf"}}
    return told


def _of_object(told: Mapping[str, Any], tables: Mapping[str, Any]) -> Json:
    if "properties" not in told:
        return {"additionalProperties": _typed(told["additionalProperties"], tables)}
    fields = {name: _typed(own, tables) for name, own in told["properties"].items()}
    required = {"required": list(told["required"])} if told.get("required") else {}
    return {"properties": fields, **required}


# --------------------------------------------------------------------------------- their status

_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer", "format": "int64"}
_REAL: Final = {"type": "number"}
_TIME: Final = {"type": "string", "format": "date-time"}
_COMMON: Final[Json] = {
    "phase": _TEXT,
    "why": {**_TEXT, "description": "Why it is where it is, in one line."},
    "trouble": {**_TEXT, "description": "What of the spec is not followed, and what to do."},
    "observedGeneration": _WHOLE,
    "home": {**_TEXT, "description": "Which journal it stands in."},
    "submittedAt": _TIME,
    "startedAt": _TIME,
    "endedAt": _TIME,
}
_JOB_STATUS: Final[Json] = {
    "properties": {
        **_COMMON,
        "job": {**_TEXT, "description": "Its number, for the commands of dovetail."},
        "placement": {**_TEXT, "description": "Nodes and GPUs that it has now."},
        "members": {
            "type": "object",
            "description": "Of an array: how many are in each phase.",
            "additionalProperties": _WHOLE,
        },
        "preemptions": {
            "type": "object",
            "properties": {
                "count": _WHOLE,
                "lostGpuSeconds": {**_REAL, "description": "Saving, restoring, work done twice."},
                "rung": {**_TEXT, "description": "How it gave way the last time."},
                "saveSeconds": _REAL,
                "restoreSeconds": _REAL,
                "parkedBytes": {**_WHOLE, "description": "Of it in host memory now."},
            },
        },
        "expectedStart": _TIME,
        "expectedEnd": _TIME,
        "exitCode": _WHOLE,
    }
}
_STUDY_STATUS: Final[Json] = {
    "properties": {
        **_COMMON,
        "study": {**_TEXT, "description": "Its id, for the commands of dovetail."},
        "trials": {"type": "object", "additionalProperties": _WHOLE},
        "best": {
            "type": "object",
            "properties": {
                "trial": _WHOLE,
                "value": _REAL,
                "step": _REAL,
                "settings": {"type": "object", _ANYTHING: True},
            },
        },
        "gpuHours": _REAL,
        "switches": _WHOLE,
    }
}

_SERVICE_STATUS: Final[Json] = {
    "properties": {
        **_COMMON,
        "service": {**_TEXT, "description": "Its id, for the commands of dovetail."},
        "address": {**_TEXT, "description": "Where it answers, inside the cluster."},
        "replicas": {
            "type": "object",
            "description": "How many are in each state.",
            "additionalProperties": _WHOLE,
        },
    }
}
RESOURCES: Final = {"job": job_resource, "study": study_resource, "service": service_resource}


def text(resource: Json) -> str:
    made = "# Made by `python -m dovetail.jobfiles.custom_resources`; see there.\n"
    return made + str(yaml.safe_dump(resource, sort_keys=False, width=110, allow_unicode=True))


if __name__ == "__main__":
    print(text(RESOURCES[sys.argv[1]]()), end="")
