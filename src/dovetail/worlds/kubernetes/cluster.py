"""A cluster as an agent: it does work on launches, and tells facts. See `worlds.agent.Agent`.

The watches say what there is; few workers go on with the flows that have something new.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from dovetail.core.model import JobId, Node, Placement
from dovetail.worlds.agent import Done, Errand, FactLog, Run, RunId, Tells, Work
from dovetail.worlds.kubernetes import channel as orders
from dovetail.worlds.kubernetes.channel import Channel
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.copying import Copier
from dovetail.worlds.kubernetes.flows import Flows
from dovetail.worlds.kubernetes.gangs import Gang, PodRun, noting_ends
from dovetail.worlds.kubernetes.inventory import ClusterInventory
from dovetail.worlds.kubernetes.logs import LogMirror
from dovetail.worlds.kubernetes.manners import Manners
from dovetail.worlds.kubernetes.missions import Missions
from dovetail.worlds.kubernetes.pods import Pod, pod_of
from dovetail.worlds.kubernetes.quotas import Quotas
from dovetail.worlds.kubernetes.roster import Roster
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.kubernetes.shelf import PodShelf
from dovetail.worlds.kubernetes.silent_nodes import SilentNodes
from dovetail.worlds.kubernetes.tasks import Flow, Tasks
from dovetail.worlds.local.folders import LogFile
from dovetail.worlds.local.watching.watcher import Watcher
from dovetail.worlds.world import Ground, Order

_WORKERS: Final = 8  # more would wait for each other: an API server answers within milliseconds
_LAG_S: Final = 5.0  # reports come through the agent and an object, logs straight from the kubelet
log = logging.getLogger("dovetail.kubernetes")


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """There is something new about nodes, or about what others have taken of them."""


@dataclass(frozen=True, slots=True)
class PinSeen:
    """Why a job could not give way now; "" if it could."""

    job_id: JobId
    why: str


class Cluster:
    """`ground` is asked on the loop's own thread only."""

    def __init__(self, api: Api, settings: Settings, folders: PodShelf, ground: Ground) -> None:
        self._settings: Final = settings
        self.folders: Final = folders
        self._copier: Final = Copier(api.access, settings)
        self._ground: Final = ground
        self._log: Final = FactLog(ground.ring)
        self.post: Final = self._log.post
        self.facts: Final = self._log.after
        self._workers: Final = ThreadPoolExecutor(_WORKERS, "pods")
        self.inventory: Final = ClusterInventory(settings)
        self._roster: Final = Roster(folders, self._is_at_work)
        node_of = self._roster.node_of
        self.channel: Final = Channel(api, settings, self._workers, self._heard, node_of)
        self._manners: Final = Manners(settings, self.channel)
        self._missions: Final = Missions(
            *(settings, ground, folders, self.inventory, self.channel, self._manners)
        )
        self.logs: Final = LogMirror(api, lambda job_id: folders.log(job_id).path)
        self.quotas: Final = Quotas(self.post)
        refused = self.quotas.refused
        self.silent: Final = SilentNodes()
        what = (api, settings, self.channel, self.logs, folders, refused, self.silent.silent_s)
        self._flows: Final = Flows(*what)
        self.watcher: Final = Watcher(noting_ends(self.post), lambda: None, reports_lag_s=_LAG_S)
        self._lock: Final = threading.RLock()
        self._errands: Final = Tasks(self._workers, self._done)
        self._closings: Final = Tasks(self._workers, self._closed)
        self._called_off: set[RunId] = set()
        self._of_ended: set[RunId] = set()  # launches of jobs that are over
        self._orders: dict[RunId, Order] = {}  # of those that are watched
        self._pins: dict[RunId, str] = {}
        self._over: Final = threading.Event()

    def start(self) -> None:
        for tasks, also in ((self._errands, self._now_and_then), (self._closings, _nothing)):
            name = "pods' clock"
            threading.Thread(target=tasks.keep_time, args=(also,), name=name, daemon=True).start()
        self.watcher.start()

    def stop(self) -> None:
        self._over.set()
        self._errands.stop()
        self._closings.stop()
        self.logs.stop()
        self.watcher.stop()
        self._workers.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------------------------ as an agent

    def nodes(self) -> Sequence[Node]:
        return [own.node for own in self.inventory.machines().values()]

    def log(self, job_id: str) -> LogFile:
        return self.folders.log(job_id)

    def run(self, run: RunId) -> PodRun:
        gang = self._roster.gang(run)
        is_frozen = any(self.channel.answer(pod.uid).is_suspended for pod in gang.all_pods())
        return PodRun(gang, is_frozen)

    def watch(self, run: Run, tells: Tells, upto: int, step: float) -> None:
        gang = self._roster.gang(run.id)
        self._orders[run.id] = self._ground.order_for(run.id.job_id)
        if tells.log is not None:
            self.logs.want(gang, always=True)
        self.watcher.watch(run.id.job_id, run, tells, upto, step)
        self._look(gang)

    def gpus_of(self, placement: Placement) -> tuple[str, ...]:
        return self._missions.gpus_of(placement)

    def kill(self, run: RunId) -> None:
        """Not waited for: its pods are gone before anything else starts on their seats."""
        self.want_gone(self._roster.gang(run))

    def clean_up_after(self, run: RunId) -> None:
        """A pod that is gone has left nothing behind."""

    def want(self, errand: Errand) -> None:
        gang = self._roster.gang(errand.run)
        if self._errands.work(errand.run) is errand.work:
            return
        with self._lock:
            self._called_off.discard(errand.run)
            self._note_if_over(errand.run)
        self._errands.begin(errand.run, self._flow(gang, errand), errand.work)

    def call_off(self, run: RunId) -> None:
        with self._lock:
            self._note_if_over(run)
            if self._errands.work(run) is Work.BRING_UP:
                self._called_off.add(run)
        self._errands.poke(run)

    def _note_if_over(self, run: RunId) -> None:
        if run.job_id not in self._ground.view.tracks:
            self._of_ended.add(run)

    def _flow(self, gang: Gang, errand: Errand) -> Flow:
        off, ended = self._called_off, self._of_ended
        is_so = (lambda: errand.run in off, lambda: errand.run in ended)
        mission = self._missions.of(errand, gang, *is_so)
        if errand.work is Work.BRING_UP:
            if gang.note is None:  # those of all that start at once, before the first of them waits
                self._flows.noted(mission)
            return self._flows.bring_up(mission)
        if errand.work is Work.GIVE_WAY:
            return self._flows.give_way(mission)
        if errand.work is Work.MOVE:
            return self._flows.save_itself(mission)
        return self._flows.end(mission)

    # --------------------------------------------------------------------------------- launches

    def gangs(self) -> list[Gang]:
        return self._roster.all()

    def berths_used(self) -> dict[str, int]:
        """By node: the GPUs of all pods that are there, or about to be, suspended ones too."""
        used: dict[str, int] = {}
        for gang in self.gangs():
            note = gang.note
            if note is not None and not gang.is_closed:
                for node, mask in zip(note.nodes, note.masks, strict=True):
                    used[node] = used.get(node, 0) + mask.bit_count()
        return used

    def _is_at_work(self, run: RunId) -> bool:
        return run in self._closings or run in self._errands

    def drop(self, job_id: JobId) -> None:
        for gang in self._roster.drop(job_id):
            self._forget(gang)

    def _forget(self, gang: Gang) -> None:
        """Once nobody is at work on it."""
        if self._roster.forget(gang):
            with self._lock:
                self._orders.pop(gang.run, None)
                self._pins.pop(gang.run, None)
                self._of_ended.discard(gang.run)
            self.logs.forget(gang.run.job_id)

    def want_gone(self, gang: Gang) -> None:
        """Whatever is there of it."""
        with self._lock:
            if gang.run not in self._closings:
                self._closings.begin(gang.run, self._closing(gang), None)

    def _closing(self, gang: Gang) -> Flow:
        yield from self._flows.close(gang)
        return None

    # ------------------------------------------------------------------------------ for the shelf

    def look_at_log(self, job_id: str) -> None:
        gang = self._roster.last(job_id)
        if gang is not None and not gang.is_closed:
            self.logs.want(gang)

    def copy_saved(self, sources: Sequence[JobId], name: str) -> bool:
        node = self._any_node()
        return bool(node) and self._copier.copy(self._namespace(sources[0]), node, sources, name)

    def drop_saved(self, name: str) -> None:
        node = self._any_node()
        if node and not self._over.is_set():
            self._workers.submit(self._copier.drop, self._settings.namespace, node, name)

    def _any_node(self) -> str:
        found = self.inventory.machines().items()
        return next((name for name, own in found if own.is_open), "")

    def _namespace(self, job_id: str) -> str:
        gang = self._roster.last(job_id)
        is_known = gang is not None and gang.note is not None
        return gang.note.namespace if is_known else self._settings.namespace  # type: ignore[union-attr]

    def last_pod(self, job_id: str) -> Pod | None:
        """The first pod of its last launch."""
        gang = self._roster.last(job_id)
        return None if gang is None else next(iter(gang.all_pods()), None)

    # ---------------------------------------------------------------------------- what is seen

    def listed(self, objects: Sequence[Mapping[str, Any]], as_of: float) -> None:
        """Of pods."""
        found = [(thing, pod_of(thing, self._settings)) for thing in objects]
        ours = [pod for _, pod in found if pod is not None and self._roster.owns(pod)]
        uids = {pod.uid for pod in ours}
        if self.inventory.pods_listed(
            [own for own, pod in found if pod is None or pod.uid not in uids]
        ):
            self.post(NodesSeen())
        for _, pod in found:
            if pod is not None:
                self._look(self._roster.see(pod, is_gone=False))
                self._end_stray(pod)
        for gang in self.gangs():
            if gang.keep_only(uids, as_of):
                self._look(gang)

    def changed(self, thing: Mapping[str, Any], is_gone: bool) -> None:
        pod = pod_of(thing, self._settings)
        if is_gone and pod is not None and self._roster.known(pod.run) is None:
            pod = None  # all of it was seen to
        is_ours = pod is not None and self._roster.owns(pod)
        if self.inventory.pod_changed(thing, is_gone or is_ours):
            self.post(NodesSeen())
        if pod is not None and is_ours:
            self._look(self._roster.see(pod, is_gone))
        if pod is not None and not is_gone:
            self._end_stray(pod)

    def _end_stray(self, pod: Pod) -> None:
        if pod.is_deleted or not self._roster.noted(pod).is_stray(pod):
            return
        key = RunId(JobId(pod.uid), 0)  # no launch has such a name
        with self._lock:
            if not self._is_at_work(pod.run) and key not in self._closings:
                self._closings.begin(key, self._flows.delete_stray(pod), None)

    def _heard(self, uid: str) -> None:
        """An agent has said something of a pod."""
        gang = self._roster.of_pod(uid)
        if gang is None:
            return
        answer = self.channel.answer(uid)
        first = gang.pods.get(0)
        if first is not None and first.uid == uid:
            self._flows.take_reports(gang, uid, answer)
            self.watcher.look_at(gang.run.job_id)
        self._look(gang)

    def _look(self, gang: Gang) -> None:
        """Something is new about it: whoever waits for that goes on."""
        for pod in gang.all_pods():
            if pod.container and not pod.is_over and self.channel.has_agent(pod.node):
                self._flows.register(gang, pod)
        self._look_at_taking(gang)
        # One that its kubelet has not let in never began: who brings it up sees to that.
        is_refused = any(pod.was_not_admitted for pod in gang.all_pods())
        is_coming = is_refused and self._errands.work(gang.run) is Work.BRING_UP
        made = gang.note is not None and gang.note.is_made and not is_coming
        if made and not gang.is_closed and (gang.verdict() is not None or gang.is_lost):
            self.want_gone(gang)
        self._look_at_pin(gang)
        self._errands.poke(gang.run)
        self._closings.poke(gang.run)

    def _look_at_taking(self, gang: Gang) -> None:
        """Somebody else ends its pods: who is suspended must hear that, and who saves itself has been
        asked to."""
        if not gang.taken_away or gang.is_closed:
            return
        pods = gang.all_pods()
        for pod in pods:
            told = self.channel.order_of(pod.uid)
            key = RunId(JobId(pod.uid), 1)  # no launch has such a name
            is_parked = told is not None and told.want == orders.SUSPEND
            if pod.is_deleted and is_parked and key not in self._closings:
                self._closings.begin(key, self._flows.wake(pod), None)
        order = self._orders.get(gang.run)
        if order is not None and not gang.stop_asked and self._manners.saves_itself(order, pods):
            gang.ask_to_stop()

    def _look_at_pin(self, gang: Gang) -> None:
        order = self._orders.get(gang.run)
        if order is None or not gang.is_running or gang.is_closed:
            return
        why = self._manners.obstacle(order, gang.all_pods())
        with self._lock:
            if self._pins.get(gang.run, "") == why:
                return
            self._pins[gang.run] = why
        self.post(PinSeen(gang.run.job_id, why))

    # -------------------------------------------------------------------------- what came of it

    def _done(self, run: RunId, done: Done | None) -> None:
        with self._lock:
            self._called_off.discard(run)
        assert done is not None
        self.post(done)

    def _closed(self, run: RunId, done: Done | None) -> None:
        gang = self._roster.known(run)
        if gang is not None:
            self._look(gang)
            self._forget(gang)

    def _now_and_then(self) -> None:
        self.channel.write_again()
        self.logs.leave_idle()
        self.quotas.look()


def _nothing() -> None:
    return None
