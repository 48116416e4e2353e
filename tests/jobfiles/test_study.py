"""Studies described in YAML: what may be written, what is refused and how, and the jobs that result."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.core.errors import BadInput
from dovetail.jobfiles import schema
from dovetail.jobfiles.job_model import JobSpec, dump
from dovetail.jobfiles.study_model import NOT_OF_A_STUDY, Budget, StudySpec, expand, read_study
from dovetail.jobfiles.yaml_files import located
from dovetail.tune.space import Choice, Float, Integer, Log

HERE = Path(__file__).parents[2]
PUBLISHED = HERE / "docs" / "study.schema.json"
PAGE = HERE / "docs" / "howto" / "describe-a-study.md"
SPACE = {"lr": {"log": [1e-4, 0.1]}, "optimizer": {"choice": ["sgd", "adam"]}}
LEAST = {"run": "train", "space": SPACE, "metric": "loss", "steps": 9, "trials": 3}

WHOLE = r"""
name: digits
run: python train.py --lr {lr} --units {units}
resources: {gpus: 0, cpus: 1}
space:
  lr: {log: [1e-4, 1e-1]}
  momentum: {float: [0, 0.99]}
  units: {int: [16, 256], log: true, step: 16}
  optimizer: {choice: [sgd, adam]}
  beta: {float: [0.8, 0.999], when: {optimizer: adam}}
  decay: {choice: [0.1, 0.5], from_step: 20}
metric: val_loss
direction: max
metric_pattern: 'val_loss=(?P<val_loss>[-+.\deE]+)'
steps: 27
report_every: 1
trials: 27
at_once: 4
sampler: sobol
policy: asha-promote:eta=3
seed: 7
target: 0.05
stop_at_target: true
deadline: +2h
budget: {time: 2h, gpu_hours: 10}
"""


def parse_study(text: str, source: str = "") -> StudySpec:
    given, lines = located(text, source or "YAML")
    return read_study(given, source, lines)


def study(**fields: Any) -> StudySpec:
    return read_study({**LEAST, **fields})


def complaint(**fields: Any) -> str:
    with pytest.raises(BadInput) as caught:
        study(**fields)
    told = str(caught.value)
    assert "\n" not in told
    assert len(told) < 400
    assert told.isprintable()
    return told


def test_every_field_of_a_file_is_read() -> None:
    spec = parse_study(WHOLE)
    assert spec.space.parameters == {
        "lr": Log(1e-4, 1e-1),
        "momentum": Float(0, 0.99),
        "units": Integer(16, 256, step=16, log=True),
        "optimizer": Choice("sgd", "adam"),
        "beta": Float(0.8, 0.999, when={"optimizer": ("adam",)}),
        "decay": Choice(0.1, 0.5, from_step=20),
    }
    assert (spec.metric, spec.direction, spec.steps, spec.planned) == ("val_loss", "max", 27, 27)
    assert (spec.at_once, spec.sampler, spec.seed) == (4, "sobol", 7)
    assert spec.policy == "asha-promote:eta=3"
    assert (spec.target, spec.stop_at_target, spec.deadline) == (0.05, True, "+7200")
    assert spec.budget == Budget(time=7200.0, gpu_hours=10.0)
    assert spec.gpus == 0


def test_little_is_needed() -> None:
    spec = study()
    assert (spec.direction, spec.sampler, spec.policy, spec.seed) == ("min", "random", "default", 0)
    assert (spec.report_every, spec.at_once, spec.target, spec.title) == (1, None, None, "train")


def test_a_study_survives_being_sent_as_json() -> None:
    for spec in (parse_study(WHOLE), study(), read_study(schema.STUDY_EXAMPLES[1])):
        assert read_study(json.loads(json.dumps(dump(spec)))) == spec


# ----------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("line", "instead", "sentence"),
    [
        (6, "  lr: {log: [0, 1]}", "space.lr: a log scale cannot begin at 0; give a low bound"),
        (7, "  momentum: {float: [1, 0]}", "space.momentum: from 1 to 0 there is nothing; the low"),
        (9, "  optimizer: {choice: []}", "space.optimizer: a choice of nothing; give at least one"),
        (10, "  beta: {int: [1, 2], when: {o: x}}", "space.beta.when: there is no parameter 'o'"),
        (
            11,
            "  decay: {int: [1, 2], from_step: 27}",
            "space.decay.from_step: from step 27 on a tr",
        ),
        (12, "metric: ''", "metric: '' is no name; write the metric that the trials report"),
        (13, "direction: up", "direction: 'up' is not min or max"),
        (
            14,
            "metric_pattern: '('",
            "metric_pattern: '(' is not a regular expression: missing ), u",
        ),
        (
            14,
            "metric_pattern: 'x'",
            "metric_pattern: 'x' names no metric; write one as a group, such as",
        ),
        (14, "metric_pattern: '(?P<a>x)'", "metric_pattern: it has no group (?P<val_loss>…) for"),
        (15, "steps: 0", "steps: '0' is out of range; give 1 to 1,000,000,000"),
        (16, "report_every: 28", "report_every: 28 is more than all 27 steps"),
        (19, "sampler: sobl", "sampler: there is no sampler 'sobl'; did you mean 'sobol'?"),
        (22, "target: low", "target: 'low' is not a number"),
        (25, "budget: {gpu_hours: 0}", "budget.gpu_hours: '0' is out of range; give more"),
        (
            25,
            "budget: {hours: 3}",
            "budget.hours: there is no such field; did you mean 'budget.gpu_",
        ),
        (20, "polcy: fifo", "polcy: there is no such field; did you mean 'policy'?"),
        (
            3,
            "run: train {lrr}",
            "run: there is no parameter {lrr}; did you mean {lr}, or, as plain text, {{lrr}}",
        ),
        (3, "run: train {lr:.3f}", "run: {lr:.3f} asks for a format; write {lr}"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_field(line: int, instead: str, sentence: str) -> None:
    lines = WHOLE.split("\n")
    lines[line - 1] = instead
    with pytest.raises(BadInput) as caught:
        parse_study("\n".join(lines), "study.yaml")
    assert str(caught.value).startswith(f"study.yaml, line {line}: {sentence}")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"run": None}, "nothing to run: write a shell script in run, a list in command, or funct"),
        ({"function": "a:b"}, "run and function: give one of them, not both"),
        ({"run": None, "function": "train"}, "function: 'train' is not module:function, such as"),
        ({"run": None, "function": "train:a b"}, "function: 'train:a b' is not module:function"),
        ({"array": "0-3"}, "array: a study numbers its own trials; leave it out, or say trials"),
        ({"group": "x"}, "group: the trials of a study are its group; leave it out"),
        ({"after": ["7"]}, "after: a study does not wait for jobs; `dovetail wait ID` does, then"),
        ({"trials": None}, "trials: the sampler random goes on for ever; say how many trials"),
        ({"sampler": "grid", "trials": 3}, "sampler: the smallest grid of this space has 4 trial"),
        ({"stop_at_target": True}, "stop_at_target: say which target"),
        ({"space": None}, "space: this field is needed"),
        ({"space": {}}, "space: there is nothing to search"),
        ({"metric": None}, "metric: this field is needed"),
        ({"envs": {"A": "x{hunter2}"}}, "envs.A: a name in its braces is no parameter; braces of"),
        (
            {"args": ["{x}"]},
            "args: there is no parameter {x}; for plain text write {{x}}",
        ),
        ({"resources": {"share": 2.5}}, "resources.share: 2.5 is no part of a GPU"),
    ],
)
def test_what_does_not_fit_together_is_refused(fields: dict[str, Any], sentence: str) -> None:
    assert complaint(**fields).startswith(sentence)


@pytest.mark.parametrize(
    "name", ["a/b", "<b>", "a\nb", "a\x1bb", "s1", "..", "x" * 101, "a?b", "ü%"]
)
def test_a_name_by_which_no_command_could_reach_the_study_is_refused(name: str) -> None:
    assert complaint(name=name).startswith("name: ")


@pytest.mark.parametrize("name", ["digits", "Größe 2.1_b-c", "हिन्दी", "数字", "s1b", "x" * 100])
def test_names_may_have_letters_of_any_script(name: str) -> None:
    assert study(name=name).title == name


@pytest.mark.parametrize(("run", "title"), [("./tr<a>in.sh", "tr-a-in.sh"), ("s1", "study-s1")])
def test_a_study_without_a_name_has_one_that_can_be_used(run: str, title: str) -> None:
    assert study(run=run).title == title


def test_no_message_shows_the_value_of_a_variable() -> None:
    assert "hunter2" not in complaint(envs={"A": "x{hunter2}"})


def test_an_unknown_field_is_not_answered_with_fields_that_a_study_cannot_have() -> None:
    with pytest.raises(BadInput, match="known are") as told:
        study(qqq=1)
    known = str(told.value).partition("known are ")[2].split(", ")
    assert {"space", "metric", "time_limit"} <= set(known)
    assert not set(known) & set(NOT_OF_A_STUDY)


def test_what_other_tools_call_after_is_answered_as_after_is() -> None:
    with pytest.raises(BadInput, match=r"depends_on: .*a study does not wait for jobs"):
        study(depends_on=["7"])


def test_a_grid_counts_its_own_trials() -> None:
    assert study(sampler="grid", trials=None, space={"n": {"int": [1, 3]}}).planned == 3
    assert study(sampler="grid", trials=9).planned == 8  # 4 x 2


# -------------------------------------------------------------------------------- settings in texts


def test_settings_go_where_their_names_stand() -> None:
    spec = study(run="train --lr {lr} -o {optimizer} --out runs/{trial}", args=["{lr}"])
    job = expand(spec, {"lr": 0.01, "optimizer": "adam"}, 4)
    assert job.run == "train --lr 0.01 -o adam --out runs/4"
    assert job.args == ("0.01",)
    assert job.name == "train-4"


def test_settings_are_also_in_a_variable() -> None:
    job = expand(study(envs={"RATE": "{lr}", "A": "b"}), {"lr": 1e-05, "optimizer": "sgd"}, 0)
    assert json.loads(job.envs.pop("DOVETAIL_SETTINGS")) == {"lr": 1e-05, "optimizer": "sgd"}
    assert job.envs == {"RATE": "1e-05", "A": "b", "DOVETAIL_TRIAL": "0"}


def test_a_command_gets_its_settings_word_by_word() -> None:
    spec = study(run=None, command=["train", "--lr={lr}", "{settings}", "x{trial}"])
    job = expand(spec, {"lr": 0.5, "optimizer": "a b"}, 7)
    assert job.command == ("train", "--lr=0.5", "--lr=0.5", "--optimizer=a b", "x7")


def test_a_parameter_that_does_not_count_is_empty_and_not_among_all() -> None:
    space = {**SPACE, "beta": {"float": [0, 1], "when": {"optimizer": "adam"}}}
    job = expand(study(run="t --beta {beta} {settings}", space=space), {"optimizer": "sgd"}, 0)
    assert job.run == "t --beta '' --optimizer=sgd"


def test_braces_that_hold_no_name_are_left_alone() -> None:
    script = """
    f() { echo "${HOME}" ${X:-${lrr}} {1..3} {a,b}; }
    awk '{{print}} { print $1 }' <<< '{"a": {"b": 1}}'
    echo '{{"lr": {lr}}}' {{lr}} {{{lr}}} {} {x:1}
    """
    job = expand(study(run=script), {"lr": 0.5}, 0)
    assert (
        job.run
        == """
    f() { echo "${HOME}" ${X:-${lrr}} {1..3} {a,b}; }
    awk '{print} { print $1 }' <<< '{"a": {"b": 1}}'
    echo '{"lr": 0.5}' {lr} {0.5} {} {x:1}
    """
    )


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), max_size=20))
def test_a_shell_sees_every_setting_as_one_word(text: str) -> None:
    job = expand(study(run="train {optimizer} {settings}"), {"optimizer": text}, 0)
    assert job.run is not None
    assert shlex.split(job.run) == ["train", text, f"--optimizer={text}"]


def test_a_real_shell_agrees() -> None:
    nasty = """a'b"c $(id) `id` ; * \\ #"""
    job = expand(study(run="printf %s {optimizer}"), {"optimizer": nasty}, 0)
    done = subprocess.run(["sh", "-c", str(job.run)], capture_output=True, text=True, check=True)
    assert done.stdout == nasty


def test_what_a_job_may_say_goes_to_every_trial() -> None:
    spec = study(
        name="digits",
        priority=3,
        retries=2,
        checkpoint={"grace": 5},
        resources={"gpus": 2},
        deadline="+2h",
        workdir="/tmp",
        preemptible="restart",
    )
    told = dump(expand(spec, {"lr": 0.5, "optimizer": "sgd"}, 12))
    del told["envs"]
    assert told == {
        "name": "digits-12",
        "run": "train",
        "workdir": "/tmp",
        "priority": 3.0,
        "retries": 2,
        "checkpoint": {"grace": 5.0},
        "resources": {"gpus": 2},
        "preemptible": "restart",
    }


def test_a_function_is_run_by_a_process_of_its_own() -> None:
    spec = study(run=None, function="pkg.train:Net.fit", python="/opt/bin/python")
    assert spec.title == "Net.fit"
    job = expand(spec, {"lr": 0.5, "optimizer": "sgd"}, 0)
    worker = ("/opt/bin/python", "-m", "dovetail.tune.worker", "pkg.train:Net.fit")
    assert job.command == (*worker, "--metric", "loss", "--step", "9")


# ------------------------------------------------------------------------------ what is published


def test_the_published_schema_is_up_to_date() -> None:
    assert PUBLISHED.read_text() == schema.text(schema.study_schema()), (
        "run: python -m dovetail.jobfiles.schema study > docs/study.schema.json"
    )


def test_the_examples_of_the_schema_are_descriptions() -> None:
    for example in schema.STUDY_EXAMPLES:
        read_study(example)


def test_every_field_is_described_and_its_examples_are_accepted() -> None:
    for name, field in StudySpec.model_fields.items():
        assert field.description
        for example in field.examples or ():
            given = {k: v for k, v in LEAST.items() if k != "run" or name not in _WAYS}
            if name == "metric_pattern":
                given["metric"] = "val_loss"
            if name in NOT_OF_A_STUDY:
                continue
            read_study({**given, name: example})


_WAYS = ("run", "command", "function")


def test_a_validator_agrees_with_the_schema() -> None:
    validators = pytest.importorskip("jsonschema_rs")
    yaml = pytest.importorskip("yaml")
    validator = validators.Draft202012Validator(schema.study_schema())
    for example in (*schema.STUDY_EXAMPLES, LEAST, yaml.safe_load(WHOLE)):
        validator.validate(example)
    wrong: Any
    for wrong in ({"run": 3}, {"array": "0-3"}, {"steps": 0}, {"space": {}}, {"sampler": 3}):
        assert not validator.is_valid({**LEAST, **wrong})
    assert not validator.is_valid({**LEAST, "space": {"lr": {"floet": [0, 1]}}})


def test_a_list_is_no_study() -> None:
    with pytest.raises(BadInput, match="a table of fields is needed, such as 'run: python"):
        parse_study("- a\n")


def test_the_page_tells_of_every_field_of_a_study() -> None:
    page = PAGE.read_text()
    names = {*StudySpec.model_fields} - {*JobSpec.model_fields} - {"budget"}
    names |= {f"budget.{name}" for name in Budget.model_fields} | {"run", "command", "deadline"}
    assert [name for name in names if f"`{name}`" not in page] == []


def test_the_description_on_the_page_is_one() -> None:
    spec = parse_study(PAGE.read_text().partition("```yaml\n")[2].partition("```")[0])
    assert (spec.name, spec.planned) == ("digits", 27)


def test_the_mistake_on_the_page_is_told_so() -> None:
    text = PAGE.read_text().partition("```yaml\n")[2].partition("```")[0]
    with pytest.raises(BadInput) as caught:
        parse_study(text.replace("[1e-4, 1e-1]", "[0, 1]"), "study.yaml")
    assert f"`{caught.value}`" in PAGE.read_text()
