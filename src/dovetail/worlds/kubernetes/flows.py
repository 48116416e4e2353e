"""What is done to the pods of a launch, step by step: make them, suspend them, let them go on, end them.

Each is a generator that yields whenever it has to wait, with the time (monotonic) by which it wants to
be looked at even if nothing happens. So thousands of them wait without a thread, and one of few workers
goes on with whichever has something new. Whatever a flow did before it may be asked to do again: a
controller that was killed in the middle leaves the rest to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.worlds.agent import COOPERATE, KILL, Done, Errand, Used, WorkOutcome
from dovetail.worlds.kubernetes import channel as orders
from dovetail.worlds.kubernetes import manifest
from dovetail.worlds.kubernetes.channel import Answer
from dovetail.worlds.kubernetes.client import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    Json,
    Unreachable,
)
from dovetail.worlds.kubernetes.closing import LOOK_S, TRY_AGAIN_S, GangClosing, Steps
from dovetail.worlds.kubernetes.gangs import Gang, GangNote
from dovetail.worlds.kubernetes.manifest import PodPlan
from dovetail.worlds.kubernetes.pods import is_refusal_of_a_seat, pod_name, pod_of
from dovetail.worlds.kubernetes.quotas import is_over_quota

_IMAGE_WITHIN_S: Final = 30.0
_GONE_WITHIN_S: Final = 60.0
_DELETED: Final = "a pod was deleted before it came up"
_PATIENT_LOOK_S: Final = 5.0  # where the watch tells of what there is, and thousands may wait

log = logging.getLogger("dovetail.kubernetes")

Waits = Generator[float, None, Done]


class Refused(DovetailError):
    """The API server, or who it asks, does not want the pod."""


class NoSeat(DovetailError):
    """What was given is taken, or did not come up in time: not now."""


class OverQuota(DovetailError):
    """Its namespace has used up what it may have: not now, and its GPUs are for others meanwhile."""


class CalledOff(DovetailError):
    """It is not wanted any more."""


@dataclass(frozen=True, slots=True)
class Mission:
    """An errand on a gang, with all that was to be known from the state."""

    gang: Gang
    errand: Errand
    plans: Sequence[PodPlan]  # by rank; the addresses are not known yet
    nodes: tuple[str, ...]  # where the job is to run, by rank
    saves_itself: bool  # so that nothing is lost with its pods
    is_called_off: Callable[[], bool]

    @property
    def job_id(self) -> str:
        return self.errand.run.job_id


class Flows(GangClosing):
    """Those that an errand may be."""

    # ----------------------------------------------------------------------------------- making

    def bring_up(self, mission: Mission) -> Waits:
        if mission.gang.note is not None and mission.gang.note.is_made:
            return (yield from self._go_on(mission))
        return (yield from self._bring_up_new(mission))

    def _bring_up_new(self, mission: Mission) -> Waits:
        gang, job_id = mission.gang, mission.errand.run.job_id
        try:
            yield from self._make(mission)
        except NoSeat as error:
            yield from self._give_up(gang)
            yield monotonic() + TRY_AGAIN_S  # who would start it again at once shall not
            return Done(job_id, WorkOutcome.NO_SEAT, trouble=str(error))
        except OverQuota as error:
            yield from self._give_up(gang)
            self._over_quota(job_id, mission.plans[0].namespace, str(error))
            return Done(job_id, WorkOutcome.NO_SEAT, trouble=str(error))
        except CalledOff:
            yield from self._give_up(gang)
            return Done(job_id, WorkOutcome.CALLED_OFF)
        except Refused as error:
            yield from self._give_up(gang)
            return Done(job_id, WorkOutcome.NOT_STARTED, trouble=str(error))
        return Done(job_id, WorkOutcome.UP)

    def _make(self, mission: Mission) -> Steps:
        gang, until = mission.gang, monotonic() + self._settings.start_within_s
        first = mission.plans[0]
        if trouble := manifest.namespace_trouble(first.namespace, self._settings):
            raise Refused(trouble)
        yield from self._wait_for_those_before(mission, until)
        note = self._noted(mission)
        # One pod alone is all or none by itself: a request less.
        node = note.nodes[0] if len(mission.plans) == 1 else ""
        first = replace(first, attempt=note.attempt, is_moved=note.is_moved, node=node)
        while not self._create(gang, [first], note):
            yield monotonic() + TRY_AGAIN_S  # nobody answers
            self._check_wanted(mission, until)
        while len(mission.plans) > 1 and not (gang.pods.get(0) and gang.pods[0].address):
            yield min(monotonic() + LOOK_S, until)
            self._check(mission, until)
        rest = [self._addressed(plan, gang, note) for plan in mission.plans[1:]]
        while not self._create(gang, rest, note):
            yield monotonic() + TRY_AGAIN_S
            self._check_wanted(mission, until)
        gang.keep_note(replace(note, is_made=True), is_sure=False)
        while not gang.is_running:
            yield min(monotonic() + _PATIENT_LOOK_S, until)
            self._check(mission, until)

    def _wait_for_those_before(self, mission: Mission, until: float) -> Steps:
        """Pods of an attempt that was given up may still end: nothing is begun beside them."""
        note, run = mission.gang.note, mission.errand.run
        if note is None or not note.is_given_up:
            return
        home, path = self._settings.home, f"/api/v1/namespaces/{note.namespace}/pods"
        for rank in range(len(note.nodes)):
            while self._lingers(f"{path}/{pod_name(home, run, rank, note.attempt)}"):
                yield monotonic() + TRY_AGAIN_S
                self._check_wanted(mission, until)

    def _lingers(self, path: str) -> bool:
        try:
            pod = pod_of(self._api.get(path), self._settings)
        except ApiError as error:
            return error.code != NOT_FOUND
        except Unreachable:
            return True
        return pod is not None and not pod.is_over

    def _noted(self, mission: Mission) -> GangNote:
        """Before anything is made: where its output and its reports will begin."""
        gang, old = mission.gang, mission.gang.note
        if old is not None and not old.is_given_up and old.nodes == mission.nodes:
            return old  # a controller since killed has begun
        job_id = mission.errand.run.job_id
        reports = self._folders.reports(job_id)
        note = GangNote(
            mission.plans[0].namespace,
            mission.nodes,
            tuple(plan.mask for plan in mission.plans),
            mission.errand.order.grace_s,
            1 if old is None else old.attempt + 1,
            is_moved=old is not None and old.is_moved,
            log_from=self._folders.log(job_id).end(),
            reports_from=reports.stat().st_size if reports.exists() else 0,
        )
        gang.begin_attempt(note)
        return note

    @staticmethod
    def _addressed(plan: PodPlan, gang: Gang, note: GangNote) -> PodPlan:
        """The first pod has an address now, where it waits for the others."""
        addresses = (gang.pods[0].address, *plan.rank.addresses[1:])
        rank = plan.rank._replace(addresses=addresses)
        return replace(plan, attempt=note.attempt, is_moved=note.is_moved, rank=rank)

    def _create(self, gang: Gang, plans: Sequence[PodPlan], note: GangNote) -> bool:
        """Those pods, bound. What is there already is ours: names are never used twice. False: nobody
        answers."""
        try:
            where = [self._create_one(gang, plan) for plan in plans]
            for plan, node in zip(plans, where, strict=True):
                if node != note.nodes[plan.rank.number]:
                    self._bind(plan, note.nodes[plan.rank.number])
        except Unreachable as error:
            log.warning("job %s waits to be started: %s", gang.run.job_id, error)
            return False
        except ApiError as error:
            if error.code in (429, 500, 503, 504):
                log.warning("job %s waits to be started: %s", gang.run.job_id, error)
                return False
            if is_over_quota(error):
                raise OverQuota(str(error)) from None
            raise Refused(str(error)) from None
        return True

    def _create_one(self, gang: Gang, plan: PodPlan) -> str:
        """The node that it is bound to; "" if to none yet."""
        path = f"/api/v1/namespaces/{plan.namespace}"
        try:
            made = self._api.create(f"{path}/pods", manifest.pod(plan, self._settings))
        except ApiError as error:
            if error.code != CONFLICT or error.reason != "AlreadyExists":
                raise
            made = self._made_before(f"{path}/pods/{plan.name}")
        gang.take_note_of(made, self._settings)
        if plan.order.scripts and plan.rank.number == 0:
            try:
                self._api.create(f"{path}/configmaps", manifest.scripts(plan, made, self._settings))
            except ApiError as error:
                if error.code != CONFLICT:
                    raise
        return str(made["spec"].get("nodeName") or "")

    def _made_before(self, path: str) -> Json:
        try:
            return self._api.get(path)
        except ApiError as error:
            if error.code == NOT_FOUND:
                raise NoSeat(_DELETED) from None
            raise

    def _bind(self, plan: PodPlan, node: str) -> None:
        try:
            self._api.bind(plan.namespace, plan.name, node)
        except ApiError as error:
            if error.code == NOT_FOUND:
                raise NoSeat(_DELETED) from None
            if error.code != CONFLICT:
                raise
            path = f"/api/v1/namespaces/{plan.namespace}/pods/{plan.name}"
            bound = self._api.get(path)["spec"].get("nodeName")
            if bound != node:
                raise NoSeat(f"pod {plan.name} is bound to {bound or 'no node'}") from None

    def _check_wanted(self, mission: Mission, until: float) -> None:
        if mission.is_called_off() and not _may_have_begun(mission.gang):
            raise CalledOff("it is not wanted any more")
        if monotonic() >= until:
            within = f"its pods did not come up within {self._settings.start_within_s:g} s"
            waits = (pod.waits_for for pod in mission.gang.all_pods() if pod.waits_for)
            raise NoSeat(": ".join((within, *list(waits)[:1])))

    def _check(self, mission: Mission, until: float) -> None:
        """Is there still hope for its pods?"""
        self._check_wanted(mission, until)
        began = until - self._settings.start_within_s
        for pod in mission.gang.all_pods():
            ending = pod.ending
            if ending is not None and not pod.container:
                if is_refusal_of_a_seat(ending):
                    raise NoSeat(ending.failure)
                raise Refused(ending.failure)
            is_late = monotonic() > began + _IMAGE_WITHIN_S
            if pod.is_hopeless or (pod.lacks_image and is_late):
                raise Refused(pod.waits_for)
        gone = mission.gang.is_lost or any(pod.is_deleted for pod in mission.gang.all_pods())
        if gone and not mission.gang.is_running:
            raise NoSeat(_DELETED)

    def _give_up(self, gang: Gang) -> Steps:
        """All or none: what was made goes, and its names are not used again."""
        if gang.note is None:
            return
        gang.is_ending = True  # noted first: a controller since killed has not left a launch behind
        gang.keep_note(replace(gang.note, is_given_up=True, is_made=False))
        for pod in gang.all_pods():
            yield from self._delete(pod, 1 if pod.node else 0)
        until = monotonic() + _GONE_WITHIN_S
        while not gang.is_over and monotonic() < until:
            yield min(until, monotonic() + LOOK_S)
        for pod in gang.all_pods():  # of a node that does not answer
            yield from self._delete(pod, 0)
        while not gang.is_over:
            yield monotonic() + LOOK_S
        for pod in gang.all_pods():
            self._channel.drop(pod.uid)
        gang.is_ending = False

    # ---------------------------------------------------------------------------- giving way

    def give_way(self, mission: Mission) -> Waits:
        order, gang, began = mission.errand.order, mission.gang, monotonic()
        troubles: list[str] = []
        if not order.preemptible:
            troubles.append("its user does not want it to give way")
        else:
            answers = yield from self._suspend(mission, troubles)
            if answers:
                return self._done(mission, WorkOutcome.PARKED, _used(answers, began, True))
        if self._has_ended(gang):
            yield from self._wait_until_told(gang)
            return Done(order.job_id, WorkOutcome.STAYED, trouble="it has ended")
        if order.preemptible and mission.saves_itself:
            rung = yield from self._cooperate(mission, troubles)
            if rung:
                took = Used(rung, monotonic() - began, 0, False)
                return self._done(mission, WorkOutcome.GONE, took)
        elif order.preemptible:
            troubles.append("it does not save itself to where its pod's end does not matter")
        if not order.restartable:
            trouble = "; ".join(troubles)
            return Done(order.job_id, WorkOutcome.STAYED, trouble=trouble)
        yield from self._end(gang, 0)
        return self._done(mission, WorkOutcome.GONE, Used(KILL, monotonic() - began, 0, False))

    @staticmethod
    def _done(mission: Mission, outcome: WorkOutcome, used: Used) -> Done:
        return Done(mission.errand.run.job_id, outcome, used)

    def _suspend(
        self, mission: Mission, troubles: list[str]
    ) -> Generator[float, None, Sequence[Answer]]:
        """None of its pods runs on: all are suspended, or none."""
        pods = mission.gang.all_pods()
        if why := mission.gang.taken_away or next((pod.probe for pod in pods if pod.probe), ""):
            troubles.append(why)
            return ()
        silent = [pod.node for pod in pods if not self._can_be_told(pod)]
        if silent or not pods:
            troubles.append(f"there is no agent on {silent[0]}" if silent else "its pods are gone")
            return ()
        answers = yield from self._have(pods, orders.SUSPEND, mission.errand.room_bytes)
        if answers and all(own.is_suspended for own in answers):
            return answers
        failed = [own.trouble for own in answers if own.trouble]
        troubles.append(failed[0] if failed else "its node's agent did not answer in time")
        yield from self._have(pods, orders.RUN, 0)
        return ()

    def _cooperate(self, mission: Mission, troubles: list[str]) -> Generator[float, None, str]:
        """Asked to save itself, it ends. The rung; "": it did not within its time."""
        gang, grace_s = mission.gang, mission.errand.order.grace_s
        gang.ask_to_stop()
        gang.is_ending = True
        pods = gang.all_pods()
        until = monotonic() + grace_s + LOOK_S
        if all(self._can_be_told(pod) for pod in pods):
            for pod in pods:
                self._channel.want(pod.uid, orders.STOP)
        else:  # the kubelet asks, and kills at the end of the grace
            yield from self._listen(gang)
            for pod in pods:
                yield from self._delete(pod, max(round(grace_s), 1))
            until = monotonic() + float("inf")
        while not gang.is_closed:
            if monotonic() > until:
                gang.is_ending = False
                troubles.append(f"asked to save itself, it went on for {grace_s:g} s")
                return ""
            yield min(until, monotonic() + LOOK_S)
        ending = gang.ending
        return KILL if ending is not None and ending.signal == 9 else COOPERATE

    # ------------------------------------------------------------------------------- going on

    def _go_on(self, mission: Mission) -> Waits:
        """Suspended pods work again; those of a controller since killed come up, or are up."""
        gang, job_id, began = mission.gang, mission.errand.run.job_id, monotonic()
        note = gang.note
        if gang.is_closed or note is None:
            return Done(job_id, WorkOutcome.UP)  # its end is told next
        if note.nodes != mission.nodes:
            return (yield from self._move(mission, note))
        pods = gang.all_pods()
        if not any(self._channel.answer(pod.uid).is_suspended for pod in pods):
            while not (gang.is_running or gang.is_closed):
                if refused := [pod.ending for pod in gang.all_pods() if pod.was_not_admitted]:
                    yield from self._give_up(gang)
                    trouble = refused[0].failure if refused[0] is not None else ""
                    return Done(job_id, WorkOutcome.NO_SEAT, trouble=trouble)
                yield monotonic() + LOOK_S
            return Done(job_id, WorkOutcome.UP)
        answers = yield from self._have(pods, orders.RUN, 0)
        trouble = next((own.trouble for own in answers if own.trouble), "")
        if answers and not trouble:
            return self._done(mission, WorkOutcome.UP, _used(answers, began, False))
        yield from self._have(pods, orders.SUSPEND, mission.errand.room_bytes)
        return Done(job_id, WorkOutcome.NO_ROOM, trouble=trouble or "its agent does not answer")

    def _move(self, mission: Mission, note: GangNote) -> Waits:
        """To other nodes, if it saves itself: its pods end, and new ones go on with what they saved."""
        gang, job_id = mission.gang, mission.errand.run.job_id
        pods, grace_s = gang.all_pods(), mission.errand.order.grace_s
        where = ", ".join(note.nodes)
        trouble = f"it is suspended on {where} and can go on only there"
        if not (mission.saves_itself and pods and all(self._can_be_told(pod) for pod in pods)):
            yield monotonic() + TRY_AGAIN_S
            return Done(job_id, WorkOutcome.NO_ROOM, trouble=trouble)
        gang.is_moving = True
        for pod in pods:
            self._channel.want(pod.uid, orders.STOP)
        until = monotonic() + grace_s + LOOK_S
        while gang.is_moving:
            if monotonic() > until and not gang.is_over:
                gang.is_moving = False
                yield from self._have(pods, orders.SUSPEND, mission.errand.room_bytes)
                return Done(job_id, WorkOutcome.NO_ROOM, trouble=trouble)
            yield min(until, monotonic() + LOOK_S)
        done = yield from self._bring_up_new(mission)
        return done

    # --------------------------------------------------------------------------------- ending

    def end(self, mission: Mission) -> Waits:
        yield from self._end(mission.gang, mission.errand.order.grace_s)
        return Done(mission.errand.run.job_id, WorkOutcome.ENDED)

    def _end(self, gang: Gang, grace_s: float) -> Steps:
        if gang.note is None or not gang.note.is_made:
            yield from self._give_up(gang)
            return
        gang.is_ending = True
        yield from self._listen(gang)
        for pod in gang.all_pods():
            yield from self._delete(pod, max(round(grace_s), 1))
        while not gang.is_closed:
            yield monotonic() + LOOK_S


def _may_have_begun(gang: Gang) -> bool:
    """Then it is not called off but comes up, and gives way as others do: to begin it again would be
    twice. Where its image is missing it has not."""
    pods, note = gang.all_pods(), gang.note
    if any(pod.lacks_image or pod.is_hopeless for pod in pods):
        return False
    return (note is not None and note.is_made) or any(pod.container for pod in pods)


def _used(answers: Sequence[Answer], began: float, is_parked: bool) -> Used:
    """All together: as long as it took from here, and the bytes of all."""
    rung = next((own.rung for own in answers if own.rung), "freeze")
    return Used(rung, monotonic() - began, sum(own.bytes for own in answers), is_parked)
