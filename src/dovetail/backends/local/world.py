"""The local world: it carries out decisions on real processes and tells what became of them.

Everything happens on the thread that calls `observe`, except waiting: for the end of a process (the
watcher) and for a job to start, give way or end (one short-lived thread each). Those only put what
they saw into the inbox. A decision is carried out after the journal has it on disk; whoever takes
over after a crash finds in the journal what was wanted, and in the run folders what there is.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, Final

from dovetail.backends.local import ladder, machine, processes
from dovetail.backends.local.ladder import Manners, Used
from dovetail.backends.local.lives import REPORTS, Life, Order, Place, Want, overlap
from dovetail.backends.local.runs import Ending, Launch, Run
from dovetail.backends.local.watcher import Ended, Told, Watcher
from dovetail.core.entries import (
    Action,
    Cancelled,
    Displaced,
    Event,
    Failed,
    Finished,
    Interrupted,
    NodeJoined,
    NodeLeft,
    Occupied,
    Pinned,
    Preempt,
    Refuse,
    Reported,
    Restored,
    Saved,
    Start,
    Started,
    Stayed,
    Stop,
    Unpinned,
    Wake,
    Woke,
)
from dovetail.core.errors import BadInput, DovetailError
from dovetail.core.model import JobId, Node, Placement, Seconds, Slice
from dovetail.core.state import View
from dovetail.core.track import Phase, Track

REQUEUE_CODES = frozenset((75, 85))  # EX_TEMPFAIL, and HTCondor's "checkpointed, start me again"
_SHORT_RUN_S = 1.0
_MOST_SHORT_RUNS = 20  # in a row that end by asking to be started again: it would never end
_RETRY_S = 1.0
_BEGIN_WITHIN_S = 30.0
_TRY_AGAIN_S = 0.05

log = logging.getLogger("dovetail.local")

Request = Callable[[View, Seconds], tuple[Sequence[Event], Any]]


@dataclass(frozen=True, slots=True)
class Machine:
    """What the world stands on."""

    nodes: Sequence[Node]
    runs: Path
    suspended_limit_bytes: int


@dataclass(frozen=True, slots=True)
class _Asked:
    request: Request
    answer: Future[Any]


@dataclass(frozen=True, slots=True)
class _Done:
    """Somebody's work on the processes of a job is over."""

    job_id: JobId
    wanted: Want
    used: Used | None  # None: started afresh, or ended
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class _Probed:
    pins: Mapping[JobId, str]
    occupied: Mapping[str, int]


class _Over:
    """The daemon is to stop; the jobs go on."""


class LocalMachine:
    """`clock` tells seconds as the journal counts them, `order_for` what a job is, `sync` makes the
    journal durable."""

    def __init__(
        self,
        machine: Machine,
        view: View,
        clock: Callable[[], Seconds],
        order_for: Callable[[JobId], Order],
        sync: Callable[[], None],
    ) -> None:
        self._machine: Final = replace(machine, nodes=_named(machine.nodes, view))
        self._view: Final = view
        self._clock: Final = clock
        self._order_for: Final = order_for
        self._sync: Final = sync
        self._inbox: Final[SimpleQueue[object]] = SimpleQueue()
        self._next: object | None = None  # taken from the inbox, not yet looked at
        self._lives: Final[dict[JobId, Life]] = {}
        self._decided: list[Action] = []
        self._answers: list[tuple[Future[Any], Any]] = []
        self._wake_at: Seconds = inf
        self._short_runs: dict[JobId, int] = {}
        self._occupied: dict[str, int] = {}
        self._connected = False
        self._watcher: Final = Watcher(self._inbox.put, self._probe)

    # ------------------------------------------------------------------------- from other threads

    def ask(self, request: Request) -> Future[Any]:
        """Have the request looked at in its turn. It is answered when its events are on disk."""
        answer: Future[Any] = Future()
        self._inbox.put(_Asked(request, answer))
        return answer

    def stop(self) -> None:
        """Let `observe` say that it is over. The jobs go on."""
        self._inbox.put(_Over())

    # ------------------------------------------------------------------------------------- observe

    def observe(self) -> Sequence[Event]:
        if not self._connected:
            return self._connect()
        self._make_durable()
        self._carry_out()
        while True:
            item = self._take(wait=True)
            if item is None:
                self._wake_at = inf
                return [Woke(self._clock())]
            if isinstance(item, _Over):
                self._watcher.stop()
                return ()
            events = self._heed(item) if isinstance(item, _Asked) else self._gather(item)
            if events:
                return events
            self._make_durable()  # a request that changes nothing is answered, too

    def _take(self, wait: bool) -> object | None:
        """The next thing to look at; None when it is time to wake up, or nothing is there."""
        if self._next is not None:
            item, self._next = self._next, None
            return item
        left = max(self._wake_at - self._clock(), 0.0) if wait else 0.0
        try:
            return self._inbox.get(timeout=None if left == inf else min(left, 3600.0))
        except Empty:
            return None if self._wake_at <= self._clock() or not wait else self._take(wait)

    def _gather(self, item: object | None) -> list[Event]:
        """All facts that are there, up to the next request: that one is looked at alone."""
        events: list[Event] = []
        while item is not None and not isinstance(item, _Asked | _Over):
            events += self._see(item)
            item = self._take(wait=False)
        self._next = item
        return events

    def _heed(self, asked: _Asked) -> Sequence[Event]:
        try:
            events, answer = asked.request(self._view, self._clock())
        except Exception as error:
            asked.answer.set_exception(error)
            return ()
        for event in events:
            if isinstance(event, Cancelled):
                self._want_end(event.job_id)
        self._answers.append((asked.answer, answer))
        return events

    def _make_durable(self) -> None:
        while True:
            try:
                self._sync()
                break
            except (DovetailError, OSError) as error:
                # Nothing is carried out before it can be written down.
                log.error("%s", error)
                sleep(_RETRY_S)
        answers, self._answers = self._answers, []
        for future, answer in answers:
            future.set_result(answer)

    # ----------------------------------------------------------------------------------------- act

    def act(self, action: Action) -> None:
        """Noted now, carried out when the journal is on disk: at the next `observe`."""
        if isinstance(action, Wake):
            self._wake_at = action.at
        else:
            self._decided.append(action)

    def _carry_out(self) -> None:
        decided, self._decided = self._decided, []
        for action in decided:
            if isinstance(action, Start):
                life = self._lives.setdefault(action.job_id, Life(action.job_id, Want.RUN))
                life.want = Want.RUN
                life.booked = action.placement
            elif isinstance(action, Preempt):
                life = self._lives[action.job_id]
                life.want = Want.AWAY
                life.booked = None
            elif isinstance(action, Stop | Refuse):
                self._want_end(action.job_id)
        if decided:
            self._step_all()

    def _want_end(self, job_id: JobId) -> None:
        life = self._lives.get(job_id)
        if life is not None:
            life.want = Want.END
            life.booked = None
            self._step(life)

    def start_over(self, job_id: JobId, reason: str) -> None:
        """In a request: end the job's processes; once they are gone it lines up again."""
        life = self._lives.get(job_id)
        if life is not None:
            life.requeue = reason
            self._want_end(job_id)

    # -------------------------------------------------------------------- from wishes to processes

    def _step_all(self) -> None:
        for life in list(self._lives.values()):
            self._step(life)

    def _step(self, life: Life) -> None:
        """Do the next thing towards what is wanted, if nobody is at it already."""
        if life.busy or life.ended:
            return
        if life.want is Want.RUN:
            if life.place is not Place.AT_WORK and self._is_clear(life):
                self._bring_up(life)
        elif life.place is Place.ABSENT:
            self._drop(life)
        elif life.want is Want.END:
            self._at_work_on(life, self._end)
        elif life.place is Place.AT_WORK:
            self._at_work_on(life, self._give_way)

    def _drop(self, life: Life) -> None:
        del self._lives[life.job_id]
        (self._live_folder() / life.job_id).unlink(missing_ok=True)

    def _is_clear(self, life: Life) -> bool:
        """Has everybody left the GPUs that the job was given?"""
        assert life.booked is not None
        return not any(
            other.is_leaving and other.stands is not None and overlap(other.stands, life.booked)
            for other in self._lives.values()
            if other is not life
        )

    def _bring_up(self, life: Life) -> None:
        track = self._view.tracks[life.job_id]
        if life.run is None or life.place is Place.ABSENT:
            life.run = self._run_of(track)
        life.stands = life.booked
        life.began_at = self._clock()
        self._at_work_on(life, self._start)

    def _at_work_on(self, life: Life, work: Callable[[Life, Manners, Launch], Used | None]) -> None:
        """Let somebody do the work; what comes of it arrives in the inbox."""
        life.busy = True
        wanted = life.want
        order = self._order_for(life.job_id)
        manners = self._manners(life, order)
        launch = self._launch(life, order, manners)

        def at_work() -> None:
            used, trouble = None, ""
            try:
                used = work(life, manners, launch)
            except (DovetailError, OSError) as error:
                trouble = str(error) or type(error).__name__
            self._inbox.put(_Done(life.job_id, wanted, used, trouble))

        threading.Thread(target=at_work, name=f"job {life.job_id}", daemon=True).start()

    def _launch(self, life: Life, order: Order, manners: Manners) -> Launch:
        """The launch of the job with the variables that tell it where it is."""
        track, folder = self._view.tracks.get(life.job_id), self._folder(life.job_id)
        run = track.run if track is not None else 0
        env = {
            **order.launch.env,
            "CUDA_VISIBLE_DEVICES": ",".join(manners.gpus),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "DOVETAIL_JOB_ID": life.job_id,
            "DOVETAIL_ATTEMPT": str(track.attempts if track is not None else 0),
            "DOVETAIL_RESUMED": "1" if run > 1 else "0",
            "DOVETAIL_REPORT": str(manners.reports),
            "DOVETAIL_CHECKPOINT_DIR": str(manners.checkpoints),
            "DOVETAIL_STOP": str(folder / str(run) / "stop"),
            "DOVETAIL_GRACE_SECONDS": f"{order.grace_s:g}",
        }
        return replace(order.launch, env=env)

    def _manners(self, life: Life, order: Order) -> Manners:
        parked = sum(
            track.parked_bytes
            for track in (self._view.tracks.get(job_id) for job_id in list(self._lives))
            if track is not None
        )
        return Manners(
            self._folder(life.job_id) / REPORTS,
            order.checkpoints,
            order.grace_s,
            order.preemptible,
            order.restartable,
            order.saves_itself,
            self._gpus_of(life.stands or life.booked),
            self._machine.suspended_limit_bytes - parked,
        )

    # --------------------------------------------------------------- work on processes, in a thread

    def _start(self, life: Life, manners: Manners, launch: Launch) -> Used | None:
        """Go on with parked processes, or launch new ones."""
        run = life.run
        assert run is not None
        if run.is_alive():
            return ladder.go_on(run, manners.gpus)
        if not run.begun():
            live = self._live_folder()
            live.mkdir(parents=True, exist_ok=True)
            (live / life.job_id).write_text(run.folder.name)
            _launch(run, launch)
        return None

    def _give_way(self, life: Life, manners: Manners, launch: Launch) -> Used | None:
        assert life.run is not None
        return ladder.give_way(life.run, manners)

    def _end(self, life: Life, manners: Manners, launch: Launch) -> Used | None:
        assert life.run is not None
        ladder.end(life.run, manners.grace_s)
        return None

    # ------------------------------------------------------------------------------ facts to events

    def _see(self, fact: object) -> list[Event]:
        if isinstance(fact, Told):
            return self._told(fact)
        if isinstance(fact, Ended):
            return self._ended(fact)
        if isinstance(fact, _Done):
            return self._done(fact)
        assert isinstance(fact, _Probed)
        return self._probed(fact)

    def _told(self, told: Told) -> list[Event]:
        if told.job_id not in self._view.tracks:
            return []
        now = self._clock()
        return [
            Reported(now, told.job_id, report.step, report.metrics, report.upto)
            for report in told.reports
        ]

    def _ended(self, ended: Ended) -> list[Event]:
        life = self._lives.get(ended.job_id)
        if life is None or life.run is None or life.run.folder != ended.run.folder:
            return []
        life.ended = True
        return [] if life.busy else self._look_at_end(life)

    def _done(self, done: _Done) -> list[Event]:
        life = self._lives[done.job_id]
        life.busy = False
        if done.wanted is Want.RUN:
            events = self._brought_up(life, done)
        elif done.wanted is Want.AWAY:
            events = self._gave_way(life, done)
        else:
            events = self._was_ended(life, done)
        if life.ended and life.job_id in self._lives and not life.busy:
            events += self._look_at_end(life)
        self._step_all()
        return events

    def _brought_up(self, life: Life, done: _Done) -> list[Event]:
        run, track = life.run, self._view.tracks.get(life.job_id)
        assert run is not None
        if done.trouble:
            return self._could_not_start(life, done.trouble)
        life.place = Place.AT_WORK
        if done.used is None:
            self._watch(life)
        now = self._clock()
        if track is None or track.phase is not Phase.STARTING:
            return []
        events: list[Event] = [Started(now, life.job_id)]
        if done.used is not None and track.rung:
            events.append(Restored(now, life.job_id, done.used.rung, done.used.seconds))
        return events

    def _could_not_start(self, life: Life, trouble: str) -> list[Event]:
        """The system refused (say, a full disk): the job lines up again, or it is told why not."""
        log.error("job %s could not be started: %s", life.job_id, trouble)
        assert life.run is not None
        now, track = self._clock(), self._view.tracks.get(life.job_id)
        life.stands = None
        if life.run.is_alive():  # it was parked and cannot go on
            ladder.end(life.run, 0.0)
        life.place = Place.ABSENT
        life.want = Want.END
        if track is None:
            return []
        reason = f"it could not be started: {trouble}"
        return [Failed(now, life.job_id, reason, track.executed_by(now))]

    def _gave_way(self, life: Life, done: _Done) -> list[Event]:
        track, now = self._view.tracks.get(life.job_id), self._clock()
        if done.used is None:
            if life.ended or track is None:
                return []  # it has ended by itself: looked at next
            return self._stays(life, track, done.trouble)
        if life.ended and done.used.parked:
            return []
        life.stands = None
        life.place = Place.PARKED if done.used.parked else Place.ABSENT
        life.ended = False
        if track is None:
            return []
        used = done.used
        lost = track.executed_s if used.rung == ladder.KILL else 0.0
        return [Saved(now, life.job_id, used.rung, used.seconds, used.bytes, used.parked, lost)]

    def _stays(self, life: Life, track: Track, trouble: str) -> list[Event]:
        """It could not be moved: whoever was given its GPUs lines up again."""
        log.warning("job %s could not give way: %s", life.job_id, trouble)
        assert life.stands is not None
        now = self._clock()
        events: list[Event] = []
        for other in self._lives.values():
            if other.booked is not None and overlap(other.booked, life.stands):
                reason = f"job {life.job_id} could not give way"
                events.append(Displaced(now, other.job_id, reason))
                other.booked = None
                other.want = Want.AWAY
        events.append(Stayed(now, life.job_id, life.stands, trouble))
        life.want = Want.RUN
        life.booked = life.stands
        life.pin = trouble
        return events

    def _was_ended(self, life: Life, done: _Done) -> list[Event]:
        if done.trouble:
            log.error("job %s could not be ended: %s", life.job_id, done.trouble)
        life.place = Place.ABSENT
        life.stands = None
        life.ended = False
        track = self._view.tracks.get(life.job_id)
        if life.requeue and track is not None:
            now, reason = self._clock(), life.requeue
            life.requeue = ""
            return [Interrupted(now, life.job_id, reason, track.executed_by(now))]
        return []

    def _look_at_end(self, life: Life) -> list[Event]:
        """The main process ended by itself: what does that mean?"""
        assert life.run is not None
        ending, track = life.run.ending(), self._view.tracks.get(life.job_id)
        asked_to_stop = life.run.stop_asked
        life.ended = False
        life.place = Place.ABSENT
        life.stands = None
        life.want, life.booked = (Want.END, None) if track is None else (life.want, life.booked)
        events: list[Event] = []
        if track is not None:
            events = [self._outcome(life, track, ending, asked_to_stop)]
            life.want, life.booked = Want.END, None
        self._step_all()
        return events

    def _outcome(
        self, life: Life, track: Track, ending: Ending | None, asked_to_stop: bool
    ) -> Event:
        now, job_id = self._clock(), life.job_id
        if ending is None:
            self._clean_up_after(job_id)
            return self._vanished(track, now)
        if asked_to_stop:
            return Interrupted(now, job_id, "it saved itself and ended when asked to", 0.0)
        if ending.code in REQUEUE_CODES:
            if self._may_come_again(life):
                reason = f"it asked to be started again (exit code {ending.code})"
                return Interrupted(now, job_id, reason, 0.0)
        elif ending.code == 0:
            self._short_runs.pop(job_id, None)
            return Finished(now, job_id)
        lost = 0.0 if self._order_for(job_id).saves_itself else track.executed_by(now)
        return Failed(now, job_id, told(ending), lost, exit_code(ending))

    def _may_come_again(self, life: Life) -> bool:
        """A job that does nothing but ask to be started again would never end."""
        short = self._clock() - life.began_at < _SHORT_RUN_S
        runs = self._short_runs.get(life.job_id, 0) + 1 if short else 0
        self._short_runs[life.job_id] = runs
        return runs <= _MOST_SHORT_RUNS

    def _vanished(self, track: Track, now: Seconds) -> Event:
        reason = "its processes were killed from outside, or the machine was restarted"
        lost = track.executed_by(now)
        if track.job.restartable:
            return Interrupted(now, track.job.id, reason, lost)
        return Failed(now, track.job.id, reason, lost, 137)

    def _clean_up_after(self, job_id: JobId) -> None:
        processes.kill_leftovers(job_id, self._machine.runs)

    # ------------------------------------------------------------------------- pins and strangers

    def _probe(self) -> None:
        """In the watcher's thread: who could give way now, and which GPUs others use."""
        pins, ours = {}, []
        for life in list(self._lives.values()):
            if life.place is not Place.AT_WORK or life.busy or life.run is None:
                continue
            keeper = life.run.keeper_pid()
            if keeper is None:
                continue
            ours += [process.pid for process in processes.tree(keeper)]
            pins[life.job_id] = ladder.obstacle(
                life.run, self._manners(life, self._order_for(life.job_id))
            )
        occupied = self._strangers(ours)
        told_pins = {life.job_id: life.pin for life in list(self._lives.values())}
        changed = any(told_pins.get(job_id, "") != why for job_id, why in pins.items())
        if changed or occupied != self._occupied:
            self._inbox.put(_Probed(pins, occupied))

    def _strangers(self, ours: Sequence[int]) -> dict[str, int]:
        """Per node the GPUs with processes that are not ours."""
        if not any(node.labels for node in self._machine.nodes):
            return {}
        foreign = machine.foreign_use(ours)
        return {
            node.id: sum(1 << i for i, (_, uuid) in enumerate(node.labels) if uuid in foreign)
            for node in self._machine.nodes
        }

    def _probed(self, probed: _Probed) -> list[Event]:
        now, events = self._clock(), list[Event]()
        for job_id, why in probed.pins.items():
            life = self._lives.get(job_id)
            if life is None or life.place is not Place.AT_WORK or life.want is not Want.RUN:
                continue
            if bool(why) != bool(life.pin):
                events.append(Pinned(now, job_id, why) if why else Unpinned(now, job_id))
            life.pin = why
        for node_id, mask in probed.occupied.items():
            if mask != self._occupied.get(node_id, 0):
                events.append(Occupied(now, node_id, mask))
        self._occupied = dict(probed.occupied)
        return events

    # ------------------------------------------------------------------------------------ connecting

    def _connect(self) -> list[Event]:
        """Tell what there is: the nodes, and what became of the jobs while nobody looked."""
        self._connected = True
        self._watcher.start()
        events = self._tell_nodes()
        for track in list(self._view.tracks.values()):
            if track.placement is not None or track.process:
                self._take_up(track)
        self._end_stray_runs()
        self._step_all()
        return events or [Woke(self._clock())]

    def _tell_nodes(self) -> list[Event]:
        now, room = self._clock(), self._view.room
        known = {node.id: node for n, node in enumerate(room.nodes) if n not in room.gone}
        events: list[Event] = []
        for node_id, node in known.items():
            if node not in self._machine.nodes:
                self._refuse_if_used(node_id)
                events.append(NodeLeft(now, node_id))
        return events + [
            NodeJoined(now, node) for node in self._machine.nodes if node not in known.values()
        ]

    def _refuse_if_used(self, node_id: str) -> None:
        n = self._view.room.index[node_id]
        on_it = [
            track.job.id
            for track in self._view.running.values()
            if track.placement is not None and any(s.node == n for s in track.placement.slices)
        ]
        if on_it:
            raise BadInput(
                f"{len(on_it)} jobs still run on {node_id!r} as it was before: start with the same "
                f"number of slots, or cancel them first ({', '.join(on_it[:5])})"
            )

    def _take_up(self, track: Track) -> None:
        """Adopt what runs, find out what has ended, start what was about to be started."""
        wanted = Want.RUN if track.placement is not None else Want.AWAY
        life = self._lives[track.job.id] = Life(track.job.id, wanted)
        life.booked = life.stands = track.placement
        life.pin = track.pinned
        life.run = run = self._run_of(track)
        life.began_at = track.started_at
        if not run.begun():
            life.stands = None
        elif run.is_alive():
            at_work = not track.rung if wanted is Want.AWAY else track.phase is Phase.RUNNING
            life.place = Place.AT_WORK if at_work else Place.PARKED
            if life.stands is None and at_work:
                life.stands = _everywhere(self._view)
            self._watch(life)
        else:
            life.ended = True  # told once its last reports are read
            self._watch(life)

    def _end_stray_runs(self) -> None:
        """Processes of jobs that were ended by decision when the daemon died in the middle of it."""
        for note in sorted(self._live_folder().glob("*")):
            job_id = JobId(note.name)
            if job_id in self._lives:
                continue
            run = Run(self._folder(job_id) / note.read_text())
            if not run.is_alive():
                note.unlink(missing_ok=True)
                continue
            life = self._lives[job_id] = Life(job_id, Want.END)
            life.run, life.place, life.stands = run, Place.AT_WORK, _everywhere(self._view)
            self._watch(life)

    def _watch(self, life: Life) -> None:
        track = self._view.tracks.get(life.job_id)
        assert life.run is not None
        upto = track.reported_upto if track is not None else 0
        self._watcher.watch(life.job_id, life.run, self._folder(life.job_id) / REPORTS, upto)

    # ------------------------------------------------------------------------------- where things are

    def _folder(self, job_id: JobId) -> Path:
        return self._machine.runs / job_id

    def _live_folder(self) -> Path:
        return self._machine.runs / "live"

    def _run_of(self, track: Track) -> Run:
        return Run(self._folder(track.job.id) / str(track.run))

    def _gpus_of(self, placement: Placement | None) -> tuple[str, ...]:
        """The UUIDs of the GPUs of a placement; none where they are processor slots."""
        if placement is None:
            return ()
        nodes = self._view.room.nodes
        return tuple(
            uuid
            for piece in placement.slices
            for i, (_, uuid) in enumerate(nodes[piece.node].labels)
            if piece.mask >> i & 1
        )


def _named(nodes: Sequence[Node], view: View) -> list[Node]:
    """The nodes under the names they are known by; one that has changed gets a new name."""
    room = view.room
    known = [node for n, node in enumerate(room.nodes) if n not in room.gone]
    named = []
    for node in nodes:
        same = next((old for old in known if replace(old, id=node.id) == node), None)
        name, number = node.id, 1
        while same is None and name in room.index:
            number += 1
            name = f"{node.id}~{number}"
        named.append(same or replace(node, id=name))
    return named


def _launch(run: Run, launch: Launch) -> None:
    """Until it has begun. The keeper of a daemon since killed may be on its way: then ours gives up,
    and for a moment neither has begun."""
    until = monotonic() + _BEGIN_WITHIN_S
    run.launch(launch)
    while not run.wait_until_begun():
        if monotonic() > until:
            raise DovetailError(run.trouble() or "the system did not let it begin")
        sleep(_TRY_AGAIN_S)
        run.launch(launch)


def _everywhere(view: View) -> Placement:
    """Where a job may stand of which we only know that it has processes."""
    return Placement(
        tuple(Slice(n, (1 << node.gpus) - 1) for n, node in enumerate(view.room.nodes))
    )


def exit_code(ending: Ending) -> int:
    """As a shell tells it."""
    return ending.code if ending.code is not None else 128 + (ending.signal or 0)


def told(ending: Ending) -> str:
    if ending.failure:
        return ending.failure
    if ending.signal:
        return f"killed by signal {ending.signal} ({_signal_name(ending.signal)})"
    return f"exit code {ending.code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
