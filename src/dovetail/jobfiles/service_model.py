"""The description of a service, checked field by field and as a whole."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU
from dovetail.jobfiles import fields
from dovetail.jobfiles.complaint import Complaint, shown
from dovetail.jobfiles.explain import Lines, explain
from dovetail.jobfiles.job_model import FieldTable, JobSpec, Resources, checked
from dovetail.jobfiles.latencies import kinds_named, latency_of, plain_latency
from dovetail.serving.scaling_rules import make_rule

HOST, PORT = "{host}", "{port}"
_PLACE = re.compile(rf"(?<!\$)(?:{HOST}|{PORT})")  # ${port} is a variable of a shell
ABOVE_TRAINING = 10.0  # jobs have priority 0 unless they say otherwise
HERE: Final = "127.0.0.1"
_MOST_PORT: Final = 65535
_MOST_REPLICAS = 1000
_LONGEST_PATH = 1000
_SAY: Final = "say it in each, such as {fixed_ms: 4, per_item_ms: 2}"
_OF_BOTH: Final = frozenset(("setup", "resources", "at_once", "start_s", "latency"))


def _rule(given: Any) -> str:
    try:
        make_rule(str(given))
    except BadInput as error:
        raise Complaint(f"scaling: {error}", "scaling") from None
    return str(given)


def _path(given: Any) -> str:
    text = str(given)
    if len(text) > _LONGEST_PATH:
        raise ValueError(
            f"a path of {len(text)} characters is too long; {_LONGEST_PATH} are the most"
        )
    if not text.startswith("/") or not all("!" <= own <= "~" for own in text):
        raise ValueError("it is not a path, such as /health; signs beyond ASCII as %C3%BC")
    return text


def _listen(given: Any) -> str:
    host, _, port = str(given).rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or HERE
    try:
        number = int(port) if port.isascii() and port.isdigit() else 0
        ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        number = 0
    if not 1 <= number <= _MOST_PORT:
        raise Complaint(
            f"listen: {shown(given)} is neither a port, such as 8080, nor an address of this machine "
            "with one, such as 0.0.0.0:8443",
            "listen",
        )
    return f"{HERE if host == 'localhost' else host}:{number}"


def place_of(listen: str) -> tuple[str, int]:
    """The address, and the port."""
    host, _, port = listen.rpartition(":")
    return host, int(port)


Listen = Annotated[str, BeforeValidator(_listen), WithJsonSchema({"type": ["integer", "string"]})]
Path = Annotated[str, BeforeValidator(_path)]
Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[float, Field(gt=0, le=1e9)]
ScalingText = Annotated[str, BeforeValidator(_rule)]


class Replicas(FieldTable):
    """How many there may be."""

    min: int = Field(default=1, ge=0, le=_MOST_REPLICAS, description="Awake, also if nobody asks.")
    max: int = Field(ge=1, le=_MOST_REPLICAS, description="However many ask.")

    @model_validator(mode="before")
    @classmethod
    def _just_a_number(cls, given: Any) -> Any:
        is_number = isinstance(given, int) or (isinstance(given, str) and given.isdecimal())
        if is_number:
            return {"min": given, "max": given}
        if isinstance(given, str) and (found := re.fullmatch(r"(\d+) *- *(\d+)", given)):
            return {"min": found[1], "max": found[2]}
        return given

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min > self.max:
            raise Complaint(f"replicas: min {self.min} is more than max {self.max}", "replicas")
        return self


class Sleep(FieldTable):
    """How the server itself goes to sleep, before its processes are suspended; sent as POST."""

    enter: Path = Field(description="Such as /sleep?level=1 of vLLM.")
    leave: Path = Field(description="Such as /wake_up of vLLM.")


LatencyText = Annotated[Any, BeforeValidator(plain_latency)]
_LATENCY = "How long requests take, of which a replica has so many: {fixed_ms: 4, per_item_ms: 2}."


class ServiceVariant(FieldTable):
    """Another model, or other resources, that answer the same requests. What it does not say is as
    the service has it."""

    name: fields.Label = Field(description="Such as small.")
    run: fields.Script | None = Field(default=None, description="Instead of the service's.")
    command: fields.Words = Field(default=(), description="Instead of the service's.")
    setup: fields.Script | None = Field(default=None, description="Instead of the service's.")
    resources: Resources | None = Field(
        default=None, description="Such as {accelerators: T4:1} or {share: 0.5}."
    )
    at_once: int | None = Field(default=None, ge=1, le=100_000, description="As the service's.")
    start_s: Positive | None = Field(default=None, description="As the service's.")
    accuracy: float = Field(default=1.0, ge=0, le=1, description="How good its answers are.")
    latency: LatencyText = Field(description=_LATENCY)

    @model_validator(mode="after")
    def _says_one_thing_to_run(self) -> Self:
        if self.run is not None and self.command:
            raise Complaint("run and command: give one of them, or none: the service's", "run")
        return self


class ServiceSpec(FieldTable):
    """A service for Dovetail: a server, and how many of it there should be."""

    name: fields.Label = Field(description="What listings call it.")
    run: fields.Script | None = Field(default=None, description="Shell script that starts it.")
    command: fields.Words = Field(default=(), description="Program and arguments, with no shell.")
    setup: fields.Script | None = Field(default=None, description="Must succeed before each start.")
    image: fields.Image = Field(default="", description="Container image that it runs in.")
    volumes: fields.Volumes = Field(
        default={}, description="Claims of the cluster that it mounts: /data: datasets."
    )
    service_account: fields.ServiceAccount = Field(
        default="", description="Account of its namespace that its pods run with."
    )
    workdir: fields.Folder = Field(default="", description="Folder it runs in.")
    envs: fields.Variables = Field(default={}, repr=False, description="Environment variables.")
    resources: Resources = Field(default=Resources(), description="What each replica needs.")
    priority: fields.Priority = Field(
        default=ABOVE_TRAINING, description="Jobs with less give way to its replicas."
    )
    tenant: fields.Label = Field(default="", description="Whose quota it counts against.")
    port: Port | None = Field(
        default=None,
        description="On which the server listens; left out: {port} in run or command, or PORT. "
        "{host} is the address: of this machine alone, or of its pod.",
    )
    listen: Listen | None = Field(
        default=None,
        description="The service's own port on 127.0.0.1, or ADDRESS:PORT; left out: any free port.",
    )
    health: Path = Field(default="/health", description="Answers 2xx once the server is ready.")
    replicas: Annotated[Replicas, WithJsonSchema({"type": ["integer", "string", "object"]})] = (
        Field(
            default=Replicas(max=1),
            description="How many there may be: 2, 0-4 or {min: 0, max: 4}.",
        )
    )
    at_once: int = Field(default=8, ge=1, le=100_000, description="Requests that one has at once.")
    slo_ms: Positive | None = Field(default=None, description="So fast an answer should be.")
    percentile: float = Field(default=99.0, ge=50, lt=100, description="For so many of a hundred.")
    scaling: ScalingText = Field(
        default="reactive", description="How many replicas a load needs: reactive:target=0.7."
    )
    idle_s: Positive | None = Field(
        default=None, description="A replica not needed for so long sleeps; left out: it ends."
    )
    sleep: Sleep | None = Field(default=None, description="The server's own way to sleep.")
    start_s: Positive = Field(default=300.0, description="Within which it is to become healthy.")
    drain_s: Positive = Field(default=30.0, description="For its last requests before it goes.")
    queue: int = Field(default=512, ge=1, le=100_000, description="Requests that may wait.")
    queue_s: Positive = Field(default=30.0, description="How long one may wait.")
    body_mb: float = Field(
        default=64.0, ge=0.001, le=1e9, description="The largest body of a request."
    )
    latency: LatencyText = Field(default=None, description=_LATENCY)
    accuracy: float = Field(default=1.0, ge=0, le=1, description="How good its answers are.")
    least_accuracy: float = Field(default=0.0, ge=0, le=1, description="How good they have to be.")
    variants: list[ServiceVariant] = Field(
        default_factory=list,
        max_length=20,
        description="Other models, GPU kinds or shares of a GPU that answer the same.",
    )

    @model_validator(mode="after")
    def _says_what_to_run(self) -> Self:
        if (self.run is None) == (not self.command):
            raise Complaint("run and command: give one of them", "run")
        if not self.name:
            raise Complaint("name: a service needs one", "name")
        return self

    @model_validator(mode="after")
    def _sleeps_if_it_is_idle(self) -> Self:
        if self.sleep is not None and self.idle_s is None:
            raise Complaint("sleep: say after which idle_s a replica sleeps", "sleep")
        return self

    @model_validator(mode="after")
    def _knows_its_variants(self) -> Self:
        if not self.variants:
            return self
        names = [self.name, *[own.name for own in self.variants]]
        for name in names:
            if names.count(name) > 1:
                raise Complaint(
                    f"variants: {name!r} is the name of two; rename one (the service itself counts)"
                )
        if self.latency is None:
            raise Complaint(f"latency: {self.name!r} and its variants are compared by it; {_SAY}")
        if self.port is not None:
            raise Complaint(
                "port: replicas of two variants cannot share one; leave it out and write {port} in "
                "the command",
                "port",
            )
        if "scaling" in self.model_fields_set:
            raise Complaint(
                "scaling: with variants it follows from the choice of one; leave it out", "scaling"
            )
        return self

    @model_validator(mode="after")
    def _could_keep_its_slo(self) -> Self:
        """As far as the file says how long a request takes."""
        if self.latency is None:
            return self
        able = [own for own in ways_of(self) if own.accuracy >= self.least_accuracy]
        if not able:
            best = max(own.accuracy for own in ways_of(self))
            raise Complaint(
                f"least_accuracy: {self.least_accuracy:g} is more than any variant has; the best has "
                f"{best:g}",
                "least_accuracy",
            )
        fastest = min(able, key=ServiceWay.alone_s)
        if self.slo_ms is not None and fastest.alone_s() * 1e3 > self.slo_ms:
            alone = f"{fastest.alone_s() * 1e3:.6g} ms"
            raise Complaint(
                f"slo_ms: no configuration keeps {self.slo_ms:g} ms: one request alone takes {alone} "
                f"({fastest.name}); what would: slo_ms of {alone}, or a faster variant",
                "slo_ms",
            )
        return self


class ServiceWay(NamedTuple):
    """One way to answer the requests of a service: itself, or one of its variants."""

    name: str
    spec: ServiceSpec  # as if there were no other
    accuracy: float

    def alone_s(self) -> float:
        """Of one request, on the best of the GPUs that it may have."""
        kinds = self.spec.resources.kinds or kinds_named(latency_of(self.spec.latency))
        return min([self.seconds(1, kind) for kind in kinds])

    def seconds(self, at_once: int, kind: str) -> float:
        share = round(self.spec.resources.share * WHOLE_GPU)
        return latency_of(self.spec.latency).seconds(at_once, kind, share)


def ways_of(spec: ServiceSpec) -> list[ServiceWay]:
    """The ways to answer for a service: as it is declared, then its variants."""
    own = ServiceWay(spec.name, spec, spec.accuracy)
    return [own, *[ServiceWay(one.name, _as(spec, one), one.accuracy) for one in spec.variants]]


def _as(spec: ServiceSpec, variant: ServiceVariant) -> ServiceSpec:
    said = {name: getattr(variant, name) for name in variant.model_fields_set & _OF_BOTH}
    if variant.run is not None or variant.command:
        said |= {"run": variant.run, "command": variant.command}
    return spec.model_copy(update={**said, "accuracy": variant.accuracy})


def read_service(given: object, source: str = "", lines: Lines | None = None) -> ServiceSpec:
    """A description from plain values, as JSON brings them; every mistake is a `BadInput`."""
    return checked(ServiceSpec, given, "command: [python, server.py, '{port}']", source, lines)


def replica_job(spec: ServiceSpec, number: int, host: str, port: int) -> JobSpec:
    """The job of one replica, that listens there: at an address of its machine or pod."""

    def placed(text: str) -> str:
        return _PLACE.sub(lambda found: host if found[0] == HOST else str(port), text)

    job = {name: getattr(spec, name) for name in spec.model_fields_set & set(JobSpec.model_fields)}
    listens = {"PORT": str(port), "DOVETAIL_PORT": str(port), "DOVETAIL_LISTEN": host}
    job |= {
        "name": f"{spec.name[:180]}-{number}",
        "priority": spec.priority,
        "command": tuple(map(placed, spec.command)),
        "envs": {**spec.envs, **listens},
        "preemptible": "restart",  # where it cannot be suspended it is started anew: it has no progress
    }
    if spec.run is not None:
        job["run"] = placed(spec.run)
    try:
        return JobSpec.model_validate(job)
    except ValidationError as error:
        raise BadInput(explain(error)) from None
