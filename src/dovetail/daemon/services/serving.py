"""What users ask of services: to declare, look at, scale, pause and stop them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from dovetail.api.service_row import (
    ServiceRow,
    ServicesTold,
)
from dovetail.core.entries import Cancelled, Event
from dovetail.core.errors import BadInput, DovetailError
from dovetail.core.model import Seconds
from dovetail.core.view import View
from dovetail.daemon.asking import Change, Once, Parts
from dovetail.daemon.logs import last_line
from dovetail.daemon.refusals import Conflict, NotAllowed, NotFound
from dovetail.daemon.service import Service
from dovetail.daemon.services.gateways import GatewayLine
from dovetail.daemon.services.keeper import ServiceKeeper
from dovetail.daemon.services.network import HeldTokens, ServiceNetwork, Tokens, is_here
from dovetail.daemon.services.rows import cost_of, service_row
from dovetail.daemon.services.scene import ServiceScene, scene_of
from dovetail.daemon.settings import DaemonSettings
from dovetail.daemon.submissions import Opening, OpeningShell, Submission, check_it_could_run
from dovetail.daemon.users.callers import Caller
from dovetail.daemon.users.job_owners import patiently, rights_of
from dovetail.daemon.users.limits import PER_CHANGE
from dovetail.workloads.service.design import ServiceDesign
from dovetail.workloads.service.entries import (
    ServiceBounded,
    ServiceDeclared,
    ServiceLoaded,
    ServicePaused,
    ServiceResumed,
    ServiceStopped,
)
from dovetail.workloads.service.kind import services_of
from dovetail.workloads.service.track import ServiceTrack
from dovetail.worlds.hosting import Endpoint, Hosting
from dovetail.worlds.world import UserAccount

if TYPE_CHECKING:
    from dovetail.jobfiles.service_model import ServiceSpec


_MOST_OF_A_USER = 50  # each is a process and a thread


class Services:
    """Beside the service of the daemon, and by its means."""

    def __init__(self, parts: Parts, service: Service, settings: DaemonSettings) -> None:
        self._parts: Final = parts
        self._service: Final = service
        self._home: Final = settings.home
        self._network: Final = ServiceNetwork.as_asked(settings)
        self._tokens: HeldTokens | None = None  # as long as the API is not there
        self._keepers: Final[dict[str, ServiceKeeper]] = {}

    def _hosting(self) -> Hosting:
        hosting = self._parts.world.hosting
        if hosting is None:
            raise BadInput("services cannot run in this world: it has no addresses for them")
        return hosting

    def ask_for_tokens(self, held: HeldTokens) -> None:
        """By which others ask, over the network."""
        self._tokens = held

    def _held_tokens(self) -> Tokens | None:
        return None if self._tokens is None else self._tokens()

    def recall(self, view: View, now: Seconds) -> None:
        """Take up those that an earlier daemon left."""
        if self._parts.world.hosting is not None:
            self._parts.world.hosting.end_all_but(services_of(view).open)
        for service_id in services_of(view).open:
            scene = scene_of(view, now, service_id)
            if scene is not None:
                self._recall(scene)

    def _recall(self, scene: ServiceScene) -> None:
        """One that another version took and this one refuses keeps nobody's daemon from starting."""
        try:
            self._look_after(scene)
        except (DovetailError, ValueError) as error:
            name = scene.design.name
            self._parts.notices.add(f"service {name!r} cannot be looked after: {error}; stop it")

    def stop_keeping(self, view: View, now: Seconds) -> list[Event]:
        """The daemon ends: gateways and replicas go on. What the journal is to know of their load."""
        kept = [own for name, own in self._keepers.items() if name in services_of(view).open]
        for keeper in self._keepers.values():
            keeper.stop()
        loads = [(keeper.id, keeper.load.untold()) for keeper in kept]
        return [ServiceLoaded(now, name, load) for name, load in loads if load]

    # ------------------------------------------------------------------------------------ declaring

    def declare(self, declaring: Opening, caller: Caller) -> ServiceRow:
        scene = self._service.change(self._declared(declaring, caller))
        self._look_after(scene)
        self._keepers[scene.design.id].wait_for_address()
        return self.one(scene.design.id, caller)

    def declare_once(self, declaring: Opening, caller: Caller, once: Once) -> list[str]:
        """Its id alone; nobody waits for its address."""
        declared = self._declared(declaring, caller)

        def change(view: View, now: Seconds) -> tuple[Sequence[Event], list[str]]:
            events, scene = declared(view, now)
            return events, [scene.design.id]

        (service_id,) = self._service.change(self._service.once(change, once))
        scene = self._service.look(lambda view, now: scene_of(view, now, service_id))
        if scene is not None and service_id not in self._keepers:
            self._look_after(scene)
        return [service_id]

    def owner_of(self, service_id: str) -> str:
        """The user; "" if there is no such service."""
        open_ = self._service.look(lambda view, now: services_of(view).open.get(service_id))
        return open_.design.user if open_ is not None else ""

    def _declared(self, declaring: Opening, caller: Caller) -> Change[ServiceScene]:
        # Imported with the first service: most daemons never see one.
        from dovetail.daemon.services import making
        from dovetail.jobfiles.service_model import read_service

        spec = read_service(declaring.spec)
        self._service.check_folder(declaring.workdir, spec.workdir, caller)
        tenant = self._service.look(
            lambda view, now: self._parts.limits.tenant_for(caller, spec.tenant, view)
        )
        hosting = self._hosting()
        listen = self._port_asked(spec)
        if why := hosting.why_not(spec.name, tenant, listen, spec.port, spec.replicas.max):
            raise Conflict(why)
        port = hosting.address_port(listen)

        def change(view: View, now: Seconds) -> tuple[list[Event], ServiceScene]:
            own = [other.design for other in services_of(view).open.values()]
            if (spec.name, caller.name, tenant) in [(o.name, o.user, o.tenant) for o in own]:
                raise Conflict(f"a service called {spec.name!r} is there already; stop it first")
            self._check_number(caller, view)
            self._check_priority(spec, caller, view)
            number = int(self._parts.store.meta("next_service") or "1")
            design = making.design_of(spec, f"v{number}", caller, port, tenant)
            self._check_could_run(spec, design, caller, view, now)
            self._charge(making.size_of(design, declaring), caller, view, now)
            self._parts.book.keep_shell(design.id, declaring.shell(spec.envs, caller))
            self._parts.store.set_meta("next_service", str(number + 1))
            return [ServiceDeclared(now, design)], _first_scene(ServiceTrack(design, now))

        return change

    def _check_could_run(
        self, spec: ServiceSpec, design: ServiceDesign, caller: Caller, view: View, now: Seconds
    ) -> None:
        """Its replicas, and those of its variants."""
        from dovetail.daemon.services import making
        from dovetail.daemon.services.variants import live_variants
        from dovetail.jobfiles.service_model import ways_of

        names = [way.name for way in ways_of(spec)] if spec.variants else [""]
        for name in names:
            nowhere, clock = Endpoint("", 1), self._parts.clock
            member = making.member_of(spec, design, 0, name, "0", nowhere, now, clock)
            (job,) = self._parts.limits.checked([member.job], caller, view)
            check_it_could_run(job, view, self._service.why_not(caller, member))
        if spec.variants:
            live_variants(spec, view, self._service.chosen.costs)

    def _port_asked(self, spec: ServiceSpec) -> int | None:
        """Of the service's address, if it may be open as its user wants it."""
        from dovetail.jobfiles.service_model import place_of

        if spec.listen is None:
            return None
        host, port = place_of(spec.listen)
        if not (is_here(host) or self._parts.world.shelf.is_of_this_machine):
            raise BadInput(
                f"listen: {spec.listen}: here a service has an address of the cluster; write "
                f"listen: {port}, or nothing"
            )
        self._network.check(host, port)
        return port

    def _address(self, design: ServiceDesign) -> str:
        """As clients write it."""
        if is_here(design.host):
            return self._hosting().address(design.name, design.tenant, design.port)
        return self._network.address(design)

    def _charge(self, size: float, caller: Caller, view: View, now: Seconds) -> None:
        if self._parts.limits.shared:
            self._service.intake.charge(caller.name, size, view, now)

    def _check_number(self, caller: Caller, view: View) -> None:
        own = [own for own in services_of(view).open.values() if own.design.user == caller.name]
        if len(own) >= _MOST_OF_A_USER:
            raise NotAllowed(
                f"{caller.name} has {len(own)} services, the most one may have: stop one first"
            )

    def _check_priority(self, spec: ServiceSpec, caller: Caller, view: View) -> None:
        if not self._parts.limits.shared:
            return
        try:
            self._parts.limits.check_priority(spec.priority, caller, view)
        except NotAllowed as error:
            if "priority" in spec.model_fields_set:
                raise
            raise NotAllowed(
                f"{error}. Replicas have priority {spec.priority:g} unless the file says otherwise; "
                "with priority: 0 they take what is free, and no job gives way to them"
            ) from None

    def _look_after(self, scene: ServiceScene) -> None:
        from dovetail.daemon.services import making

        design = scene.design
        shell = self._parts.book.shell(design.id)
        if shell is None:
            self._parts.notices.add(
                f"service {design.name!r}: the shell it was declared in is lost"
            )
            return
        spec = making.spec_of(design, shell)
        hosting = self._hosting()
        network = self._network.gateway(design, self._held_tokens)
        order = making.gateway_of(design, spec, network, partial(self._account, scene, shell))
        keeper = ServiceKeeper(
            scene,
            spec,
            self._service,
            hosting,
            GatewayLine(hosting.door(order)),
            shell.uid,
            partial(self._submitted, design.id, spec, shell),
            self._last_words,
            network,
        )
        self._keepers[design.id] = keeper
        keeper.start()

    def _last_words(self, job_id: str) -> str:
        """The last line that a replica has printed."""
        with suppress(OSError, DovetailError):
            return last_line(self._parts.world.shelf.log(job_id))
        return ""

    def _account(self, scene: ServiceScene, shell: OpeningShell) -> UserAccount | None:
        me, shared = os.geteuid(), self._home.system
        design = scene.design
        return patiently(
            lambda: rights_of(shell, design.id, design.user, daemon_uid=me, shared=shared)
        )

    def _submitted(
        self,
        service_id: str,
        spec: ServiceSpec,
        shell: OpeningShell,
        number: int,
        variant: str,
        view: View,
        now: Seconds,
    ) -> Sequence[Event]:
        """One more replica, its folder and environment made."""
        from dovetail.daemon.services import making

        design = services_of(view).open[service_id].design
        caller = Caller(shell.uid, design.user, False, tuple(shell.groups))
        job_number = self._service.next_number()
        hosting = self._hosting()
        port = hosting.replica_port(spec.port, making.ports_of_replicas(view))
        listens = Endpoint(hosting.replica_host, port)
        clock = self._parts.clock
        job_id = str(job_number)
        member = making.member_of(spec, design, number, variant, job_id, listens, now, clock)
        submission = Submission(member.spec, shell.environment, shell.workdir, shell.umask)
        events = list(self._service.take_on([member], submission, caller, view, now))
        self._parts.store.set_meta("next_job", str(job_number + 1))
        return events

    # -------------------------------------------------------------------------------------- looking

    def all(self, caller: Caller) -> ServicesTold:
        def look(view: View, now: Seconds) -> list[ServiceScene]:
            found = [scene_of(view, now, service_id) for service_id in services_of(view).open]
            return [scene for scene in found if scene is not None]

        return ServicesTold(services=[self._row(own, caller) for own in self._service.look(look)])

    def one(self, name: str, caller: Caller) -> ServiceRow:
        def look(view: View, now: Seconds) -> ServiceScene | None:
            return scene_of(view, now, self._found(name, caller, view).id)

        scene = self._service.look(look)
        assert scene is not None
        return self._row(scene, caller)

    def _row(self, scene: ServiceScene, caller: Caller) -> ServiceRow:
        keeper = self._keepers.get(scene.design.id)
        design, cost = scene.design, cost_of(scene, keeper, self._service.chosen.costs)
        address = self._address(design)
        row = service_row(scene, keeper, cost, address)
        if caller.may_read(scene.design.user):
            return row
        return replace(row, why="", trouble="")

    # ------------------------------------------------------------------------------------- changing

    def scale(self, name: str, least: int, most: int, caller: Caller) -> ServiceRow:
        def change(view: View, now: Seconds) -> tuple[list[Event], str]:
            service = self._owned(name, caller, view, "scale")
            self._charge(PER_CHANGE, caller, view, now)
            return [ServiceBounded(now, service.id, least, most)], service.id

        return self.one(self._service.change(change), caller)

    def pause(self, name: str, caller: Caller) -> ServiceRow:
        def change(view: View, now: Seconds) -> tuple[list[Event], str]:
            service = self._owned(name, caller, view, "pause")
            self._charge(PER_CHANGE, caller, view, now)
            return [] if service.is_paused else [ServicePaused(now, service.id)], service.id

        return self._paused(self._service.change(change), True, caller)

    def resume(self, name: str, caller: Caller) -> ServiceRow:
        def change(view: View, now: Seconds) -> tuple[list[Event], str]:
            service = self._owned(name, caller, view, "resume")
            self._charge(PER_CHANGE, caller, view, now)
            return [ServiceResumed(now, service.id)] if service.is_paused else [], service.id

        return self._paused(self._service.change(change), False, caller)

    def _paused(self, service_id: str, is_paused: bool, caller: Caller) -> ServiceRow:
        if service_id in self._keepers:
            self._keepers[service_id].wait_for_pause(is_paused)
        return self.one(service_id, caller)

    def stop(self, name: str, caller: Caller) -> ServiceRow:
        """For good: its replicas end, its address is given up."""
        row = self.one(name, caller)

        def change(view: View, now: Seconds) -> tuple[list[Event], str]:
            service = self._owned(name, caller, view, "stop")
            why = f"stopped by {caller.name}"
            jobs = [own.job for own in service.replicas.values() if own.job in view.tracks]
            events: list[Event] = [Cancelled(now, job, why) for job in jobs]
            self._parts.book.forget_environment(service.id)
            return [*events, ServiceStopped(now, service.id, why)], service.id

        keeper = self._keepers.pop(self._service.change(change), None)
        if keeper is not None:
            keeper.wait_for_end()
        return row

    def _found(self, name: str, caller: Caller, view: View) -> ServiceTrack:
        found = _called(name, caller, view)
        if found is None:
            raise NotFound(f"there is no service {name!r}; `dovetail services` lists them")
        return found

    def _owned(self, name: str, caller: Caller, view: View, verb: str) -> ServiceTrack:
        service = self._found(name, caller, view)
        owner = service.design.user
        if not caller.may_read(owner):
            raise NotAllowed(
                f"service {name!r} is {owner}'s: only {owner} or an administrator may {verb} it"
            )
        return service


def _called(name: str, caller: Caller, view: View) -> ServiceTrack | None:
    """By its id or name; of several of that name the caller's own first."""
    known = services_of(view).open
    if name in known:
        return known[name]
    found = [service for service in known.values() if service.design.name == name]
    own = [service.id for service in found if service.design.user == caller.name]
    if len(own) > 1:
        raise Conflict(f"{len(own)} services are called {name!r}: say which, {' or '.join(own)}")
    return min(found, key=lambda service: service.design.user != caller.name, default=None)


def _first_scene(track: ServiceTrack) -> ServiceScene:
    return ServiceScene(
        *(track.design, track.least, track.most, track.wanted, track.reason, False),
        *(0, 0.0, "", 0, ()),
    )
