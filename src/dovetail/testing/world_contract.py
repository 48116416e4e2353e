"""The contract of worlds, whoever wrote them: subclass one of these and let pytest run it.

`WorldContract` is for whatever tells events and carries out actions, the simulated world too.
`LiveWorldContract` is for a world behind the daemon's seam (`worlds.world`): say how it is made.
Each world here is one node with `gpus` GPUs (or slots): one, but where a job goes on with more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from time import monotonic, sleep
from typing import Final

from dovetail.core.entries import (
    Action,
    Cancelled,
    Entry,
    Event,
    Failed,
    Finished,
    JournalEntry,
    NodeJoined,
    Preempt,
    Resize,
    Start,
    Started,
    Stayed,
    Stop,
    Submitted,
)
from dovetail.core.journal import Journal
from dovetail.core.loop import Backend, Policy, run
from dovetail.core.model import Job, JobId, Seconds
from dovetail.core.state import State
from dovetail.core.view import View
from dovetail.daemon.desk import Desk
from dovetail.daemon.services.asked import asked
from dovetail.daemon.services.gateways import GatewayLine
from dovetail.testing.audit import Audit
from dovetail.testing.contract_policies import (
    FIRST,
    SECOND,
    DecidedAfter,
    GrowsAfter,
    InTurn,
    Leave,
    OnceItRuns,
    RefuseAll,
)
from dovetail.worlds.gateway_settings import GatewayBounds
from dovetail.worlds.hosting import Endpoint, GatewayOrder, Hosting
from dovetail.worlds.world import Ground, Order, World

_STEP_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class ContractJob:
    """A job of the contract: it works for so long, then ends well or fails, or is cancelled before."""

    job: Job
    work_s: Seconds = 0.4
    fails: bool = False
    cancelled_after_s: Seconds | None = None


def task(job_id: JobId = FIRST, **fields: object) -> ContractJob:
    return replace(ContractJob(Job(job_id, user="ann", name=f"task-{job_id}")), **fields)  # type: ignore[arg-type]


class _UntilAllEnded:
    """Stops the world when its last job has ended. A job need not begin."""

    def __init__(
        self, backend: Backend, state: State, stop: Callable[[], None], came: bool = False
    ) -> None:
        self._backend: Final = backend
        self._state: Final = state
        self._stop: Final = stop
        self._came = came

    def observe(self) -> Sequence[Event]:
        if self._came and not self._state.tracks:
            self._stop()
        events = self._backend.observe()
        self._came = self._came or any(isinstance(event, Submitted) for event in events)
        return events

    def act(self, action: Action) -> None:
        self._backend.act(action)


class WorldContract:
    """Says of a world what the core relies on. `begin` is yours."""

    gpus: int = 1

    def begin(self, state: State, tasks: Sequence[ContractJob]) -> Backend:
        """A world of one node and so many GPUs, to which these are submitted at once."""
        raise NotImplementedError

    def stop(self) -> None:
        """Let `observe` say that the world is over; a world that ends by itself does nothing."""

    def close(self) -> None:
        """The test is over: release everything."""

    def told(self, policy: Policy, *tasks: ContractJob) -> list[JournalEntry]:
        """All entries, each checked by the state, then all by the auditor."""
        state, entries = State(), list[tuple[Seconds, JournalEntry]]()

        def keep(written: Sequence[Entry], times: Sequence[Seconds]) -> None:
            entries.extend(zip(times, written, strict=True))  # type: ignore[arg-type]

        journal = Journal(keep, at_once=1)
        try:
            backend = self.begin(state, tasks)
            run(_UntilAllEnded(backend, state, self.stop), [policy], state, journal)
            assert not backend.observe(), "a world that is over stays over"
        finally:
            self.close()
        assert not state.tracks, f"left behind: {list(state.tracks)}"
        audit = Audit().read(entries)
        assert set(audit.ended) == {own.job.id for own in tasks}
        times = [at for at, _ in entries]
        assert times == sorted(times), "time ran backwards"
        return [entry for _, entry in entries]

    def test_nodes_are_told_before_the_jobs_that_need_them(self) -> None:
        kinds = [type(entry) for entry in self.told(InTurn(), task())]
        assert kinds.index(NodeJoined) < kinds.index(Submitted)

    def test_a_job_that_is_started_finishes_once(self) -> None:
        entries = self.told(InTurn(), task())
        assert [entry.job_id for entry in entries if isinstance(entry, Finished)] == [FIRST]
        assert len([entry for entry in entries if isinstance(entry, Start)]) == 1

    def test_a_job_that_fails_says_so(self) -> None:
        (failed,) = [e for e in self.told(InTurn(), task(fails=True)) if isinstance(e, Failed)]
        assert failed.reason

    def test_one_after_the_other_has_the_gpu(self) -> None:
        entries = self.told(InTurn(), task(FIRST), task(SECOND))
        ended = [entry.job_id for entry in entries if isinstance(entry, Finished)]
        assert ended == [FIRST, SECOND]

    def test_a_preempted_job_makes_room_and_goes_on_where_it_was(self) -> None:
        entries = self.told(DecidedAfter(0.2, Preempt), task(FIRST, work_s=1.5), task(SECOND))
        ended = [entry.job_id for entry in entries if isinstance(entry, Finished)]
        assert ended == [SECOND, FIRST]
        assert not [entry for entry in entries if isinstance(entry, Failed)]

    def test_a_job_that_saves_itself_goes_on_with_more_gpus(self) -> None:
        self.gpus = 2
        elastic = replace(task().job, min_gpus=1, max_gpus=2)
        entries = self.told(GrowsAfter(0.3), replace(task(work_s=1.5), job=elastic))
        kinds = [type(entry) for entry in entries]
        assert kinds.index(Start) < kinds.index(Resize) < kinds.index(Finished)
        assert kinds.count(Resize) == kinds.count(Finished) == 1
        assert not [entry for entry in entries if isinstance(entry, Failed | Stayed)]

    def test_a_job_that_is_stopped_makes_room(self) -> None:
        entries = self.told(DecidedAfter(0.2, Stop), task(FIRST, work_s=60.0), task(SECOND))
        assert [entry.job_id for entry in entries if isinstance(entry, Finished)] == [SECOND]

    def test_a_job_that_is_cancelled_makes_room(self) -> None:
        first = task(FIRST, work_s=60.0, cancelled_after_s=0.5)
        entries = self.told(InTurn(), first, task(SECOND))
        assert [entry.job_id for entry in entries if isinstance(entry, Cancelled)] == [FIRST]
        assert [entry.job_id for entry in entries if isinstance(entry, Finished)] == [SECOND]

    def test_a_job_that_is_refused_never_begins(self) -> None:
        entries = self.told(RefuseAll(), task())
        assert not [entry for entry in entries if isinstance(entry, Start | Started)]


class LiveWorldContract(WorldContract):
    """For a world behind the seam. `make` is yours; jobs run /bin/sh, unless `order` says otherwise."""

    grace_s: Seconds = 5.0

    def make(self, folder: Path) -> World:
        """A world that keeps its files there. Made again, it goes on with them."""
        raise NotImplementedError

    def order(self, own: ContractJob) -> Order:
        steps = round(own.work_s / _STEP_S)
        script = (
            f"i=0; while [ $i -lt {steps} ]; do sleep {_STEP_S}; i=$((i+1)); echo $i; done; "
            f"exit {int(own.fails)}"
        )
        if own.job.elastic:
            script = (
                'f="$DOVETAIL_CHECKPOINT_DIR/i"; [ -e "$f" ] && . "$f"; trap "stop=1" TERM; '
                f"while [ ${{i:=0}} -lt {steps} ]; do sleep {_STEP_S}; i=$((i+1)); echo $i; "
                '[ -z "$stop" ] || { echo "i=$i; stop=" > "$f"; exit 85; }; done'
            )
        words = ("/bin/sh", "-c", script)
        return Order(
            *(own.job.id, words, {}, "/", own.job.user),
            grace_s=self.grace_s,
            saves_itself=own.job.elastic,
        )

    # --------------------------------------------------------------------------------- a daemon

    _orders: dict[JobId, Order]
    _temporary: TemporaryDirectory[str] | None = None
    _timers: Sequence[Timer] = ()

    @property
    def folder(self) -> Path:
        if self._temporary is None:
            self._temporary = TemporaryDirectory()
        return Path(self._temporary.name)

    def begin(self, state: State, tasks: Sequence[ContractJob]) -> Backend:
        desk = self.join(state, {own.job.id: self.order(own) for own in tasks})
        assert self.world.catch_up() == [], "there is nothing to catch up with"
        jobs = [own.job for own in tasks]
        desk.ask(lambda view, now: ([Submitted(now, own) for own in jobs], None))
        self._timers = [
            Timer(own.cancelled_after_s, desk.ask, [_cancels(own.job.id)])
            for own in tasks
            if own.cancelled_after_s is not None
        ]
        for timer in self._timers:
            timer.start()
        return desk

    def join(self, state: State, orders: Mapping[JobId, Order]) -> Desk:
        """A world, joined to a state as a daemon does it."""
        self.world = self.make(self.folder)
        began = monotonic() - state.now
        self.desk = desk = Desk(
            self.world, state, lambda: monotonic() - began, self.world.shelf.settle
        )
        environment = {"PATH": os.defpath}
        self.world.join(
            Ground(
                *(state, lambda: monotonic() - began, desk.ring),
                *(lambda job_id: orders[job_id], lambda job_id: None, lambda job_id: environment),
            )
        )
        for order in orders.values():
            if not self.world.shelf.holds(order.job_id):
                self.keep_environment(order, environment)
                self.world.shelf.take_on(order, None)
        return desk

    def keep_environment(self, order: Order, environment: Mapping[str, str]) -> None:
        """For a world that reads what the daemon keeps, instead of asking for it."""

    def stop(self) -> None:
        self.desk.stop()

    def close(self) -> None:
        for timer in self._timers:
            timer.join()
        _wait_until(lambda: not self.world.has_processes(), "processes are left")

    def printed(self, job_id: JobId) -> str:
        return self.world.shelf.log(job_id).read(0, 1 << 20)[1].decode()

    def printed_alone(self, job_id: JobId) -> str:
        """While there is no daemon: where that is not told by a shelf, say how it is found out."""
        return self.printed(job_id)

    # --------------------------------------------------------------------------------- contract

    def test_what_a_job_prints_is_kept_also_over_a_preemption(self) -> None:
        self.told(DecidedAfter(0.2, Preempt), task(FIRST, work_s=1.5), task(SECOND))
        assert self.printed(FIRST).split() == [str(n) for n in range(1, 76)]

    def test_what_a_job_does_is_done_once_also_if_it_goes_on_with_more_gpus(self) -> None:
        self.test_a_job_that_saves_itself_goes_on_with_more_gpus()
        assert self.printed(FIRST).split() == [str(n) for n in range(1, 76)]

    def test_a_job_has_its_variables_scripts_and_folder(self, tmp_path: Path) -> None:
        from dovetail.worlds.world import Script

        words = ("/bin/sh", Script("run"), "a b")
        script = 'echo "$1|$OWN|$(pwd)|$DOVETAIL_JOB_ID|$DOVETAIL_GPUS"'
        own, env = task(), {"OWN": "x y"}
        order = Order(FIRST, words, env, str(tmp_path), "ann", scripts={"run": script})
        self.order = lambda own: order  # type: ignore[method-assign]
        self.told(InTurn(), own)
        assert self.printed(FIRST) == f"a b|x y|{tmp_path}|{FIRST}|1\n"

    def test_a_daemon_that_comes_later_takes_up_what_runs_and_what_has_ended(self) -> None:
        """The jobs do not notice that nobody was there."""
        state, own = State(), task(FIRST, work_s=1.0)
        backend = self.begin(state, [own])
        self._leave_once_it_runs(backend, state)
        _wait_until(lambda: "50" in self.printed_alone(FIRST).split(), "it was to go on alone")
        sleep(0.3)  # it ends
        desk = self.join(state, {FIRST: self.order(own)})
        for event in self.world.catch_up():
            state.record(event)
        run(_UntilAllEnded(desk, state, desk.stop, came=True), [InTurn()], state)
        assert not state.tracks
        self.close()
        assert self.printed(FIRST).split() == [str(n) for n in range(1, 51)]

    def test_a_daemon_that_comes_soon_adopts_what_runs(self) -> None:
        state, own = State(), task(FIRST, work_s=1.0)
        self._leave_once_it_runs(self.begin(state, [own]), state)
        desk = self.join(state, {FIRST: self.order(own)})
        for event in self.world.catch_up():
            state.record(event)
        assert FIRST in state.running
        run(_UntilAllEnded(desk, state, desk.stop, came=True), [InTurn()], state)
        self.close()
        assert self.printed(FIRST).split() == [str(n) for n in range(1, 51)], "it ran once"

    def _leave_once_it_runs(self, backend: Backend, state: State) -> None:
        run(backend, [Leave(self.stop)], state)

    def test_checkpoints_of_one_job_are_what_another_begins_with(self) -> None:
        save, show = (
            'echo mine > "$DOVETAIL_CHECKPOINT_DIR/it"',
            'cat "$DOVETAIL_CHECKPOINT_DIR/it"',
        )
        orders = {
            FIRST: Order(FIRST, ("/bin/sh", "-c", save), {}, "/", "ann"),
            SECOND: Order(SECOND, ("/bin/sh", "-c", show), {}, "/", "ann", begins_from=FIRST),
        }
        self.order = lambda own: orders[own.job.id]  # type: ignore[method-assign]
        self.told(InTurn(), task(FIRST), task(SECOND))
        assert self.printed(SECOND) == "mine\n"
        shelf = self.world.shelf
        assert shelf.copy_checkpoint([SECOND], "a copy", None)
        shelf.drop_copy("a copy")

    def test_an_order_that_can_never_run_is_refused_in_words(self) -> None:
        order = replace(self.order(task()), nodes=1_000_000)
        world = self.make(self.folder)
        assert world.why_not(order)
        assert not world.why_not(self.order(task()))

    # -------------------------------------------------------------------------------- services

    def server(self, port: int) -> Order:
        """A job that answers HTTP there."""
        words = (sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1")
        return Order(FIRST, words, {}, str(self.folder), "ann", grace_s=self.grace_s)

    def reached(self, order: GatewayOrder) -> Endpoint:
        """Where this test reaches the gateway, unless at the address itself."""
        return Endpoint("127.0.0.1", order.port)

    def test_requests_reach_a_replica_through_a_gateway_that_is_found_again(self) -> None:
        hosting = self.make(self.folder).hosting
        if hosting is None:
            return
        port, found = hosting.replica_port(None, ()), list[int]()
        usual, server = self.order, self.server(port)
        self.order = lambda own: server if own.job.id == FIRST else usual(own)  # type: ignore[method-assign]

        def ask() -> None:
            try:
                found.extend(self._answers(port))
            finally:
                self.desk.ask(_cancels(FIRST))

        beside = OnceItRuns(ask)
        self.told(beside, task(FIRST), task(SECOND))
        beside.join()
        assert found == [503, 200, 200]

    def _answers(self, port: int) -> Iterator[int]:
        """Without a replica; with one; and when nobody has told the gateway anything for a while."""
        hosting = self.world.hosting
        assert hosting is not None
        bounds = GatewayBounds(queue_s=0.1)
        order = GatewayOrder("v1", "answers", hosting.address_port(None), bounds=bounds)
        with closing(GatewayLine(hosting.door(order))) as line:
            line.open()
            yield self._status(order)
            self._tell(hosting, line, port)
            yield self._status(order)
        with closing(GatewayLine(hosting.door(order))) as again:
            again.open()
            yield self._status(order)
            again.stop()
        line.stop()  # once more does no harm
        _wait_until(lambda: not self._is_open(order), "its gateway is to end")

    @staticmethod
    def _tell(hosting: Hosting, line: GatewayLine, port: int) -> None:
        """Where its one replica is."""
        _wait_until(lambda: hosting.endpoint(FIRST, port) is not None, "it has no address")
        endpoint = hosting.endpoint(FIRST, port)
        assert endpoint is not None
        assert not hosting.stranger_at(endpoint, os.geteuid())
        _wait_until(lambda: not asked(endpoint, "GET", "/", 1.0), "it does not listen")
        row = {"id": "0", "host": endpoint.host, "port": endpoint.port, "standing": "ready"}
        line.tell({"replicas": [row], "wake_s": 1.0, "why_none": "there is none"})
        assert any("busy" in told for told in line.hear(5.0))

    def _status(self, order: GatewayOrder) -> int:
        at = self.reached(order)
        connection = HTTPConnection(at.host, at.port, timeout=20)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        finally:
            connection.close()

    def _is_open(self, order: GatewayOrder) -> bool:
        try:
            self._status(order)
        except OSError:
            return False
        return True

    def test_what_is_removed_is_gone(self) -> None:
        self.told(InTurn(), task())
        shelf = self.world.shelf
        assert FIRST in shelf.jobs()
        assert shelf.bytes_of(FIRST) > 0
        shelf.remove(FIRST)
        assert not shelf.holds(FIRST)


def _cancels(job_id: JobId) -> Callable[[View, Seconds], tuple[list[Event], None]]:
    return lambda view, now: ([Cancelled(now, job_id, "by the contract")], None)


def _wait_until(is_so: Callable[[], bool], otherwise: str, seconds: Seconds = 20.0) -> None:
    until = monotonic() + seconds
    while not is_so():
        assert monotonic() < until, otherwise
        sleep(0.02)
