"""The custom resources of Kubernetes are made of the models of their files, and stay so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dovetail.jobfiles import custom_resources
from dovetail.jobfiles.custom_resources import (
    NOT_OF_AN_OBJECT,
    job_resource,
    service_resource,
    study_resource,
)
from dovetail.jobfiles.job_model import JobSpec
from dovetail.jobfiles.service_model import ServiceSpec
from dovetail.jobfiles.study_model import NOT_OF_A_STUDY, StudySpec

CRDS = Path(__file__).parents[2] / "deploy" / "helm" / "dovetail" / "crds"
ALL = {
    "dovetailjobs": job_resource,
    "dovetailstudies": study_resource,
    "dovetailservices": service_resource,
}


def spec_of(resource: dict[str, Any]) -> dict[str, Any]:
    (version,) = resource["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


@pytest.mark.parametrize("name", ALL)
def test_what_is_deployed_is_what_the_models_say(name: str) -> None:
    """Else: see the first lines of `custom_resources`."""
    assert (CRDS / f"{name}.yaml").read_text() == custom_resources.text(ALL[name]())


def test_an_object_has_every_field_of_a_file_but_those_that_name_another_file() -> None:
    job, study = spec_of(job_resource()), spec_of(study_resource())
    assert set(job["properties"]) == set(JobSpec.model_fields) - set(NOT_OF_AN_OBJECT)
    assert set(spec_of(service_resource())["properties"]) == set(ServiceSpec.model_fields)
    left_out = {*NOT_OF_AN_OBJECT, *NOT_OF_A_STUDY}
    assert set(study["properties"]) == set(StudySpec.model_fields) - left_out


def test_no_value_is_filled_in() -> None:
    """`checkpoint: {}` says that a job saves itself: an object must stay as its user wrote it."""

    def defaults(found: Any) -> list[Any]:
        if isinstance(found, dict):
            own = [found] if "default" in found and "properties" not in found else []
            return own + [one for inner in found.values() for one in defaults(inner)]
        return []

    assert defaults(spec_of(job_resource())) == []
    assert defaults(spec_of(study_resource())) == []
    assert defaults(spec_of(service_resource())) == []


def test_an_api_server_is_told_one_type_for_each_value_or_none() -> None:
    def check(found: dict[str, Any]) -> None:
        kinds = {"type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"}
        assert len(kinds & set(found)) == 1, found
        assert isinstance(found.get("type", ""), str)
        inner = found.get("additionalProperties"), found.get("items")
        for own in (*found.get("properties", {}).values(), *filter(None, inner)):
            check(own)

    check(spec_of(job_resource()))
    check(spec_of(service_resource()))
    check(spec_of(study_resource()))
