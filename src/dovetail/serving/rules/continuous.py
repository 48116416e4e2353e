"""Language models: who waits joins the batch at the end of a step, who is done leaves it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU
from dovetail.serving.language.replica import LanguageReplica
from dovetail.serving.language.sequence import Sequence
from dovetail.serving.language.settings import LanguageModel, StepRule
from dovetail.serving.request import Request
from dovetail.serving.rules.routed import own_replicas
from dovetail.serving.rules.rule import GroupBacklog, HeldRequests
from dovetail.serving.server import Server, ServerGroup
from dovetail.serving.service import ServedModel
from dovetail.serving.site import ServingSite


@dataclass(frozen=True)
class ContinuousReplicas:
    """Continuous batching of language models with paged KV memory. prefill: prompts in steps of their
    own (alone), with decoding (mixed), or cut to fill steps of step_tokens (chunked). Who came last
    gives its memory where it is short, and is computed anew (recompute) or kept on the host (swap)."""

    prefill: str = "chunked"
    step_tokens: int = 2048
    when_full: str = "recompute"
    in_steps: ClassVar = True

    def __post_init__(self) -> None:
        self.steps(1)

    def steps(self, max_batch: int) -> StepRule:
        return StepRule(max_batch, self.prefill, self.step_tokens, self.when_full)

    def groups(self, services: Mapping[str, ServedModel], gpus: Listed[str]) -> Listed[ServerGroup]:
        for one in services.values():
            language_model(one)
        return own_replicas(services)

    def controller(self, site: ServingSite) -> ContinuousController:
        return ContinuousController(self, site)


def language_model(service: ServedModel) -> LanguageModel:
    """What its replicas are; `check_suits` has seen to it that there is one."""
    assert isinstance(service.latency, LanguageModel)
    if service.share != WHOLE_GPU:
        raise BadInput(
            f"service {service.name!r}: a language model has whole GPUs; leave share out"
        )
    return service.latency


class _Served:
    """A server and the replica on it."""

    __slots__ = ("held", "replica", "server", "service")

    def __init__(
        self, server: Server, service: str, replica: LanguageReplica, held: HeldRequests
    ) -> None:
        self.server = server
        self.service = service
        self.replica = replica
        self.held = held  # of the service


class ContinuousController:
    """A request goes to the replica with the fewest; a replica goes on from stretch to stretch."""

    def __init__(self, rule: ContinuousReplicas, site: ServingSite) -> None:
        self._rule = rule
        self._site = site
        self._engine = site.engine
        self._replicas: dict[str, list[_Served]] = {name: [] for name in site.services}
        self._waiting: dict[str, deque[Sequence]] = {name: deque() for name in site.services}
        self._held = {name: HeldRequests() for name in site.services}
        self._numbers = 0
        self._most_tokens = {
            name: [language_model(own).most_tokens(has_adapter) for has_adapter in (False, True)]
            for name, own in site.services.items()
        }

    def arrived(self, request: Request) -> None:
        self._numbers += 1
        if not request.prompt_tokens and not request.output_tokens:
            raise BadInput(
                f"the request to {request.service!r} at {request.at:.10g} s has no tokens; give "
                "prompt_tokens and output_tokens, as columns or as parts of made-up traffic"
            )
        sequence = Sequence(self._numbers, request)
        most = self._most_tokens[request.service][bool(sequence.adapter)]
        if sequence.prompt + sequence.output <= most:
            self._route(sequence)
        else:
            self._site.tally.dropped_as_too_long(request.service, self._engine.now)

    def _route(self, sequence: Sequence) -> None:
        replicas = self._replicas[sequence.request.service]
        if not replicas:
            self._waiting[sequence.request.service].append(sequence)
            self._site.nobody_ready(sequence.request.service)
            return
        served = replicas[0]
        if len(replicas) > 1:
            least = served.replica.load
            for other in replicas:
                load = other.replica.load
                if load < least:
                    served, least = other, load
        replica, now = served.replica, self._engine.now
        before = replica.ends_s
        served.held.enter(now)
        sequence.routed_s = now
        replica.arrive(now, sequence)
        if before == inf:
            self.done(served.server)
        elif replica.ends_s != before:
            self._site.preempt(served.server)
            self._site.start(served.server, replica, replica.ends_s - now)

    def done(self, server: Server) -> None:
        """A stretch is over, or the first request is there."""
        served: _Served = server.notes
        now, replica, site = self._engine.now, served.replica, self._site
        for sequence in replica.turn(now):
            served.held.answer(now, sequence.routed_s)
            site.tally.answered_tokens(sequence.request, now, sequence.first_token_s)
        if replica.ends_s == inf:
            server.batch = None
        else:
            site.start(server, replica, replica.ends_s - now)

    # ---------------------------------------------------------------------------- servers come and go

    def joined(self, server: Server) -> None:
        (name,) = server.seat.services
        service = self._site.services[name]
        steps = self._rule.steps(service.max_batch)
        replica = LanguageReplica(language_model(service), steps)
        server.notes = served = _Served(server, name, replica, self._held[name])
        self._replicas[name].append(served)
        waiting, self._waiting[name] = self._waiting[name], deque()
        for sequence in waiting:
            self._route(sequence)

    def left(self, server: Server) -> None:
        served: _Served = server.notes
        self._replicas[served.service].remove(served)
        for sequence in served.replica.evict_waiting():
            served.held.leave(self._engine.now)
            self._route(sequence)

    def backlog(self, group: str) -> GroupBacklog:
        return self._held[group].backlog(self._engine.now, len(self._waiting[group]))

    def close(self) -> None:
        for service, waiting in self._waiting.items():
            if waiting:
                self._site.drop(service, len(waiting))
                waiting.clear()
