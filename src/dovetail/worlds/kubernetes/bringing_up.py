"""Pods of a launch are made: all of them or none, and nothing beside those of an attempt before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.worlds.agent import Done, Errand, RunId, WorkOutcome
from dovetail.worlds.kubernetes import manifest
from dovetail.worlds.kubernetes.client import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    Json,
    Unreachable,
)
from dovetail.worlds.kubernetes.closing import LOOK_S, TRY_AGAIN_S, GangClosing, Steps
from dovetail.worlds.kubernetes.gangs import Gang
from dovetail.worlds.kubernetes.launch_notes import GangNote
from dovetail.worlds.kubernetes.manifest import PodPlan
from dovetail.worlds.kubernetes.pods import is_refusal_of_a_seat, pod_name, pod_of
from dovetail.worlds.kubernetes.quotas import is_over_quota
from dovetail.worlds.local.watching.output import end_of

_TRIED_WITHIN_S: Final = 30.0
_MOST_LATE: Final = 3  # attempts at the first launch of a job
_GONE_WITHIN_S: Final = 60.0
_SILENT_FOR_S: Final = 60.0  # a node, after the cluster has noticed that it is
_DELETED: Final = "a pod was deleted before it came up"
_PATIENT_LOOK_S: Final = 5.0  # where the watch tells of what there is, and thousands may wait

log = logging.getLogger("dovetail.kubernetes")

Waits = Generator[float, None, Done]


class Refused(DovetailError):
    """The API server, or who it asks, does not want the pod."""


class NoSeat(DovetailError):
    """What was given is taken, or did not come up in time: not now."""


class NotUpInTime(NoSeat):
    """It did not come up in time."""


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
    is_over: Callable[[], bool]  # the job is: nothing is begun after this launch

    @property
    def job_id(self) -> str:
        return self.errand.run.job_id


class GangMaking(GangClosing):
    """For those that make pods."""

    def _bring_up_new(self, mission: Mission) -> Waits:
        return (yield from self._up_by(self._make(mission), mission))

    def _up_by(self, steps: Steps, mission: Mission) -> Waits:
        gang, job_id = mission.gang, mission.errand.run.job_id
        try:
            yield from steps
        except NoSeat as error:
            is_stuck = self._is_stuck(gang) if isinstance(error, NotUpInTime) else False
            yield from self._give_up(gang)
            if is_stuck:
                trouble = f"{error}; {_MOST_LATE} times, and it has never run"
                return Done(job_id, WorkOutcome.NOT_STARTED, trouble=trouble)
            yield monotonic() + TRY_AGAIN_S  # who would start it again at once shall not
            return Done(job_id, WorkOutcome.NO_SEAT, trouble=str(error))
        except OverQuota as error:
            yield from self._give_up(gang)
            self._over_quota(job_id, mission.plans[0].namespace, str(error))
            return Done(job_id, WorkOutcome.NO_SEAT, trouble=str(error))
        except CalledOff:
            grace_s = mission.errand.order.grace_s
            yield from self._end(mission, grace_s) if mission.is_over() else self._give_up(gang)
            return Done(job_id, WorkOutcome.CALLED_OFF)
        except Refused as error:
            yield from self._give_up(gang)
            return Done(job_id, WorkOutcome.NOT_STARTED, trouble=str(error))
        return Done(job_id, WorkOutcome.UP)

    @staticmethod
    def _is_stuck(gang: Gang) -> bool:
        """Once more it is late: will it hold its GPUs in vain for ever? Not told of one that has run: it
        has something to lose."""
        assert gang.note is not None
        note = replace(gang.note, late=gang.note.late + 1)
        gang.keep_note(note)
        return note.late >= _MOST_LATE and gang.run.number == 1 and not note.is_moved

    def _make(self, mission: Mission) -> Steps:
        gang, until = mission.gang, monotonic() + self._settings.start_within_s
        first = mission.plans[0]
        if trouble := manifest.namespace_trouble(first.namespace, self._settings):
            raise Refused(trouble)
        yield from self._wait_for_those_before(mission, until)
        note = self.noted(mission)
        gang.make_sure()
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
        gang.keep_note(replace(note, is_made=True))
        yield from self._wait_until_up(mission, until)

    def _wait_until_up(self, mission: Mission, until: float) -> Steps:
        """Its pods are made, by us or by a controller since killed."""
        gang = mission.gang
        while not (gang.is_running or gang.is_closed):
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

    def noted(self, mission: Mission) -> GangNote:
        """Before anything is made: where its output and its reports will begin."""
        gang, old = mission.gang, mission.gang.note
        if old is not None and not old.is_given_up and old.nodes == mission.nodes:
            return old  # a controller since killed has begun
        log_from, reports_from = self._so_far(mission.errand.run, old)
        note = GangNote(
            mission.plans[0].namespace,
            mission.nodes,
            tuple(plan.mask for plan in mission.plans),
            mission.errand.order.grace_s,
            1 if old is None else old.attempt + 1,
            late=0 if old is None else old.late,
            is_moved=old is not None and old.is_moved,
            log_from=log_from,
            reports_from=reports_from,
        )
        gang.begin_attempt(note)
        return note

    def _so_far(self, run: RunId, old: GangNote | None) -> tuple[int, int]:
        """The bytes of the job's log and of its reports; none before its first launch."""
        if run.number == 1 and old is None:
            return 0, 0
        reports = self._folders.reports(run.job_id)
        printed = end_of(self._folders.log_path(run.job_id))
        return printed, reports.stat().st_size if reports.exists() else 0

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
        is_off = mission.is_called_off()
        if is_off and (mission.is_over() or not _may_have_begun(mission.gang)):
            raise CalledOff("it is not wanted any more")
        if monotonic() >= until:
            within = f"its pods did not come up within {self._settings.start_within_s:g} s"
            waits = (pod.waits_for for pod in mission.gang.all_pods() if pod.waits_for)
            raise NotUpInTime(": ".join((within, *list(waits)[:1])))

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
            is_late = monotonic() > began + _TRIED_WITHIN_S
            if pod.is_hopeless or (pod.is_tried_again and is_late):
                raise Refused(pod.waits_for)
        gang = mission.gang
        gone = gang.is_lost or any(pod.is_deleted for pod in gang.all_pods())
        if gone and not (gang.is_running or _was_there(gang)):
            raise NoSeat(_DELETED)

    def _give_up(self, gang: Gang) -> Steps:
        """All or none: what was made goes, and its names are not used again."""
        if gang.note is None:
            return
        gang.is_ending = True  # noted first: a controller since killed has not left a launch behind
        gang.keep_note(replace(gang.note, is_given_up=True, is_made=False))
        gang.make_sure()
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

    def _end(self, mission: Mission, grace_s: float) -> Steps:
        gang = mission.gang
        if gang.note is None or not gang.note.is_made:
            yield from self._give_up(gang)
            return
        gang.is_ending = True
        yield from self._listen(gang)
        for pod in gang.all_pods():
            yield from self._delete(pod, max(round(grace_s), 1))
        while not gang.is_closed:
            yield monotonic() + LOOK_S
            if mission.is_over():
                yield from self._leave_behind(gang)

    def _leave_behind(self, gang: Gang) -> Steps:
        """Pods on nodes that are silent for long: nobody says that they have ended, and the job is not
        to wait for ever. Nothing is begun after them; a kubelet that comes back ends what the API
        server does not know any more."""
        for pod in gang.all_pods():
            if not pod.is_over and self._silent_s(pod.node) > _SILENT_FOR_S:
                log.warning("pod %s is left behind on %s, which is silent", pod.name, pod.node)
                yield from self._delete(pod, 0)


def _was_there(gang: Gang) -> bool:
    """Somebody else has ended what had begun, such as a suspended pod: its processes may still be there.
    Its end is told once they are not; nothing is begun beside them."""
    deleted = [pod for pod in gang.all_pods() if pod.is_deleted]
    return any(pod.container for pod in (*deleted, *gang.vanished))


def _may_have_begun(gang: Gang) -> bool:
    """Then it is not called off but comes up, and gives way as others do: to begin it again would be
    twice. Where its container cannot be made it has not. One that is never begun again just ends."""
    pods, note = gang.all_pods(), gang.note
    if any(pod.is_tried_again or pod.is_hopeless for pod in pods):
        return False
    return (note is not None and note.is_made) or any(pod.container for pod in pods)
