"""The keeper of one service: a thread that has as many replicas awake as are wanted.

It looks at the state, hears the gateway, asks replicas for their health, and changes the state like
any user. All that must outlive it is in the journal: whoever takes over goes on from there.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final

from dovetail.api.service_row import ReplicaState
from dovetail.core.entries import Cancelled, Event, Held
from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId, Seconds
from dovetail.core.view import View
from dovetail.daemon.holds import ASLEEP, SERVICE_PAUSED
from dovetail.daemon.service import Service
from dovetail.daemon.services.gateways import GatewayLine
from dovetail.daemon.services.health import HealthWatch
from dovetail.daemon.services.network import GatewayNetwork
from dovetail.daemon.services.own_sleep import OwnSleep
from dovetail.daemon.services.scene import IS_PAUSED, LastWords, SeenReplica, ServiceScene, scene_of
from dovetail.daemon.services.slo_trouble import slo_trouble
from dovetail.daemon.services.variants import VariantWish, live_variants
from dovetail.daemon.services.wake_times import WakeTimes
from dovetail.gateway.replicas import ASLEEP as AWAY
from dovetail.gateway.replicas import DRAINING, READY
from dovetail.jobfiles.service_model import ServiceSpec, ways_of
from dovetail.serving.scaling_rules import make_rule
from dovetail.workloads.service.entries import ServiceLoaded, ServiceScaled
from dovetail.workloads.service.recent_load import RecentLoad
from dovetail.workloads.service.scaling import SeenLoad, Wish
from dovetail.workloads.service.steady import SteadyWish
from dovetail.workloads.service.track import SICK
from dovetail.worlds.hosting import Endpoint, GatewayLost, Hosting
from dovetail.worlds.world import LIMITED

_TICK_S, _SOON_S = 0.5, 0.02
_END_WITHIN_S = 15.0
_LOAD_EVERY_S = 60.0
_LONGEST_BACK_OFF_S = 60.0
_OPEN_AFTER_S = 0.5
_SICK_S = 5.0  # after which one that is not healthy yet is said to be so
_SCALE_DOWN_S = 60.0  # for services whose replicas do not sleep
_ROOM_S = 2.0  # between two replicas that go to make room for another variant

log = logging.getLogger("dovetail.daemon")

Submit = Callable[[int, str, View, Seconds], Sequence[Event]]
Make = Callable[[View, Seconds], Sequence[Event]]  # the events that a decision comes to


class ServiceKeeper:
    def __init__(
        self,
        scene: ServiceScene,
        spec: ServiceSpec,
        service: Service,
        hosting: Hosting,
        line: GatewayLine,
        uid: int | None,
        submit: Submit,
        last_words: Callable[[str], str],
        network: GatewayNetwork,
    ) -> None:
        self._network: Final = network
        self.id: Final = scene.design.id
        self.scene = scene
        patience_s = scene.design.idle_s or _SCALE_DOWN_S
        self.load: Final = RecentLoad(patience_s)
        self.health: Final = HealthWatch(spec.health, lambda at: hosting.stranger_at(at, uid))
        self.times: Final = WakeTimes()
        self.busy: dict[str, int] = {}  # requests by the number of a replica
        self.told = Wish(scene.wanted, scene.reason, None, scene.variant)
        self.trouble = ""
        self._spec: Final = spec
        self._service: Final = service
        self._line: Final = line
        self._hosting: Final = hosting
        self._endpoints: dict[int, Endpoint] = {}  # by number: of those that can be reached
        self._submit: Final = submit
        self._last_words: Final = LastWords(last_words)
        self._draining: Final[dict[int, float]] = {}  # by number: until when
        self._own_sleep: Final = OwnSleep(self.id, spec.sleep, self.health)
        self._patience_s: Final = patience_s
        ways = ways_of(spec) if spec.variants else []
        self._at_once: Final = {own.name: own.spec.at_once for own in ways}
        self._wish: SteadyWish | VariantWish | None = None
        self._made_room_at = 0.0  # for another variant
        self._load_told_at = monotonic()
        self._rows: list[dict[str, Any]] | None = None  # as the gateway has them
        self._paused = False  # as the gateway was told
        self._open_at = 0.0  # a gateway that has just ended is started then
        self._open_after_s = _OPEN_AFTER_S
        self._over: Final = threading.Event()
        self._listens: Final = threading.Event()
        self._thread: Final = threading.Thread(
            target=self._work, name=f"service {self.id}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The daemon ends; gateway and replicas go on."""
        self._over.set()

    def wait_for_address(self) -> None:
        """So that who was told it finds somebody there."""
        self._listens.wait(_END_WITHIN_S)

    def wait_for_pause(self, is_paused: bool) -> None:
        """Or for its end, so that who is told of it meets it."""
        self._line.wait_for_pause(is_paused)

    def wait_for_end(self) -> None:
        """The service was stopped: its gateway answers what was begun, and ends."""
        self._thread.join(_END_WITHIN_S)

    def _work(self) -> None:
        while not self._over.is_set():
            try:
                if not self._round():
                    break
                self.trouble = ""
            except GatewayLost as error:
                self.trouble = str(error)
                self._rows = None
                self._network.tokens.forget()
                self._over.wait(1.0)
            except DovetailError as error:
                log.warning("service %s: %s", self.id, error)
                self.trouble = str(error)
                self._over.wait(1.0)
            except Exception:
                log.exception("service %s: its keeper stumbled", self.id)
                self._over.wait(1.0)
        self.health.stop()
        self._line.close()

    def _round(self) -> bool:
        """False: there is no such service any more."""
        scene = self._service.look(lambda view, now: scene_of(view, now, self.id))
        if scene is None:
            self._line.stop()
            return False
        self.scene = scene
        if not self._line.is_open:
            self._open_line()
        self._look_at_replicas(scene)
        self._time(scene)
        self._decide(scene)
        self._tell_gateway(scene)
        if tokens := self._network.tokens.news():
            self._line.tell({"tokens": tokens})
        for row in self._line.hear(self._pause_s(scene)):
            self._heed(row)
        return True

    def _open_line(self) -> None:
        """Who has a port that cannot be had, or ends their gateway again and again, has it started
        less and less often."""
        if self._network.refusal:  # one from before may still be open
            self._line.stop()
            raise GatewayLost(self._network.refusal)
        if monotonic() < self._open_at:
            raise GatewayLost(self.trouble or "its gateway has ended; it is started again soon")
        if monotonic() > self._open_at + _LONGEST_BACK_OFF_S:
            self._open_after_s = _OPEN_AFTER_S
        self._open_after_s = min(2 * self._open_after_s, _LONGEST_BACK_OFF_S)
        self._open_at = monotonic() + self._open_after_s
        self._line.open()
        self._listens.set()

    def _look_at_replicas(self, scene: ServiceScene) -> None:
        found = {own.number: self._hosting.endpoint(own.job, own.port) for own in scene.replicas}
        self._endpoints = {number: at for number, at in found.items() if at is not None}
        running = [own.number for own in scene.replicas if own.runs]
        self.health.look({n: at for n, at in self._endpoints.items() if n in running})

    def _time(self, scene: ServiceScene) -> None:
        there = {own.number for own in scene.replicas}
        self.times.forget_all_but(there)
        self._own_sleep.forget_all_but(there)
        for own in scene.replicas:
            if self.is_ready(own):
                self.times.is_ready(own.number)

    def seen(self, scene: ServiceScene) -> SeenLoad:
        awake = sum(self.is_ready(own) for own in scene.replicas)
        return self.load.seen(monotonic(), awake, self._ready_in_s(scene), scene.displaced)

    def _ready_in_s(self, scene: ServiceScene) -> Seconds:
        """Until one more answers."""
        asleep = any(own.rests for own in scene.replicas)
        return self.times.wake_s if asleep else self.times.start_s

    def _pause_s(self, scene: ServiceScene) -> float:
        """Somebody drains, is asked for their health, or is waited for: then look again soon."""
        waited_for = bool(self.load.waiting or self.load.last["queued"])
        coming = any(not own.rests and not self.is_ready(own) for own in scene.replicas)
        soon = self._draining or self._own_sleep.is_waking or self.health.is_anxious
        return _SOON_S if soon or (coming and waited_for) else _TICK_S

    def _heed(self, row: dict[str, Any]) -> None:
        if row.get("network", "") != self._network.stamp:  # another certificate, or none before
            self._line.tell({"stop": True})
            return
        self.busy = {name: int(number) for name, number in row.get("busy", {}).items()}
        if "waiting" in row:
            self.load.waiting = max(row["waiting"], 1)
        if "load" in row:
            self.load.add(row["load"], monotonic())
        if isinstance(self._wish, VariantWish):
            variants = {str(own.number): own.variant for own in self.scene.replicas}
            self._wish.hear(row.get("took", {}), variants)

    # ------------------------------------------------------------------------------------- deciding

    def is_ready(self, own: SeenReplica) -> bool:
        return own.runs and own.number not in self._draining and self.health.is_healthy(own.number)

    def state_of(self, own: SeenReplica) -> ReplicaState:
        if own.rests:
            return "draining" if own.is_placed or own.leaves else "asleep"
        if own.number in self._draining:
            return "draining"
        if self.is_ready(own):
            return "ready"
        if not own.is_placed:
            return "waiting"
        return "sick" if own.runs and own.up_s > _SICK_S else "starting"

    def _decide(self, scene: ServiceScene) -> None:
        if self._wish is None:
            self._wish = self._wished()
        self.told = self._wish.at(
            monotonic(), self.seen(scene), scene.design, scene.least, scene.most
        )
        paused = Wish(0, IS_PAUSED, None, self.told.variant)
        wanted = paused if scene.is_paused else self.told
        events = self._changes(scene, wanted)
        if events or (wanted.replicas, wanted.variant) != (scene.wanted, scene.variant):
            self._record(scene, wanted, events)
        if monotonic() - self._load_told_at > _LOAD_EVERY_S:
            self._load_told_at = monotonic()
            if load := self.load.untold():
                self._service.change(lambda view, now: ([ServiceLoaded(now, self.id, load)], None))

    def _wished(self) -> SteadyWish | VariantWish:
        """With variants their choice says how many replicas, else the scaling rule does."""
        spec, costs = self._spec, self._service.chosen.costs
        if not spec.variants:
            rule = make_rule(self.scene.design.rule)
            return SteadyWish(rule, self._patience_s, self.told, monotonic())
        variants = self._service.look(lambda view, _: live_variants(spec, view, costs))
        return VariantWish(variants, spec.least_accuracy, self._patience_s, self.told)

    def _record(self, scene: ServiceScene, wanted: Wish, changes: Sequence[Make]) -> None:
        def change(view: View, now: Seconds) -> tuple[list[Event], None]:
            if scene_of(view, now, self.id) is None:
                return [], None
            events: list[Event] = []
            if (wanted.replicas, wanted.variant) != (scene.wanted, scene.variant):
                told = (wanted.replicas, wanted.reason, wanted.variant)
                events.append(ServiceScaled(now, self.id, *told))
            for make in changes:
                events += make(view, now)
            return events, None

        self._service.change(change)

    def _changes(self, scene: ServiceScene, wanted: Wish) -> list[Make]:
        found = [*self._end_the_sick(scene), *self._finish_draining(scene)]
        up = [own for own in scene.replicas if not own.rests and own.number not in self._draining]
        mine = [own for own in up if own.variant == wanted.variant]
        missing = wanted.replicas - len(mine)
        if missing > 0:
            found += self._more(scene, missing, wanted.variant)
        elif missing < 0:
            found += self._fewer(mine, -missing)
        if len(up) > len(mine):
            others = [own for own in up if own.variant != wanted.variant]
            found += self._fewer(others, self._may_go(mine, others, wanted.replicas))
        for variant in {own.variant for own in scene.replicas}:
            same = [own for own in scene.replicas if own.variant == variant]
            resting = [own for own in same if own.rests][: max(len(same) - scene.most, 0)]
            found += [self._ended(own.job, "its service has fewer now") for own in resting]
        return found

    def _may_go(self, mine: list[SeenReplica], others: list[SeenReplica], wanted: int) -> int:
        """Of another variant: all once those that are wanted are ready, or one to make room for them."""
        if sum(self.is_ready(own) for own in mine) >= wanted:
            return len(others)
        waits = any(not own.is_placed for own in mine)
        if not waits or self._draining or monotonic() - self._made_room_at < _ROOM_S:
            return 0
        self._made_room_at = monotonic()
        return 1

    def _more(self, scene: ServiceScene, missing: int, variant: str) -> list[Make]:
        """Whoever drains goes on; then sleepers are woken; then new ones are started."""
        same = [own for own in scene.replicas if own.variant == variant]
        drain = [own.number for own in same if own.number in self._draining]
        for number in [own for own in drain if not self._own_sleep.is_told(own)][:missing]:
            del self._draining[number]
            missing -= 1
        resting = [own for own in same if own.rests][:missing]
        self._own_sleep.wakes(resting)
        for own in resting:
            self.times.begins(own.number, True)
        found = [self._released(own.job) for own in resting]
        new = min(missing - len(resting), scene.most - len(same))
        if new > 0 and self.back_off_s(scene) <= 0:
            for number in range(scene.next_number, scene.next_number + new):
                self.times.begins(number, False)
                found.append(self._submitted(number, variant))
        return found

    def back_off_s(self, scene: ServiceScene) -> float:
        """Until the next one is started, after some that failed one after the other."""
        if not scene.failures:
            return 0.0
        return min(2.0 ** (scene.failures - 1), _LONGEST_BACK_OFF_S) - scene.failed_s

    def _fewer(self, up: list[SeenReplica], above: int) -> list[Make]:
        """Those first that are not at work yet, then those with the fewest requests."""
        idle_first = sorted(up, key=lambda own: (own.runs, self.busy.get(str(own.number), 0)))
        found = []
        for own in idle_first[:above]:
            if own.is_placed:
                self._draining[own.number] = monotonic() + self._spec.drain_s
            else:
                found.append(self._ended(own.job, "its service does not need it any more"))
        return found

    def _finish_draining(self, scene: ServiceScene) -> list[Make]:
        found, known = [], {own.number: own for own in scene.replicas}
        for number, until in list(self._draining.items()):
            own = known.get(number)
            if own is None or own.rests:
                del self._draining[number]
            elif (self._has_drained(number) or monotonic() > until) and self._sleeps(scene, own):
                found.append(self._put_away(scene, own))
        return found

    def _has_drained(self, number: int) -> bool:
        """The gateway has said so since it was told that it gets no more, or it is gone."""
        if number not in self._endpoints:
            return True
        told = [row for row in self._rows or () if row["id"] == str(number)]
        return bool(told) and told[0]["standing"] == DRAINING and not self.busy.get(str(number))

    def _sleeps(self, scene: ServiceScene, own: SeenReplica) -> bool:
        """Its server has been told to, if it can and is not to end."""
        ends = scene.design.idle_s is None and not scene.is_paused
        return ends or self._own_sleep.entered(own)

    def _put_away(self, scene: ServiceScene, own: SeenReplica) -> Make:
        if scene.design.idle_s is None and not scene.is_paused:
            return self._ended(own.job, "its service does not need it any more")
        reason = SERVICE_PAUSED if scene.is_paused else ASLEEP
        return lambda view, now: [Held(now, own.job, reason)] if own.job in view.tracks else []

    def _end_the_sick(self, scene: ServiceScene) -> list[Make]:
        found = []
        for own in scene.replicas:
            if not own.runs or self.health.is_healthy(own.number):
                continue
            if own.up_s > self._spec.start_s:
                within = f"{self._spec.start_s:g} s"
                why = f"{SICK} after {within}: {self.health.why_not(own.number)}"
                found.append(self._ended(own.job, why))
        return found

    # ------------------------------------------------------------------------------ single changes

    @staticmethod
    def _ended(job: JobId, why: str) -> Make:
        return lambda view, now: [Cancelled(now, job, why)] if job in view.tracks else []

    def _released(self, job: JobId) -> Make:
        def change(view: View, now: Seconds) -> Sequence[Event]:
            track = view.tracks.get(job)
            return [] if track is None else [self._service.admission.let_go(track, view, now)]

        return change

    def _submitted(self, number: int, variant: str) -> Make:
        return lambda view, now: self._submit(number, variant, view, now)

    # ---------------------------------------------------------------------------------- the gateway

    def _tell_gateway(self, scene: ServiceScene) -> None:
        self._own_sleep.leave(scene.replicas)
        reached = [own for own in scene.replicas if own.number in self._endpoints]
        rows: list[dict[str, Any]] = [
            {
                "id": str(own.number),
                "host": self._endpoints[own.number].host,
                "port": self._endpoints[own.number].port,
                "standing": self._standing(own),
            }
            for own in reached
        ]
        for row, own in zip(rows, reached, strict=True):
            if own.variant in self._at_once:
                row["at_once"] = self._at_once[own.variant]
        if rows != self._rows or scene.is_paused != self._paused:
            told = {"wake_s": self._ready_in_s(scene), "why_none": self._why_none(scene)}
            self._line.tell({"replicas": rows, "is_paused": scene.is_paused, **told})
            self._rows, self._paused = rows, scene.is_paused

    def _standing(self, own: SeenReplica) -> str:
        if own.number in self._draining and own.runs:
            return DRAINING
        is_awake = self.is_ready(own) and not self._own_sleep.is_asleep(own.number)
        return READY if is_awake else AWAY

    def _why_none(self, scene: ServiceScene) -> str:
        if scene.is_paused:
            return IS_PAUSED
        return self.trouble_now(scene) or "no replica of it is ready yet"

    # --------------------------------------------------------------------------- what is said of it

    def trouble_now(self, scene: ServiceScene) -> str:
        if self.trouble:
            return self.trouble
        if scene.failures:
            when = f"in {left:.0f} s" if (left := self.back_off_s(scene)) >= 0.5 else "now"
            again = f"the next is started {'once it is resumed' if scene.is_paused else when}"
            said = self._last_words.of(scene.failed_job)
            return f"{scene.failure}{said}; {scene.failures} in a row, {again}"
        for own in scene.replicas:
            if not own.runs and own.is_placed and (why := self._hosting.waits_for(own.job)):
                return f"replica {own.number} (job {own.job}) does not run yet: {why}"
        for own in [own for own in scene.replicas if own.runs and own.up_s > _SICK_S]:
            if why := self.health.why_not(own.number):
                return f"replica {own.number} (job {own.job}) is not healthy yet: {why}"
        if scene.is_paused:
            return ""
        for own in scene.replicas:
            if own.held.startswith(LIMITED):
                return f"replica {own.number} (job {own.job}) waits: {own.held}"
        return slo_trouble(self.seen(scene), self.load.least_service_s, self.times, scene)
