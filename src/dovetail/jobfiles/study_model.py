"""The description of a study: a job, the space of its settings, and how the trials are judged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Self

from pydantic import Field, ValidationError, model_validator

from dovetail.core.errors import BadInput
from dovetail.jobfiles import fields, study_fields, texts
from dovetail.jobfiles.complaint import Complaint
from dovetail.jobfiles.explain import Lines, explain
from dovetail.jobfiles.job_model import FieldTable, JobSpec, checked
from dovetail.jobfiles.launch import short_name
from dovetail.jobfiles.study_text import Filling, problem
from dovetail.tune import sampling
from dovetail.tune.study import Setting

PYTHON = "python3"
NOT_OF_A_STUDY = {  # fields of a job that a study cannot have
    "array": "a study numbers its own trials; leave it out, or say trials",
    "group": "the trials of a study are its group; leave it out",
    "options": "the trials of a study all run in one way; say resources",
    "profile": "the trials of a study all run in one way; say resources",
    "after_any": "a study does not wait for jobs; `dovetail wait ID` does, then `dovetail tune`",
    "after_failed": "a study does not wait for jobs; `dovetail wait ID` does, then `dovetail tune`",
    "begin": "a study begins when it is handed in; leave it out",
    "hold": "a study begins when it is handed in; `dovetail study stop` makes it wait",
    "after": "a study does not wait for jobs; `dovetail wait ID` does, then `dovetail tune`",
}


class Budget(FieldTable):
    """What the study may use; it is closed when one of them is spent."""

    time: fields.Duration | None = Field(
        default=None, description="From its submission on.", examples=["2h", "1-12:00:00"]
    )
    gpu_hours: study_fields.GpuHours | None = Field(
        default=None, description="GPU-hours of all trials together.", examples=[10]
    )


class StudySpec(JobSpec):
    """A study for Dovetail: the fields of a job for each trial, and those of the whole."""

    name: study_fields.Name = Field(
        default="", description="What listings and commands call it.", examples=["digits"]
    )
    function: study_fields.Function | None = Field(
        default=None,
        description="Instead of run: a Python function of the settings, module:function.",
        examples=["train:objective", "train.py:objective"],
    )
    python: fields.Folder = Field(
        default="", description="The interpreter for function; python3 if nothing is said."
    )
    space: study_fields.SearchSpace = Field(
        description="The parameters and what each may be.",
        examples=[{"lr": {"log": [1e-4, 0.1]}, "optimizer": {"choice": ["sgd", "adam"]}}],
    )
    metric: study_fields.Metric = Field(
        description="What the trials report and are judged by.", examples=["val_loss"]
    )
    direction: study_fields.Direction = Field(default="min", description="Is less better, or more?")
    metric_pattern: fields.Pattern | None = Field(
        default=None,
        description="Reads metrics from the output: its named groups are metrics, a group step "
        "the step.",
        examples=[r"epoch (?P<step>\d+).*val_loss=(?P<val_loss>[-+.\deE]+)"],
    )
    steps: study_fields.Steps = Field(description="Of a whole trial, as it reports them.")
    report_every: study_fields.Steps = Field(
        default=1, description="The trials report after so many of their steps."
    )
    trials: study_fields.Trials | None = Field(
        default=None, description="How many; a grid may leave it out.", examples=[27]
    )
    at_once: study_fields.Trials | None = Field(
        default=None, description="The most trials that run at the same time."
    )
    sampler: study_fields.Sampler = Field(
        default="random", description="How the settings of the trials are chosen."
    )
    policy: fields.Label = Field(
        default="default",
        description="Which trial has the next turn; dovetail study policies lists them.",
        examples=["default", "asha-promote:eta=3"],
    )
    seed: study_fields.Seed = Field(default=0, description="Another one, other trials.")
    target: study_fields.Target | None = Field(
        default=None, description="A value of the metric that is good enough.", examples=[0.05]
    )
    stop_at_target: fields.Truth = Field(
        default=False, description="The study is closed when a trial reaches the target."
    )
    budget: Budget = Field(default=Budget(), description="What it may use.")

    @property
    def planned(self) -> int:
        """How many trials there will be."""
        return sampling.planned(self.sampler, self.space, self.trials)

    @property
    def title(self) -> str:
        """The name in listings."""
        called = self.function.rpartition(":")[2] if self.function else short_name(self)
        if self.name:
            return self.name
        plain = study_fields.plain_name(called)
        return f"study-{plain}" if study_fields.STUDY_ID.fullmatch(plain) else plain

    @model_validator(mode="after")
    def _says_what_to_run(self) -> Self:
        ways = [way for way in ("run", "command", "function") if getattr(self, way)]
        if not ways:
            raise Complaint(
                "nothing to run: write a shell script in run, a list in command, or function"
            )
        if len(ways) > 1:
            raise Complaint(f"{' and '.join(ways)}: give one of them, not both", ways[1])
        return self

    @model_validator(mode="after")
    def _leaves_the_trials_to_the_study(self) -> Self:
        for name, sentence in NOT_OF_A_STUDY.items():
            if getattr(self, name):
                raise Complaint(f"{name}: {sentence}", name)
        return self

    @model_validator(mode="after")
    def _names_only_what_there_is(self) -> Self:
        for path, text in self._filled_texts():
            if told := problem(text, self.space.parameters):
                where = ".".join(path)
                if path[0] == "envs":  # its value may be a secret
                    told = "a name in its braces is no parameter; braces of its own are {{ and }}"
                raise Complaint(f"{where}: {told}", *path)
        return self

    def _filled_texts(self) -> Iterator[tuple[tuple[str, ...], str]]:
        if self.run is not None:
            yield ("run",), self.run
        for name, words in (("command", self.command), ("args", self.args)):
            yield from (((name,), word) for word in words)
        yield from ((("envs", name), value) for name, value in self.envs.items())

    @model_validator(mode="after")
    def _can_be_sampled(self) -> Self:
        try:
            _ = self.planned
        except BadInput as error:
            field = "sampler" if self.trials else "trials"
            raise Complaint(f"{field}: {error}", field) from None
        return self

    @model_validator(mode="after")
    def _counts_its_steps(self) -> Self:
        if self.report_every > self.steps:
            raise Complaint(
                f"report_every: {self.report_every} is more than all {self.steps} steps",
                "report_every",
            )
        for name, step in self.space.from_steps().items():
            if step >= self.steps:
                raise Complaint(
                    f"space.{name}.from_step: from step {step} on a trial of {self.steps} steps "
                    "is over",
                    *("space", name, "from_step"),
                )
        return self

    @model_validator(mode="after")
    def _knows_its_metric(self) -> Self:
        if self.stop_at_target and self.target is None:
            raise Complaint("stop_at_target: say which target", "stop_at_target")
        pattern = self.metric_pattern
        if pattern is not None and self.metric not in texts.groups_of(pattern):
            raise Complaint(
                f"metric_pattern: it has no group (?P<{self.metric}>…) for the metric",
                "metric_pattern",
            )
        return self


def read_study(given: object, source: str = "", lines: Lines | None = None) -> StudySpec:
    """A description from plain values, as JSON brings them; every mistake is a `BadInput`."""
    return checked(StudySpec, given, "run: python train.py --lr {lr}", source, lines)


def expand(spec: StudySpec, settings: Mapping[str, Setting], number: int) -> JobSpec:
    """The job of one trial."""
    filling = Filling(settings, number)
    job = {name: getattr(spec, name) for name in spec.model_fields_set & set(JobSpec.model_fields)}
    job |= {
        "name": f"{spec.title[: texts.LONGEST_NAME - 12]}-{number}",
        "deadline": None,  # that of the study
        "notify": (),  # of the study as a whole, too
        "notify_on": (),
        "command": _command(spec, filling),
        "args": tuple(word for own in spec.args for word in filling.words(own)),
        "envs": {name: filling.word(value) for name, value in spec.envs.items()}
        | {"DOVETAIL_SETTINGS": json.dumps(dict(settings)), "DOVETAIL_TRIAL": str(number)},
    }
    if spec.run is not None:
        job["run"] = filling.script(spec.run)
    try:
        return JobSpec.model_validate(job)
    except ValidationError as error:
        raise BadInput(f"trial {number}: {explain(error)}") from None


def _command(spec: StudySpec, filling: Filling) -> tuple[str, ...]:
    if spec.function is None:
        return tuple(word for own in spec.command for word in filling.words(own))
    worker = (spec.python or PYTHON, "-m", "dovetail.tune.worker", spec.function)
    return (*worker, "--metric", spec.metric, "--step", str(spec.steps))
