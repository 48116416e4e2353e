"""The description of a job, checked field by field and as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dovetail.core.errors import BadInput
from dovetail.core.model import Option
from dovetail.jobfiles import fields, texts
from dovetail.jobfiles.complaint import Complaint, shown
from dovetail.jobfiles.explain import Lines, explain
from dovetail.jobfiles.profiles import of_kinds
from dovetail.jobfiles.quantities import kind_and_count

DEFAULT_GRACE_S = 60.0

Kind = TypeVar("Kind", bound=BaseModel)


class FieldTable(BaseModel):
    """A frozen table of known fields; a field that is null counts as left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {name: value for name, value in given.items() if value is not None}


class Resources(FieldTable):
    """What must be free for the job to start."""

    accelerators: fields.Accelerators = Field(
        default=(),
        description="GPU kind and number: H100:2, {H100: 2}, or just 2. Of several kinds in a list "
        "any will do.",
        examples=["H100:2", {"H100": 2}, 2, ["H100", "A100"]],
    )
    gpus: fields.Gpus | None = Field(
        default=None,
        description="Number of GPUs; 1 if nothing is said. 0 for a job that needs none.",
    )
    any_of: fields.Accelerators = Field(
        default=(), description="GPU kinds of which any will do.", examples=[["H100", "A100"]]
    )
    gpu_memory: fields.Gigabytes = Field(
        default=0.0,
        description="Each GPU must have at least this much memory.",
        examples=["20GB", "80GiB"],
    )
    share: fields.Share = Field(
        default=1.0,
        description="Part of one GPU: 0.25, 25%, or 250 (thousandths).",
        examples=[0.25, "25%", 250],
    )
    cpus: fields.Cpus = Field(default=0.0, description="Processors, in all.", examples=[4, "4+"])
    memory: fields.Gigabytes = Field(
        default=0.0,
        description="Main memory, in all; a number alone counts in GB.",
        examples=["32GB"],
    )

    @property
    def kinds(self) -> tuple[str, ...]:
        """GPU kinds of which any will do; none means every kind will."""
        told = [kind_and_count(own)[0] for own in (*self.accelerators, *self.any_of)]
        return tuple(dict.fromkeys(kind for kind in told if kind))

    @property
    def count(self) -> int | None:
        """The number of GPUs, if anything was said about it."""
        told = [kind_and_count(own)[1] for own in (*self.accelerators, *self.any_of)]
        return next((count for count in (self.gpus, *told) if count is not None), None)

    @model_validator(mode="after")
    def _one_number_of_gpus(self) -> Self:
        for own in (*self.accelerators, *self.any_of):
            count = kind_and_count(own)[1]
            if count not in (None, self.count):
                raise Complaint(
                    f"resources: {own!r} asks for another number of GPUs than {self.count}; "
                    "a job has one number, whatever the kind"
                )
        return self


class Checkpoint(FieldTable):
    """How the job saves its progress when it is asked to stop."""

    grace: fields.Grace = Field(
        default=DEFAULT_GRACE_S,
        description="Time to save and exit after SIGTERM, before SIGKILL.",
        examples=["90s", "5m"],
    )
    dir: fields.Folder = Field(
        default="",
        description="DOVETAIL_CHECKPOINT_DIR; a folder of Dovetail's own if nothing is said.",
    )


class Elastic(FieldTable):
    """The job can use any number of GPUs in this range."""

    min: fields.SomeGpus = Field(default=1, description="It cannot run on fewer GPUs.")
    max: fields.SomeGpus = Field(description="It gains nothing from more GPUs.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise Complaint(f"elastic: min {self.min} is more than max {self.max}", "min")
        return self


class Profile(FieldTable):
    """Times as `dovetail profile` has measured them."""

    file: fields.Folder = Field(description="What `dovetail profile` has written.")
    steps: fields.Steps | None = Field(
        default=None, description="Of the whole job; those in the file if nothing is said."
    )

    @model_validator(mode="before")
    @classmethod
    def _just_the_file(cls, given: Any) -> Any:
        return {"file": given} if isinstance(given, str) else given


class JobSpec(FieldTable):
    """A job for Dovetail: what to run, what it needs, how it is to be treated."""

    name: fields.Label = Field(default="", description="What listings call it.")
    run: fields.Script | None = Field(
        default=None,
        description="Shell script to run; a first line #! names another interpreter.",
        examples=["python train.py --epochs 10"],
    )
    command: fields.Words = Field(
        default=(),
        description="Program and arguments to run, with no shell in between; instead of run.",
        examples=[["python", "train.py", "--epochs", 10]],
    )
    args: fields.Words = Field(default=(), description="Arguments of the script in run: $1, $2, …")
    setup: fields.Script | None = Field(
        default=None, description="Shell script that must succeed before each start of the job."
    )
    workdir: fields.Folder = Field(
        default="", description="Folder it runs in; where it was submitted if nothing is said."
    )
    image: fields.Image = Field(
        default="",
        description="Container image it runs in: with its working folder and its own envs, and "
        "without the programs and variables of the submitter.",
        examples=["pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", "localhost/mine:1"],
    )
    volumes: fields.Volumes = Field(
        default={},
        description="On Kubernetes: claims of its namespace by the path they are mounted at; "
        ":ro behind one mounts it read-only.",
        examples=[{"/data": "datasets:ro", "/saved": "checkpoints"}],
    )
    service_account: fields.ServiceAccount = Field(
        default="", description="On Kubernetes: an account of its namespace; none if left out."
    )
    envs: fields.Variables = Field(
        default={}, repr=False, description="Environment variables, beside those of the submitter."
    )
    resources: Resources = Field(
        default=Resources(), description="What must be free for it to start."
    )
    priority: fields.Priority = Field(default=0.0, description="Higher goes first.")
    deadline: fields.Deadline | None = Field(
        default=None,
        description="When it should be done: +2h from submission, or a local time; a day alone is "
        "meant to its end.",
        examples=["+2h", "friday", "2026-12-01 18:00", "2026-12-01T18:00:00Z"],
    )
    late_cost: fields.LateCost | None = Field(
        default=None,
        description="Money for the time it ends after its deadline; by its priority 1 to 5 if "
        "nothing is said.",
        examples=["0.5/h", "12/day"],
    )
    time_limit: fields.Duration | None = Field(
        default=None,
        description="It is stopped when it has run that long.",
        examples=["2h30m", "1-12:00:00", 3600],
    )
    estimate: fields.Duration | None = Field(
        default=None, description="How long you think it will run.", examples=["45m"]
    )
    options: fields.Options = Field(
        default={},
        description="Every way to run it: how long all of it takes by GPU kind and number. Policies "
        "such as frugal choose, others take the fewest GPUs; what resources say narrows them.",
        examples=[{"H100": {1: "2h", 2: "70m"}, "cpu": {4: "1-12:00:00"}}],
    )
    profile: Profile | None = Field(
        default=None,
        description="Instead of options: a file of `dovetail profile`. It is read on submission.",
        examples=["train.profile.yaml", {"file": "train.profile.yaml", "steps": 5000}],
    )
    checkpoint: Checkpoint = Field(
        default=Checkpoint(),
        description="It saves its progress by itself when it is told to stop; this is how.",
    )
    model: fields.Label = Field(
        default="",
        description="The model it trains, NAME or NAME@BATCH, for policies that know its speed.",
        examples=["resnet50@64"],
    )
    elastic: Elastic | None = Field(default=None, description="It can use a range of GPU counts.")
    preemptible: fields.Preemptible = Field(
        default=True,
        description="May it be made to give way to others? true: if its progress is kept; "
        "restart: also by starting it again from its beginning; false: never.",
    )
    nodes: fields.Nodes = Field(
        default=1,
        description="Exactly so many machines: it runs once on each, all or none, and each has what "
        "resources ask for.",
    )
    retries: fields.Retries = Field(default=0, description="Further attempts after a failure.")
    array: fields.Indices | None = Field(
        default=None,
        description="Run it once per index, in DOVETAIL_ARRAY_INDEX; %N runs N at once at most.",
        examples=["0-9", "1,3,5-20:5", "0-99%4"],
    )
    after: fields.JobIds = Field(
        default=(),
        description="Jobs that must have finished well before.",
        examples=[["12", "14.3"]],
    )
    after_any: fields.JobIds = Field(
        default=(), description="Jobs that must have ended before, well or not.", examples=[["12"]]
    )
    after_failed: fields.JobIds = Field(
        default=(),
        description="Jobs that must have failed or been cancelled before; it is cancelled if one "
        "finishes well.",
        examples=[["12"]],
    )
    begin: fields.Deadline | None = Field(
        default=None,
        description="It does not start before: +2h from submission, or a local time.",
        examples=["+2h", "22:00", "2026-12-01 18:00"],
    )
    hold: fields.Truth = Field(
        default=False, description="It waits until it is released by dovetail resume."
    )
    output: fields.Folder = Field(
        default="",
        description="File of its working folder that what it prints is also written to, with its "
        "errors unless error names another; %j is its id, %A its array, %a its index, %x its name, "
        "%u its user.",
        examples=["train-%j.out", "logs/%A_%a.out"],
    )
    error: fields.Folder = Field(
        default="", description="The same for its errors alone.", examples=["train-%j.err"]
    )
    notify: fields.NotifyWays = Field(
        default=(),
        description="How you are told of it: desktop, mail, mail:ADDRESS, webhook, https://…, command.",
        examples=[["desktop"], "mail:ann@example.org"],
    )
    notify_on: fields.NotifyEvents = Field(
        default=(),
        description="Of what: end, failure, start, best (of a study); end if nothing is said.",
        examples=[["failure", "start"]],
    )
    tenant: fields.Label = Field(default="", description="The group whose quota it counts against.")
    group: fields.Label = Field(default="", description="The study or pipeline it belongs to.")
    metric_pattern: fields.Pattern | None = Field(
        default=None,
        description="Regular expression for a line of its output; its named groups are metrics, a "
        "group step is the step (else lines are counted).",
        examples=[r"epoch (?P<step>\d+): loss (?P<loss>\S+)"],
    )
    slurm: fields.Truth = Field(
        default=False, description="Also give it the SLURM_* variables that batch scripts read."
    )

    @property
    def gpus(self) -> int:
        """As many as it says; else the least it can run on; else one."""
        if self.resources.count is not None:
            return self.resources.count
        if self.options:
            return min([option.gpus for option in self.ways], default=1)
        return self.elastic.min if self.elastic else 1

    @property
    def ways(self) -> list[Option]:
        """The options that are of the kinds and the number it asks for, if it does."""
        asked, count = self.resources.kinds, self.resources.count
        return [
            option
            for option in of_kinds(self.options)
            if (not asked or option.kind in asked) and count in (None, option.gpus)
        ]

    @model_validator(mode="after")
    def _says_what_to_run(self) -> Self:
        if self.run is None and not self.command:
            raise Complaint("nothing to run: write the shell script in run, or a list in command")
        if self.run is not None and self.command:
            raise Complaint("run and command: give one of them, not both", "command")
        return self

    @model_validator(mode="after")
    def _has_its_words_in_place(self) -> Self:
        if self.command and not self.command[0]:
            raise Complaint("command: its first word, the program, is empty", "command")
        if self.args and self.run is None:
            raise Complaint("args: they go with run; put them at the end of command", "args")
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.resources.share != 1.0 and self.gpus != 1:
            raise Complaint(
                f"resources.share: {self.resources.share:g} of {self.gpus} GPUs cannot be had; "
                "a share goes with one GPU",
                *("resources", "share"),
            )
        if self.elastic and not self.elastic.min <= self.gpus <= self.elastic.max:
            raise Complaint(
                f"elastic: {self.gpus} GPUs are outside its range {self.elastic.min} to "
                f"{self.elastic.max}",
                "elastic",
            )
        return self

    @model_validator(mode="after")
    def _an_image_is_no_slurm(self) -> Self:
        if self.image and self.slurm:
            raise Complaint(
                "image: a Slurm script runs without one; leave out image or slurm", "image"
            )
        return self

    @model_validator(mode="after")
    def _nodes_are_alike(self) -> Self:
        if self.nodes > 1 and (
            self.elastic or self.options or self.profile or self.resources.share != 1.0
        ):
            raise Complaint(
                "nodes: each has the same whole GPUs; leave out elastic, options, profile and share",
                "nodes",
            )
        return self

    @model_validator(mode="after")
    def _options_are_of_whole_gpus(self) -> Self:
        if not (self.options or self.profile):
            return self
        field = "options" if self.options else "profile"
        if self.options and self.profile:
            raise Complaint("options and profile: give one of them, not both", "profile")
        if self.resources.share != 1.0 or self.elastic or self.resources.count == 0:
            raise Complaint(
                f"{field}: they are of whole GPUs; leave out share, elastic and gpus: 0", field
            )
        if self.options and not self.ways:
            asked, count = self.resources.kinds, self.resources.count
            number = "" if count is None else f"{count} "
            raise Complaint(
                f"options: none of them is {number}{' or '.join(asked) or 'GPUs'}, as resources say",
                "options",
            )
        return self

    @model_validator(mode="after")
    def _is_not_too_large(self) -> Self:
        words = (*self.command, *self.args, *self.envs, *self.envs.values())
        total = sum(map(texts.size, (*words, self.run or "", self.setup or "")))
        if total >= texts.MOST_BYTES:
            raise Complaint(
                f"command, scripts and variables have {total:,} bytes together; "
                f"less than {texts.MOST_BYTES:,} is needed"
            )
        return self


def read(given: object, source: str = "", lines: Lines | None = None) -> JobSpec:
    """A description from plain values, as JSON brings them; every mistake is a `BadInput`."""
    return checked(JobSpec, given, "run: python train.py", source, lines)


def checked(
    kind: type[Kind], given: object, example: str, source: str = "", lines: Lines | None = None
) -> Kind:
    """The values as a table of that kind; `example` is a line that one could begin with."""
    if not isinstance(given, Mapping):
        raise BadInput(
            f"{source + ': ' if source else ''}a table of fields is needed, such as "
            f"{example!r}, not {shown(given)}"
        )
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise BadInput(explain(error, source, lines)) from None


def dump(spec: FieldTable) -> dict[str, Any]:
    """Plain values for JSON, without what was left to its default; `read` takes them back."""
    found = spec.model_dump(mode="json", exclude_defaults=True)
    if "checkpoint" in spec.model_fields_set:  # that it is there at all says: it saves by itself
        found.setdefault("checkpoint", {})
    return found
