"""The world on Kubernetes: nodes of a cluster, jobs as pods."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dovetail.core.entries import Event, Pinned, Unpinned
from dovetail.core.errors import CannotGoOn
from dovetail.core.model import JobId, Node, Seconds
from dovetail.worlds.kubernetes import manifest, quotas
from dovetail.worlds.kubernetes.berths import Berths
from dovetail.worlds.kubernetes.client import FORBIDDEN, NOT_FOUND, Api, ApiError
from dovetail.worlds.kubernetes.cluster import Cluster, NodesSeen, PinSeen
from dovetail.worlds.kubernetes.inventory import machine_of
from dovetail.worlds.kubernetes.leading import Leader
from dovetail.worlds.kubernetes.objects.events import EventLog, Regarding
from dovetail.worlds.kubernetes.objects.standing import Objects
from dovetail.worlds.kubernetes.quotas import QuotaSeen
from dovetail.worlds.kubernetes.services.hosting import PodHosting
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.kubernetes.shelf import PodShelf
from dovetail.worlds.kubernetes.telling_nodes import node_events
from dovetail.worlds.kubernetes.watching import Watch
from dovetail.worlds.lives import Place, Want
from dovetail.worlds.no_power import NoPower
from dovetail.worlds.staged import Staging
from dovetail.worlds.world import Finding, Gauge, Ground, Order, UsedByJob, Wanted

_UNLIMITED: Final = 1 << 62  # what suspended jobs may hold is counted on each node

log = logging.getLogger("dovetail.kubernetes")


class KubernetesCluster:
    """Not to be used before it has joined a daemon."""

    def __init__(self, api: Api, settings: Settings, shelf: PodShelf, hosting: PodHosting) -> None:
        self._api: Final = api
        self._settings: Final = settings
        self.shelf: Final = shelf
        self.power: Final = NoPower()
        self.consoles: Final = None
        self.hosting: Final = hosting
        self._leader: Final = Leader(api, settings, self._lose)
        self._is_lost = False
        self._without_objects = ""  # why there are none
        self._ground: Ground | None = None  # before it has joined
        self._watches: Sequence[Watch] = ()
        self.declarations: Objects | None = None

    def join(self, ground: Ground) -> None:
        """The lease first; then what there is: nodes, pods, and what the agents say."""
        self._leader.acquire(self._settings.lease_s * 1.5)
        self._api.fence = self._leader.fence
        self._cluster = Cluster(self._api, self._settings, self.shelf, ground)
        self.shelf.cluster = self.hosting.cluster = self._cluster
        self._staging = Staging(self._cluster, ground, _UNLIMITED, self.power)
        self._berths = Berths(self._api, self._settings, self._cluster)
        nodes = _NodeWatch(self._cluster)
        self._watches = [
            Watch(self._api, "/api/v1/nodes", nodes),
            Watch(self._api, "/api/v1/pods", self._cluster),
            Watch(self._api, self._settings.channel_path, self._cluster.channel),
            Watch(self._api, quotas.PATH, self._cluster.quotas),
        ]
        for watch in self._watches:
            watch.list_now()
        self._watch_objects()
        self._ground = ground

    def _watch_objects(self) -> None:
        """Of the kinds that this cluster has; jobs can be submitted without."""
        objects = Objects(self._api, self._settings)
        for watch in objects.watches():
            try:
                watch.list_now()
            except ApiError as error:
                if error.code not in (NOT_FOUND, FORBIDDEN):
                    raise
                log.warning("objects of a kind are not looked for: %s", error)
                self._without_objects = str(error)
            else:
                self._watches = [*self._watches, watch]
                self.declarations = objects
        self._events = EventLog(self._api, self._regarding)
        objects.events = self._events

    def _regarding(self, job_id: JobId) -> Regarding | None:
        """What the events of a job are on: its object if it has one, else its pod."""
        found = self.declarations.of_job(job_id) if self.declarations is not None else None
        if found is not None:
            return found
        pod = self._cluster.last_pod(job_id)
        return None if pod is None else Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)

    def _lose(self) -> None:
        self._is_lost = True
        if self._ground is not None:
            self._ground.ring()

    @property
    def nodes(self) -> Sequence[Node]:
        if self._ground is not None:
            return self._cluster.nodes()
        found = self._api.get("/api/v1/nodes")["items"]
        machines = (machine_of(own, self._settings) for own in found)
        return [own.node for own in machines if own is not None]

    # ----------------------------------------------------------------------- from any thread

    @property
    def trouble(self) -> str:
        if self._ground is None:
            return ""
        if blind := next((own.trouble for own in self._watches if own.trouble), ""):
            return f"the cluster is not seen as it is: {blind}"
        stumbled = self._cluster.watcher.trouble
        return stumbled and f"the watcher of the jobs stumbles: {stumbled}"

    def why_not(self, order: Order) -> str:
        if why := manifest.why_not(order, self._settings):
            return why
        if self._ground is None:
            return "" if order.nodes < 1000 else f"it asks for {order.nodes} nodes"
        nodes = len(self._cluster.inventory.machines())
        if order.nodes > nodes:
            return f"it asks for {order.nodes} nodes, and the cluster has {nodes}"
        return ""

    def used_by(self, job_id: JobId) -> UsedByJob | None:
        """Not asked for: a cluster has monitoring of its own."""
        return None

    def has_processes(self, job_id: JobId | None = None) -> bool:
        return bool(self.shelf.live()) if job_id is None else self.shelf.launches.has(job_id)

    def gauges(self) -> Iterable[Gauge]:
        agents = sum(self._cluster.channel.has_agent(node.id) for node in self.nodes)
        return [
            Gauge("dovetail_kubernetes_nodes", "Nodes of the cluster.", [({}, len(self.nodes))]),
            Gauge("dovetail_kubernetes_agents", "Nodes with an agent.", [({}, float(agents))]),
        ]

    def users_beside(self) -> Mapping[str, list[str]]:
        return {}  # a cluster counts other pods; it does not tell processes

    def findings(self) -> Iterable[Finding]:
        server = self._api.access.server
        if self.trouble:
            return [Finding("cluster", "bad", f"{server}: {self.trouble}")]
        nodes = self.nodes
        bare = [own.id for own in nodes if not self._cluster.channel.has_agent(own.id)]
        found = [Finding("cluster", "good", f"{server}: {len(nodes)} nodes")]
        if self._without_objects:
            told = f"a kind is missing: {self._without_objects}; kubectl apply -k deploy/ brings it"
            found.append(Finding("objects", "note", told))
        if bare:
            told = f"no agent on {', '.join(bare[:5])}: jobs there can only save themselves"
            found.append(Finding("agents", "note", told))
        return found

    # ------------------------------------------------------------------------------- the loop

    def catch_up(self) -> list[Event]:
        """What is found running or suspended is adopted."""
        events = self._staging.take_up()
        self._cluster.start()
        for watch in self._watches:
            watch.start()
        self._cluster.watcher.read_now()
        return sorted(events + self._staging.past(), key=lambda event: event.at)

    def begin(self) -> list[Event]:
        assert self._ground is not None
        self._end_strays()
        self._cluster.quotas.recall(self._ground.view)
        self._berths.start()
        self._events.start()
        if self.declarations is not None:
            self.declarations.start()
        self._staging.stage.step_all()
        return self._nodes_told()

    def _end_strays(self) -> None:
        """Pods of ours that belong to no launch that anybody knows of."""
        lives = self._staging.stage.lives
        for gang in self._cluster.gangs():
            life = lives.get(gang.run.job_id)
            is_wanted = life is not None and life.run is not None and life.run.id == gang.run
            if gang.pods and not is_wanted and not (life is not None and life.run is None):
                self._cluster.want_gone(gang)

    def stop(self) -> None:
        for watch in self._watches:
            watch.stop()
        self._berths.stop()
        self._events.stop()
        if self.declarations is not None:
            self.declarations.stop()
        self._cluster.stop()
        self.shelf.launches.close()
        self._leader.release()
        self._api.close_all()

    def observe(self) -> list[Event]:
        if self._is_lost:
            raise CannotGoOn(
                "another controller holds the lease now: this one ends, its pods go on"
            )
        assert self._ground is not None
        events = self._cluster.quotas.with_holds(self._staging.observe(self))
        self._events.heed(events, self._ground.view)
        return events

    def seen(self, fact: object, at: Seconds) -> list[Event]:
        if isinstance(fact, NodesSeen):
            return self._nodes_told()
        if isinstance(fact, QuotaSeen):
            assert self._ground is not None
            return self._cluster.quotas.released(fact, self._ground.view, at)
        assert isinstance(fact, PinSeen)
        return self._pinned(fact, at)

    def _nodes_told(self) -> list[Event]:
        assert self._ground is not None
        inventory = self._cluster.inventory
        return node_events(
            self._ground.view, inventory.machines(), inventory.taken(), self._ground.clock()
        )

    def _pinned(self, seen: PinSeen, at: Seconds) -> list[Event]:
        life = self._staging.stage.lives.get(seen.job_id)
        if life is None or life.place is not Place.AT_WORK or life.want is not Want.RUN:
            return []
        was, life.pin = life.pin, seen.why
        if bool(was) == bool(seen.why):
            return []
        return [Pinned(at, seen.job_id, seen.why) if seen.why else Unpinned(at, seen.job_id)]

    def look_again_s(self) -> Seconds:
        return self._staging.look_again_s()

    def carry_out(self, wanted: Sequence[Wanted]) -> None:
        assert self._ground is not None
        self._events.heed(wanted, self._ground.view)
        self._staging.carry_out(wanted)


class _NodeWatch:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster

    def listed(self, objects: Sequence[Mapping[str, Any]], as_of: float) -> None:
        self._cluster.silent.listed(objects)
        if self._cluster.inventory.nodes_listed(objects):
            self._cluster.post(NodesSeen())

    def changed(self, thing: Mapping[str, Any], is_gone: bool) -> None:
        self._cluster.silent.changed(thing, is_gone)
        if self._cluster.inventory.node_changed(thing, is_gone):
            self._cluster.post(NodesSeen())
