"""InferLine: services that are pipelines of models; each step has servers of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU
from dovetail.sdk.batching.forming import SLACK_S
from dovetail.serving.planners import inferline
from dovetail.serving.planners.stages import (
    PipelineStage,
    StageHardware,
    StageSetting,
    times_through,
)
from dovetail.serving.request import Request
from dovetail.serving.rules.chosen import begun
from dovetail.serving.rules.rule import GroupBacklog
from dovetail.serving.rules.steps import Journey, StepLine, order_of_steps
from dovetail.serving.server import Server, ServerGroup, ServerSeat
from dovetail.serving.service import PipelineStep, ServedModel
from dovetail.serving.site import ServingSite

SAMPLE = 400  # requests that a plan is tried on
FIRST_LOOK_S = 5.0
SEEN_S = 60.0  # of traffic, that the tuner looks at
CALM_WINDOW_S = 5.0  # shorter bursts do not keep replicas

Services = Mapping[str, ServedModel]


@dataclass(frozen=True)
class InferLinePipelines:
    """InferLine: for every step of a pipeline the GPU kind, batch and replicas that together cost least
    and keep the tail of the last requests in time; planned every plan_s. Every tune_s more replicas, at
    once, where bursts go beyond the plan, and fewer after a calm."""

    plan_s: float = 300.0
    tune_s: float = 2.0
    most: int = 32

    def __post_init__(self) -> None:
        if not (self.plan_s > 0 and self.tune_s > 0 and self.most >= 1):
            raise BadInput("plan_s and tune_s are above 0, most is at least 1")

    def groups(self, services: Services, gpus: Sequence[str]) -> Sequence[ServerGroup]:
        """At first one server of each step."""
        steps = [(own, step) for own in services.values() for step in steps_of(own)]
        return begun([(seats_of(own, step, gpus), 1) for own, step in steps], gpus)

    def controller(self, site: ServingSite) -> PipelinesInSteps:
        return PipelinesInSteps(self, site)


def steps_of(service: ServedModel) -> Sequence[PipelineStep]:
    """A service without steps is one."""
    return order_of_steps(service) if service.steps else (PipelineStep(service),)


def seats_of(service: ServedModel, step: PipelineStep, gpus: Sequence[str]) -> list[ServerSeat]:
    """One for each kind of GPU that the step may use."""
    model = service.name if step.model is service else f"{service.name}/{step.model.name}"
    kinds = [step.model.kind] if step.model.kind else sorted(set(gpus))
    return [ServerSeat(f"{model}@{kind}", (model,), step.model.share, kind) for kind in kinds]


class PipelineRun:
    """One service: its steps, their lines, and the plan of its tuner."""

    def __init__(self, rule: InferLinePipelines, service: ServedModel, site: ServingSite) -> None:
        self.service = service
        self.steps = steps_of(service)
        self.lines = {step.model.name: StepLine(step) for step in self.steps}
        self.arrivals: deque[float] = deque(maxlen=50_000)
        self._rule = rule
        self._site = site
        self._settings: inferline.Settings | None = None
        self._question: inferline.PipelineQuestion | None = None
        self._planned_for: inferline.Envelope | None = None
        self._replicas: dict[str, int] = {}
        self._changed_at = 0.0
        self.planned_at = -1.0

    def plan(self) -> None:
        """On the last requests; if nothing keeps the SLO, as it was."""
        now = self._site.engine.now
        sample = list(self.arrivals)[-SAMPLE:]
        self.planned_at = now
        if len(sample) < 2:
            return
        question = inferline.PipelineQuestion(
            self._stages(), sample, self.service.slo_s, self.service.percentile, self._rule.most
        )
        settings = inferline.planned(question)
        if settings is None:
            return
        self._settings, self._question = settings, question
        self._planned_for = self._envelope(sample)
        self._replicas = {name: own.replicas for name, own in settings.items()}
        self._changed_at = now
        self._apply()

    def _stages(self) -> list[PipelineStage]:
        gpus = self._site.fleet.gpus
        return [
            PipelineStage(
                step.model.name,
                [
                    self._hardware(step.model, kind)
                    for kind in sorted(set(gpus))
                    if _may_use(step, kind)
                ],
                step.after,
                step.part,
                step.model.max_batch,
            )
            for step in self.steps
        ]

    def _hardware(self, model: ServedModel, kind: str) -> StageHardware:
        seconds = model.seconds(kind, model.share)
        price = self._site.price(kind) * model.share / WHOLE_GPU
        return StageHardware(kind, price, seconds.__getitem__)

    def _envelope(self, arrivals: Sequence[float]) -> inferline.Envelope:
        assert self._question is not None
        assert self._settings is not None
        shortest = times_through(self._question.stages, self._settings, [0.0])[0]
        return inferline.envelope(arrivals, max(shortest, 0.01), SEEN_S)

    def tune(self) -> None:
        """More at once, fewer slowly."""
        if self._settings is None or self._planned_for is None or self._question is None:
            return
        self.retire()
        now = self._site.engine.now
        seen = self._envelope([at for at in self.arrivals if at > now - SEEN_S])
        needed = inferline.grown(self._question, self._planned_for, seen, self._settings)
        wanted = {name: max(needed[name], count) for name, count in self._replicas.items()}
        if wanted == self._replicas:
            lasting = [
                row
                for row in zip(seen.windows, seen.counts, strict=True)
                if row[0] >= CALM_WINDOW_S
            ]
            calm = inferline.Envelope([row[0] for row in lasting], [row[1] for row in lasting])
            calm_s = now - self._changed_at
            wanted = inferline.shrunk(self._question, self._settings, wanted, calm, calm_s)
        if wanted != self._replicas:
            self._replicas, self._changed_at = wanted, now
            self._apply()

    def _apply(self) -> None:
        assert self._settings is not None
        fleet = self._site.fleet
        for step in self.steps:
            setting: StageSetting = self._settings[step.model.name]
            self.lines[step.model.name].batch = setting.batch
            seats = seats_of(self.service, step, fleet.gpus)
            chosen = next(seat for seat in seats if seat.kind == setting.hardware.kind)
            fleet.want(chosen.group, self._replicas[step.model.name])
        self.retire()

    def retire(self) -> None:
        """Servers of a kind that is not in the plan any more go once one of the new kind is ready."""
        fleet = self._site.fleet
        assert self._settings is not None
        for step in self.steps:
            kind = self._settings[step.model.name].hardware.kind
            seats = seats_of(self.service, step, fleet.gpus)
            ready = any(own.kind == kind for own in self.lines[step.model.name].servers)
            for seat in seats:
                if ready and seat.kind != kind and fleet.awake(seat.group):
                    fleet.want(seat.group, 0)


def _may_use(step: PipelineStep, kind: str) -> bool:
    return not step.model.kind or step.model.kind == kind


class PipelinesInSteps:
    """The controller."""

    def __init__(self, rule: InferLinePipelines, site: ServingSite) -> None:
        self._rule = rule
        self._site = site
        self._engine = site.engine
        self._runs = {name: PipelineRun(rule, own, site) for name, own in site.services.items()}
        self._by_group = {
            seat.group: (run, step)
            for run in self._runs.values()
            for step in run.steps
            for seat in seats_of(run.service, step, site.fleet.gpus)
        }
        self._chance = Random("inferline")
        self._looks = False

    def arrived(self, request: Request) -> None:
        run = self._runs[request[1]]
        run.arrivals.append(self._engine.now)
        if not self._looks:
            self._looks = True
            self._engine.at(self._engine.now + FIRST_LOOK_S, self._look)
        journey = Journey(request, run.steps)
        for step in run.steps:
            if not step.after:
                self._enter(run, step, journey)

    def _enter(self, run: PipelineRun, step: PipelineStep, journey: Journey) -> None:
        if step.part < 1.0 and self._chance.random() >= step.part:
            self._pass(run, step, journey)
            return
        line = run.lines[step.model.name]
        line.waiting.append(journey)
        if line.free:
            self._next(run, line)

    def _pass(self, run: PipelineRun, step: PipelineStep, journey: Journey) -> None:
        """It is through this step."""
        journey.steps_left -= 1
        if journey.gone:
            return
        if not journey.steps_left:
            journey.gone = True
            self._site.answered(run.service.name, (journey.request,))
            return
        for other in run.steps:
            if step.model.name in other.after:
                journey.missing[other.model.name] -= 1
                if not journey.missing[other.model.name]:
                    self._enter(run, other, journey)

    def _next(self, run: PipelineRun, line: StepLine) -> None:
        """Free servers take what waits; who is late already is dropped."""
        now = self._engine.now
        while line.free and line.waiting:
            batch: list[Journey] = []
            while line.waiting and len(batch) < line.batch:
                journey = line.waiting.popleft()
                if not journey.gone and journey.request[2] < now - SLACK_S:
                    journey.gone = True
                    self._site.drop(run.service.name)
                elif not journey.gone:
                    batch.append(journey)
            if batch:
                server = line.free.pop(0)
                seconds = server.seconds[server.seat.services[0]]
                self._site.start(server, batch, seconds[len(batch)])

    def done(self, server: Server) -> None:
        run, step = self._by_group[server.group]
        line, journeys = run.lines[step.model.name], server.batch
        server.batch = None
        if server in line.servers:
            line.free.append(server)
        for journey in journeys:
            self._pass(run, step, journey)
        self._next(run, line)

    def _look(self, _: object) -> None:
        for run in self._runs.values():
            if run.planned_at < 0 or self._engine.now - run.planned_at >= self._rule.plan_s:
                run.plan()
            else:
                run.tune()
        if self._engine.is_coming:
            self._engine.at(self._engine.now + self._rule.tune_s, self._look)

    # ---------------------------------------------------------------------------- servers come and go

    def joined(self, server: Server) -> None:
        run, step = self._by_group[server.group]
        line = run.lines[step.model.name]
        line.servers.append(server)
        line.free.append(server)
        self._next(run, line)

    def left(self, server: Server) -> None:
        run, step = self._by_group[server.group]
        line = run.lines[step.model.name]
        line.servers.remove(server)
        if server in line.free:
            line.free.remove(server)

    def backlog(self, group: str) -> GroupBacklog:
        run, step = self._by_group[group]
        line = run.lines[step.model.name]
        return GroupBacklog(sum(len(own.batch or ()) for own in line.servers), len(line.waiting))

    def close(self) -> None:
        for run in self._runs.values():
            for line in run.lines.values():
                for journey in line.waiting:
                    if not journey.gone:
                        journey.gone = True
                        self._site.drop(run.service.name)
                line.waiting.clear()
