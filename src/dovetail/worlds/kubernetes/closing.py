"""The end of a launch, whoever has ended it; and what all work on pods has in common.

What the pods have printed and reported is kept, then how they ended, and only then are they removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from time import monotonic
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.core.model import JobId
from dovetail.worlds.kubernetes import channel as orders
from dovetail.worlds.kubernetes.channel import Answer, Channel, PodOrder
from dovetail.worlds.kubernetes.client import CONFLICT, NOT_FOUND, Api, ApiError, Unreachable
from dovetail.worlds.kubernetes.gangs import Gang
from dovetail.worlds.kubernetes.logs import LogMirror
from dovetail.worlds.kubernetes.pods import Pod
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.local.folders import Folders

LOOK_S: Final = 1.0
TRY_AGAIN_S: Final = 1.0
_ANSWER_WITHIN_S: Final = 120.0  # of an agent: to suspend 32 GB takes 18 s
_TOLD_SOON_S: Final = 0.25
_LOG_TRIES: Final = 3
_AGENT_WAKES_WITHIN_S: Final = 5.0
_HEARD_SOON_S, _HEARD_WITHIN_S = 0.05, 2.0
_REPORTS_WITHIN_S: Final = 3.0
_MOST_REPORT_BYTES: Final = 64 * 1024 * 1024  # of one launch, as of a log

log = logging.getLogger("dovetail.kubernetes")

Steps = Generator[float, None, None]


def _blank(length: int) -> bytes:
    return b" " * (length - 1) + b"\n" if length > 0 else b""


class GangClosing:
    """Everything that all of them need."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        channel: Channel,
        logs: LogMirror,
        folders: Folders,
        over_quota: Callable[[JobId, str, str], None],
        silent_s: Callable[[str], float],
    ) -> None:
        self._api: Final = api
        self._settings: Final = settings
        self._channel: Final = channel
        self._logs: Final = logs
        self._folders: Final = folders
        self._over_quota: Final = over_quota
        self._silent_s: Final = silent_s

    def _delete(self, pod: Pod, grace_s: int) -> Steps:
        """Until somebody has taken note of it."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        while True:
            try:
                self._api.delete(path, grace_s, pod.uid)
                return
            except ApiError as error:
                if error.code in (NOT_FOUND, CONFLICT):  # gone, or another of that name
                    return
                trouble: DovetailError = error
            except Unreachable as error:
                trouble = error
            log.warning("pod %s cannot be deleted for now: %s", pod.name, trouble)
            yield monotonic() + TRY_AGAIN_S

    def close(self, gang: Gang) -> Steps:
        """The run, or one of its pods, has ended. In this order: its other pods end, what it
        printed and reported is kept, its result is kept, and at last its pods are removed."""
        gang.is_ending = True
        if not gang.is_over:
            yield from self._listen(gang)
        for pod in gang.all_pods():
            if not pod.is_over:
                yield from self._delete(pod, self._grace_s(pod))
        while not gang.is_over or any(map(self._still_runs, self._ended_unseen(gang))):
            yield monotonic() + LOOK_S
        pods = gang.all_pods()
        yield from self._last_words(gang, pods)
        verdict = gang.told_ending()
        if verdict is not None and not gang.is_moving:
            gang.keep_ending(verdict)
        for pod in (*pods, *gang.vanished):
            self._channel.drop(pod.uid)
        if not gang.is_moving:
            gang.ring_out()
        for pod in pods:
            yield from self._delete(pod, 0)
        if gang.is_moving:
            gang.leave()

    def _listen(self, gang: Gang) -> Steps:
        """Before its pods are deleted: a container that a kubelet removes takes what it printed along,
        so that is read as it comes, its last words too."""
        self._logs.want(gang, always=True)
        until = monotonic() + _HEARD_WITHIN_S
        while not self._logs.hears(gang) and monotonic() < until:
            yield monotonic() + _HEARD_SOON_S

    def _ended_unseen(self, gang: Gang) -> list[Pod]:
        """Pods that nobody saw end: gone, or evicted, which a kubelet says before it has killed them."""
        pods = [pod for pod in gang.all_pods() if pod.is_over and not pod.container]
        evicted = [pod for pod in pods if self._channel.order_of(pod.uid) is not None]
        return [*gang.vanished, *evicted]

    def _still_runs(self, pod: Pod) -> bool:
        """One that was deleted by force is gone from the API server before its processes are."""
        return self._can_be_told(pod) and self._channel.answer(pod.uid).state != "ended"

    def wake(self, pod: Pod) -> Steps:
        """Its agent lets a suspended pod hear that it is to end. One that was suspended while it heard
        that is woken from here."""
        yield monotonic() + _AGENT_WAKES_WITHIN_S
        if self._channel.answer(pod.uid).is_suspended:
            self._channel.want(pod.uid, orders.RUN)

    def delete_stray(self, pod: Pod) -> Steps:
        if not pod.is_over:
            log.warning("pod %s is not wanted by anybody, and is deleted", pod.name)
        yield from self._delete(pod, 0 if pod.is_over else self._grace_s(pod))

    def _grace_s(self, pod: Pod) -> int:
        order = self._channel.order_of(pod.uid)
        return max(round(order.grace_s), 1) if order is not None else 5

    def _last_words(self, gang: Gang, pods: Sequence[Pod]) -> Steps:
        first = next((pod for pod in pods if pod.rank == 0 and pod.container), None)
        for _ in range(_LOG_TRIES if first is not None else 0):
            assert first is not None
            try:
                self._logs.copy(gang, first)
                break
            except DovetailError as error:
                log.warning("the last output of %s cannot be read: %s", first.name, error)
            yield monotonic() + TRY_AGAIN_S
        until = monotonic() + _REPORTS_WITHIN_S
        while any(self._has_more_to_say(pod) for pod in pods) and monotonic() < until:
            yield min(until, monotonic() + LOOK_S)

    def _has_more_to_say(self, pod: Pod) -> bool:
        if not self._can_be_told(pod) or not pod.container:
            return False
        answer = self._channel.answer(pod.uid)
        return answer.state != "ended" or bool(answer.reports.get("text"))

    def _has_ended(self, gang: Gang) -> bool:
        """By itself: an agent sees that before its kubelet tells."""
        answers = (self._channel.answer(pod.uid) for pod in gang.all_pods())
        return gang.is_closed or any(own.state == "ended" for own in answers)

    @staticmethod
    def _wait_until_told(gang: Gang) -> Steps:
        """What it reported and how it ended comes first: who was to give way is over then."""
        until = monotonic() + _ANSWER_WITHIN_S
        while not gang.is_told and monotonic() < until:
            yield monotonic() + _TOLD_SOON_S

    # ------------------------------------------------------------------------------ the agent

    def register(self, gang: Gang, pod: Pod) -> None:
        """From the moment it has a container the agent of its node knows of it."""
        note = gang.note
        if self._channel.order_of(pod.uid) is not None or note is None:
            return
        mask = note.masks[pod.rank]
        gpus = tuple(uuid for i, uuid in enumerate(self._channel.uuids(pod.node)) if mask >> i & 1)
        taken = self._folders.reports(pod.run.job_id).stat().st_size - note.reports_from
        self._channel.put(
            pod.node,
            PodOrder(
                *(pod.uid, pod.name, pod.namespace, pod.run.job_id, pod.container, gpus),
                order=max(self._channel.answer(pod.uid).order, 0),
                want=orders.SUSPEND if self._channel.answer(pod.uid).is_suspended else orders.RUN,
                grace_s=note.grace_s,
                reports_upto=max(taken, 0) if pod.rank == 0 else 0,
            ),
        )

    def take_reports(self, gang: Gang, uid: str, answer: Answer) -> None:
        """Of the first pod. What was sent twice is taken once; what was left out is blank here, so
        that places stay as the agent counts them. Our disk is everybody's: what goes beyond a limit
        stays where it is."""
        if gang.note is None:
            return
        text = str(answer.reports.get("text") or "").encode()
        start = int(answer.reports.get("from") or 0)
        end = max(int(answer.reports.get("to") or 0), start + len(text))
        if end <= start or not 0 <= start <= end <= _MOST_REPORT_BYTES:
            return
        with gang.lock, open(self._folders.reports(gang.run.job_id), "ab") as file:
            known = file.tell() - gang.note.reports_from
            file.write(_blank(start - known))
            file.write(text[max(known - start, 0) :])
            file.write(_blank(end - max(start + len(text), known)))
        self._channel.took(uid, max(end, known))

    # ------------------------------------------------------------------------- asking the agents

    def _can_be_told(self, pod: Pod) -> bool:
        return self._channel.has_agent(pod.node) and self._channel.order_of(pod.uid) is not None

    def _have(
        self, pods: Sequence[Pod], want: str, room_bytes: int
    ) -> Generator[float, None, Sequence[Answer]]:
        """Give an order for each, and wait for the answers. Empty: they did not come in time."""
        until = monotonic() + _ANSWER_WITHIN_S
        numbers = {pod.uid: self._channel.want(pod.uid, want, room_bytes) for pod in pods}
        while True:
            answers = {uid: self._channel.answer(uid) for uid in numbers}
            if all(answers[uid].order >= number for uid, number in numbers.items()):
                return list(answers.values())
            if any(answers[uid].state == "ended" for uid in numbers) or monotonic() > until:
                return ()
            yield min(until, monotonic() + LOOK_S)
