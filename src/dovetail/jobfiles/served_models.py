"""The file of services that `dovetail serve simulate` reads: each with its SLO, replicas and latency."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from os.path import dirname, join
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU
from dovetail.jobfiles import fields
from dovetail.jobfiles.job_model import FieldTable, checked
from dovetail.jobfiles.language_latency import Amount, read_language_profile
from dovetail.jobfiles.latencies import LATENCY_FORMS, latency_given
from dovetail.jobfiles.service_model import Positive, Replicas, ScalingText
from dovetail.jobfiles.yaml_files import located, text_of
from dovetail.serving.latency import Latency, read_profile
from dovetail.serving.rules.steps import OneAfterTheOther, order_of_steps
from dovetail.serving.service import START_S, WAKE_S, PipelineStep, ServedModel

EXAMPLE = "services: [{name: chat, slo_ms: 200, latency: {fixed_ms: 4, per_item_ms: 2}}]"


def _profile(folder: str, name: str) -> Latency:
    is_language_model = name.endswith((".yaml", ".yml"))
    return (read_language_profile if is_language_model else read_profile)(join(folder, name))


def _read(folder: str, given: Any) -> Latency:
    latency: Latency = _profile(folder, given) if isinstance(given, str) else given
    return latency


class VariantSpec(FieldTable):
    """Another model, or another kind or share of GPU, that answers the same requests."""

    name: fields.Label = Field(description="Such as small.")
    latency: Annotated[Any, BeforeValidator(latency_given)] = Field(description="Of a batch.")
    accuracy: float = Field(default=1.0, ge=0, le=1, description="How good its answers are.")
    max_batch: int | None = Field(default=None, ge=1, le=100_000, description="As the service's.")
    share: int = Field(default=WHOLE_GPU, ge=1, le=WHOLE_GPU, description="Thousandths of a GPU.")
    kind: str = Field(default="", description="Of GPU; left out: any.")
    start_s: Amount | None = Field(default=None, description="As the service's.")

    def model(self, folder: str, of: ServedSpec) -> ServedModel:
        """It is as its service in everything that is not said."""
        return ServedModel(
            self.name,
            _read(folder, self.latency),
            max_batch=self.max_batch or of.max_batch,
            share=self.share,
            kind=self.kind,
            idle_s=of.idle_s,
            start_s=of.start_s if self.start_s is None else self.start_s,
            wake_s=of.wake_s,
            accuracy=self.accuracy,
        )


class StepSpec(VariantSpec):
    """A model that requests go through."""

    after: list[str] = Field(default_factory=list, description="Steps that it waits for.")
    part: float = Field(default=1.0, ge=0, le=1, description="Of the requests that need it.")


class InterferenceSpec(FieldTable):
    """What services on one GPU do to each other."""

    pressure: Amount = Field(default=0.0, description="What it takes of caches and bandwidth.")
    sensitivity: Amount = Field(
        default=0.0, description="How much longer it takes, as a part, for each unit of that."
    )


class ServedSpec(FieldTable):
    """One service of the file."""

    name: fields.Label = Field(description="What requests call it.")
    slo_ms: Positive | None = Field(default=None, description="So fast an answer should be.")
    percentile: float = Field(default=99.0, ge=50, lt=100, description="For so many of a hundred.")
    max_batch: int = Field(default=1, ge=1, le=100_000, description="Requests in one batch.")
    replicas: Replicas = Field(default=Replicas(min=1, max=1), description="How many there may be.")
    latency: Annotated[Any, BeforeValidator(latency_given)] = Field(
        default=None,
        description="Of a batch; of a pipeline, left out: all its steps on one server.",
    )
    share: int = Field(default=WHOLE_GPU, ge=1, le=WHOLE_GPU, description="Thousandths of a GPU.")
    kind: str = Field(default="", description="Of GPU; left out: any.")
    scaling: ScalingText = Field(default="reactive", description="How many replicas a load needs.")
    idle_s: Positive | None = Field(
        default=None, description="A replica not needed for so long sleeps; left out: it ends."
    )
    start_s: Amount = Field(default=START_S, description="A cold start takes so long.")
    wake_s: Amount = Field(default=WAKE_S, description="Waking a replica that sleeps.")
    rate_per_s: Positive | None = Field(
        default=None, description="Requests a second that planners expect before any has come."
    )
    memory_gb: Amount = Field(default=0.0, description="Of its weights.")
    interference: InterferenceSpec = Field(
        default=InterferenceSpec(), description="With others on its GPU."
    )
    accuracy: float = Field(default=1.0, ge=0, le=1, description="How good its answers are.")
    least_accuracy: float = Field(default=0.0, ge=0, le=1, description="How good they have to be.")
    variants: list[VariantSpec] = Field(
        default_factory=list, description="Other models or GPU kinds that answer the same."
    )
    steps: list[StepSpec] = Field(
        default_factory=list, description="Of a pipeline: the models that requests go through."
    )

    def model(self, folder: str) -> ServedModel:
        own, steps = f"service {self.name!r}", self._steps(folder)
        if self.latency is None and not steps:
            raise BadInput(f"{own}: latency is missing; {LATENCY_FORMS}")
        _check_apart(own, [one.name for one in (*self.variants, *self.steps)])
        found = ServedModel(
            self.name,
            OneAfterTheOther(steps) if self.latency is None else _read(folder, self.latency),
            slo_s=inf if self.slo_ms is None else self.slo_ms / 1e3,
            max_batch=self.max_batch,
            least=self.replicas.min,
            most=self.replicas.max,
            percentile=self.percentile,
            pressure=self.interference.pressure,
            sensitivity=self.interference.sensitivity,
            variants=tuple([own.model(folder, self) for own in self.variants]),
            steps=steps,
            **{name: getattr(self, name) for name in _SAME},
        )
        order_of_steps(found)
        _check_accuracy(found)
        return found

    def _steps(self, folder: str) -> tuple[PipelineStep, ...]:
        return tuple(
            [
                PipelineStep(own.model(folder, self), tuple(own.after), own.part)
                for own in self.steps
            ]
        )


def _check_apart(own: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{own}: two of its variants and steps are {name!r}; rename one")


def _check_accuracy(service: ServedModel) -> None:
    """As for a live service."""
    best = max(own.accuracy for own in service.ways)
    if best < service.least_accuracy:
        raise BadInput(
            f"service {service.name!r}: least_accuracy: {service.least_accuracy:g} is more than any "
            f"variant has; the best has {best:g}"
        )


_SAME = (
    *("share", "kind", "scaling", "idle_s", "start_s", "wake_s", "rate_per_s", "memory_gb"),
    *("accuracy", "least_accuracy"),
)


class ServicesFile(FieldTable):
    """The file."""

    services: list[ServedSpec] = Field(min_length=1, description="At least one.")


def read_services(path: str) -> dict[str, ServedModel]:
    """By name."""
    given, lines = located(text_of(path), path, EXAMPLE)
    file = checked(ServicesFile, given, EXAMPLE, path, lines)
    found: dict[str, ServedModel] = {}
    for spec in file.services:
        if spec.name in found:
            raise BadInput(f"{path}: there are two services {spec.name!r}; rename one")
        try:
            found[spec.name] = spec.model(dirname(path))
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from None
    return found
