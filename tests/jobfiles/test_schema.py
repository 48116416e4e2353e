"""The published JSON Schema, and that descriptions survive being written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dovetail.jobfiles import schema
from dovetail.jobfiles.job_model import Checkpoint, Elastic, JobSpec, Profile, Resources, dump, read
from dovetail.jobfiles.yaml_files import parse_yaml

HERE = Path(__file__).parents[2]
PUBLISHED = HERE / "docs" / "job.schema.json"
PAGE = (HERE / "docs" / "howto" / "describe-a-job.md").read_text()


def test_the_published_schema_is_up_to_date() -> None:
    assert PUBLISHED.read_text() == schema.text(schema.schema()), (
        "run: python -m dovetail.jobfiles.schema > docs/job.schema.json"
    )


@pytest.mark.parametrize("example", schema.EXAMPLES)
def test_the_examples_of_the_schema_are_descriptions(example: dict[str, Any]) -> None:
    read(example)


@pytest.mark.parametrize("model", [JobSpec, Resources, Checkpoint, Elastic])
def test_every_field_is_described_and_its_examples_are_accepted(model: type[Any]) -> None:
    needed = {"max": 4096} if model is Elastic else {}
    for name, field in model.model_fields.items():
        assert field.description
        for example in field.examples or ():
            base = (
                {"run": "true"} if model is JobSpec and name not in ("run", "command") else needed
            )
            model.model_validate({**base, name: example})


def test_the_page_tells_of_every_field() -> None:
    tables: dict[str, Any] = {
        "resources": Resources,
        "checkpoint": Checkpoint,
        "elastic": Elastic,
        "profile": Profile,
    }
    names = [name for name in JobSpec.model_fields if name not in tables]
    names += [f"{table}.{name}" for table, model in tables.items() for name in model.model_fields]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_description_on_the_page_is_one() -> None:
    job = parse_yaml(PAGE.partition("```yaml\n")[2].partition("```")[0])
    assert (job.name, job.gpus) == ("fine-tune", 2)


def test_a_validator_agrees_with_the_schema() -> None:
    validators = pytest.importorskip("jsonschema_rs")
    validator = validators.Draft202012Validator(schema.schema())
    yaml = pytest.importorskip("yaml")
    for example in (*schema.EXAMPLES, yaml.safe_load((HERE / "examples" / "job.yaml").read_text())):
        validator.validate(example)
    for wrong in ({}, {"run": ""}, {"run": "x", "command": ["x"]}, {"run": "x", "gpus": 2}):
        assert not validator.is_valid(wrong)
    for field in ({"priority": True}, {"resources": {"gpus": -1}}, {"elastic": {"min": 1}}):
        assert not validator.is_valid({"run": "x", **field})


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NAMES = TEXTS.filter(str.isprintable)
KINDS = st.sampled_from(["H100", "A100", "NVIDIA T4", "1g.10gb"])
COUNTS = st.integers(1, 4096)
DURATIONS = st.one_of(st.floats(0.001, 1e9), st.sampled_from(["2h30m", "1-12:00:00", "90"]))
SIZES = st.one_of(st.floats(0, 1e5), st.sampled_from(["20GB", "16GiB", "500MB"]))
RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "any_of": st.lists(KINDS, max_size=3),
        "gpu_memory": SIZES,
        "memory": SIZES,
        "cpus": st.one_of(st.floats(0, 1000), st.just("4+")),
    },
)
SIZED = st.one_of(
    RESOURCES,
    st.builds(lambda own, n: own | {"gpus": n}, RESOURCES, st.integers(0, 4096)),
    st.builds(lambda own, k, n: own | {"accelerators": f"{k}:{n}"}, RESOURCES, KINDS, COUNTS),
    st.builds(lambda own, s: own | {"share": s}, RESOURCES, st.floats(0.001, 1)),
)
OPTIONAL = {
    "name": NAMES,
    "setup": TEXTS.filter(str.strip),
    "workdir": TEXTS,
    "envs": st.dictionaries(NAMES.filter(lambda name: name and "=" not in name), TEXTS, max_size=4),
    "resources": SIZED,
    "priority": st.floats(-1e9, 1e9),
    "deadline": st.one_of(
        st.floats(0.001, 1e9).map(lambda s: f"+{s}"), st.datetimes().map(lambda t: f"{t}Z")
    ),
    "time_limit": DURATIONS,
    "estimate": DURATIONS,
    "checkpoint": st.fixed_dictionaries({}, optional={"grace": DURATIONS, "dir": TEXTS}),
    "preemptible": st.sampled_from([True, False, "restart"]),
    "retries": st.integers(0, 1000),
    "array": st.sampled_from(["0-9", "1,3,5-20:5%4", 7]),
    "after": st.lists(st.from_regex(r"\A[0-9]{1,9}(\.[0-9]{1,4})?\Z"), max_size=3),
    "tenant": NAMES,
    "group": NAMES,
    "slurm": st.booleans(),
}
SCRIPTS = st.fixed_dictionaries(
    {"run": TEXTS.filter(str.strip)}, optional={**OPTIONAL, "args": st.lists(TEXTS, max_size=3)}
)
COMMANDS = st.fixed_dictionaries(
    {"command": st.builds(lambda a, b: [a, *b], TEXTS.filter(bool), st.lists(TEXTS, max_size=3))},
    optional=OPTIONAL,
)
SPECS = st.one_of(SCRIPTS, COMMANDS).map(read)


@given(SPECS)
def test_a_description_survives_being_sent_as_json(spec: JobSpec) -> None:
    assert read(json.loads(json.dumps(dump(spec)))) == spec


@given(SPECS)
def test_a_description_survives_being_written_as_yaml(spec: JobSpec) -> None:
    assert parse_yaml(yaml.safe_dump(dump(spec))) == spec
