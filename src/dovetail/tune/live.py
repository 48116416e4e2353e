"""Studies beside all other work: the cluster's policy gives slots to trials, and the study's rule
says which of its trials uses each slot.

Wherever the policy would start some trial of a study, the trial that the rule picks is started; and
a running trial that has made a step may have to give its slot to another trial of the same study.
So a study takes nothing from other jobs, and works under every policy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from dovetail.core.entries import Action, Branch, Preempt, Start, Stop, Wake
from dovetail.core.loop import Policy
from dovetail.core.model import JobId, Placement, Seconds
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.track import Track
from dovetail.core.view import View
from dovetail.tune.board import Board, Mirror
from dovetail.tune.closing import in_doubt_for, next_look, why_over
from dovetail.tune.newcomers import Newcomers
from dovetail.tune.rules import Copy, Cull, GiveUp, Rule, Verdict
from dovetail.tune.rules.turns import FifoRule
from dovetail.tune.study import PAUSED, RUNNING, STOPPED, Trial
from dovetail.workloads.study.entries import CloseStudy
from dovetail.workloads.study.kind import studies_of
from dovetail.workloads.study.track import StudyTrack

log = logging.getLogger("dovetail.tune")

_AGAIN_S: Final = 1.0

Slot: TypeAlias = tuple[int, int, int]  # a node, a GPU of it, and the order of submission


def make_rule(text: str) -> Rule:
    """Imported only when there is a study: rules may need numpy."""
    from dovetail.tune.rules import make

    return make(text)


class Exchanging:
    """Wraps a policy. `troubles` says, by study, why its rule does not decide."""

    def __init__(self, inner: Policy, make: Callable[[str], Rule] = make_rule) -> None:
        self.board: Final = Board()
        self.troubles: Final[dict[str, str]] = {}
        self._inner: Final = inner
        self._make: Final = make
        self._rules: Final[dict[str, Rule]] = {}

    def decide(self, view: View) -> Iterable[Action]:
        actions = list(self._inner.decide(view))
        if not studies_of(view).open:
            return actions
        try:
            return self._exchanged(view, actions)
        except Exception:  # a mistake of ours: the policy's own decision is a good one, too
            log.exception("turns could not be exchanged")
            return actions

    def _exchanged(self, view: View, actions: list[Action]) -> list[Action]:
        for closed in self._rules.keys() - studies_of(view).open.keys():
            self.forget(closed)
        board = view.index(self.board)
        assert isinstance(board, Board)
        return _Draft(self, view, board, actions).decided()

    def rule_of(self, study: StudyTrack) -> Rule:
        rule = self._rules.get(study.id)
        if rule is None:
            try:
                rule = self._make(study.design.rule)
            except Exception as error:
                rule = self.give_up_on(study, error)
            self._rules[study.id] = rule
        return rule

    def give_up_on(self, study: StudyTrack, error: Exception) -> Rule:
        """Replace a rule that raises: it must not stop the scheduler."""
        rule, told = study.design.rule, f"{type(error).__name__}: {error}"
        log.exception("rule %r of study %r failed", rule, study.design.name)
        self.troubles[study.id] = f"rule {rule!r} failed ({told}); its trials run in order instead"
        self._rules[study.id] = FifoRule()
        return self._rules[study.id]

    def forget(self, study_id: str) -> None:
        self._rules.pop(study_id, None)
        self.troubles.pop(study_id, None)


@dataclass(slots=True)
class _Turns:
    """The decisions for one study at one moment."""

    track: StudyTrack
    mirror: Mirror
    started: dict[JobId, Placement] = field(default_factory=dict)
    stopped: list[Action] = field(default_factory=list)


class _Draft:
    """One decision, made from the policy's actions and the rules' picks."""

    def __init__(
        self, exchange: Exchanging, view: View, board: Board, actions: Sequence[Action]
    ) -> None:
        self._exchange: Final = exchange
        self._view: Final = view
        self._actions: Final = actions
        self._fresh: Final = board.fresh(view.now)
        self._board: Final = board
        self._turns: Final[dict[str, _Turns]] = {}
        self._away: Final[dict[JobId, None]] = {}  # trials that give way, in order
        self._looks: Final[list[Action]] = []
        self._newcomers: Final = Newcomers(view.room)

    def decided(self) -> list[Action]:
        over = {
            study.id: why
            for study in list(studies_of(self._view).open.values())
            if (why := why_over(study, self._view))
        }
        asked = self._asked(over)
        for study in studies_of(self._view).open.values():
            if study.id not in over:
                self._looks.extend(next_look(study, self._view.now))
        if not over and not asked:
            return [*self._actions, *self._looks]
        self._note_who_gives_way(over)
        for _, ask in sorted(asked, key=lambda row: row[0]):
            ask()
        return self._all(over)

    # ------------------------------------------------------------------------------ who is asked

    def _asked(self, over: dict[str, str]) -> list[tuple[Slot, Callable[[], None]]]:
        """Slots that the policy opens for a trial, and slots whose trial has made a step; in order
        of slots."""
        found: list[tuple[Slot, Callable[[], None]]] = []
        for action in self._actions:
            study = self._study_of(action.job_id) if isinstance(action, Start) else None
            if study is not None and isinstance(action, Start) and study.id not in over:
                found.append((_slot(action.placement, 0), _later(self._open, study, action)))
        moved = {_job_of(action) for action in self._actions if not isinstance(action, Start)}
        for study_id, numbers in self._fresh.items():
            study = studies_of(self._view).open.get(study_id)
            if study is None or study_id in over:
                continue
            turns = self._of(study)
            for number, before in sorted(numbers.items()):
                track = turns.mirror.jobs.get(number)
                if track is None or track.placement is None or track.job.id in moved:
                    continue
                self._judge(turns, number, before, track)
                slot = _slot(track.placement, track.sequence)
                found.append((slot, _later(self._step, turns, number, track)))
        return found

    def _study_of(self, job_id: JobId) -> StudyTrack | None:
        track = self._view.tracks.get(job_id)
        return None if track is None else studies_of(self._view).of(track)

    def _of(self, study: StudyTrack) -> _Turns:
        turns = self._turns.get(study.id)
        if turns is None:
            turns = self._turns[study.id] = _Turns(study, self._board.of(study))
        return turns

    def _note_who_gives_way(self, over: dict[str, str]) -> None:
        for action in self._actions:
            if isinstance(action, Preempt):
                study = self._study_of(action.job_id)
                if study is not None and study.id not in over:
                    self._pause(self._of(study), self._view.tracks[action.job_id])

    def _pause(self, turns: _Turns, track: Track) -> None:
        assert track.job.member is not None
        trial = turns.mirror.study.trials[track.job.member]
        if trial.steps < turns.mirror.study.steps:
            trial.standing = PAUSED
        else:
            turns.mirror.ending.append(trial)

    # ------------------------------------------------------------------------------- asking rules

    def _open(self, study: StudyTrack, start: Start) -> None:
        """The policy gives a slot to a study: start the trial that its rule picks."""
        if in_doubt_for(study, self._view.now):
            return
        turns, shape = self._of(study), self._view.tracks[start.job_id].shape
        chosen = self._picked(turns, None, start.placement, shape)
        if chosen is not None:
            self._give(turns, chosen, start.placement, shape)

    def _give(self, turns: _Turns, trial: Trial, placement: Placement, instead: Shape) -> None:
        track = turns.mirror.jobs[trial.number]
        self._newcomers.comes(track, placement, instead)
        trial.standing = RUNNING
        trial.turn = 0
        turns.mirror.study.switches += 1
        turns.started[track.job.id] = placement

    def _judge(self, turns: _Turns, number: int, before: int, track: Track) -> None:
        """A running trial has made steps since it had made `before`. All trials are judged before
        any slot is given; a trial is not judged while it trains a stage that others share."""
        trial = turns.mirror.study.trials[number]
        if trial.standing is RUNNING and track.job.id == turns.track.trials[number].job:
            verdict = self._verdict(turns, trial, before)
            if verdict is not None:
                self._carry_out(turns, trial, track, verdict)

    def _step(self, turns: _Turns, number: int, track: Track) -> None:
        """Does the trial keep its slot? It may be about to end by itself, or was just given up."""
        trial = turns.mirror.study.trials[number]
        if trial.standing is not RUNNING or track.pinned:
            return
        placement = track.placement
        if placement is not None and _may_be_given_on(track, self._view.room):
            chosen = self._picked(turns, trial, placement, track.shape)
            if chosen is trial:
                return
            self._pause(turns, track)
            self._away[track.job.id] = None
            if chosen is not None:
                self._give(turns, chosen, placement, track.shape)

    def _carry_out(self, turns: _Turns, trial: Trial, track: Track, verdict: Verdict) -> None:
        if isinstance(verdict, GiveUp | Cull):
            for one in verdict.trials if isinstance(verdict, Cull) else (trial,):
                self._end(turns, one, verdict.reason)
        elif isinstance(verdict, Copy):
            trial.standing = STOPPED
            source = turns.track.trials[verdict.source.number].job
            turns.stopped.append(Branch(track.job.id, source, tuple(verdict.settings.items())))

    def _end(self, turns: _Turns, trial: Trial, reason: str) -> None:
        told = turns.track.trials[trial.number]
        present = [job_id for job_id in told.jobs if job_id in self._view.tracks]
        if present and present[0] == told.job:  # else other trials need the stage it trains
            trial.standing = STOPPED
            turns.stopped.append(Stop(told.job, reason, None, True))

    def _verdict(self, turns: _Turns, trial: Trial, before: int) -> Verdict:
        """Ask after every step, also if several were reported at once: no rung may be passed over."""
        rule, verdict = self._exchange.rule_of(turns.track), None
        try:
            for steps in range(before + 1, trial.steps + 1):
                with as_after(trial, steps):
                    verdict = rule.verdict(turns.mirror.study, trial)
                if verdict is not None:
                    break
        except Exception as error:
            self._exchange.give_up_on(turns.track, error)
        return verdict

    def _picked(
        self, turns: _Turns, leaving: Trial | None, where: Placement, instead: Shape
    ) -> Trial | None:
        """Among those that could run there."""
        others = [
            (trial, trial.standing)
            for trial in turns.mirror.study.waiting()
            if not self._could_run(turns.mirror.jobs.get(trial.number), where, instead)
        ]
        for trial, _ in others:
            trial.standing = RUNNING  # so rules do not pick it
        try:
            if leaving is None and (last := self._only_to_end(turns, where, instead)) is not None:
                return last
            return self._picked_of_all(turns, leaving)
        finally:
            for trial, standing in others:
                trial.standing = standing

    def _could_run(self, track: Track | None, where: Placement, instead: Shape) -> bool:
        """Not if its processes wait on other nodes, which are there to go on, or cannot leave."""
        if track is None:
            return True
        home, room = track.home, self._view.room
        if home is not None and len(room.nodes) > 1:
            nodes = {n for n, _ in where.slices}
            away = [n for n, _ in home.slices if n not in nodes and n not in room.gone]
            if any([track.tied or room.open[n] for n in away]):
                return False
        return self._newcomers.could_come(track, where, instead)

    def _only_to_end(self, turns: _Turns, where: Placement, instead: Shape) -> Trial | None:
        """Such trials come first: that takes little time."""
        for trial in turns.mirror.ending:
            if self._could_run(turns.mirror.jobs.get(trial.number), where, instead):
                turns.mirror.ending.remove(trial)
                return trial
        return None

    def _picked_of_all(self, turns: _Turns, leaving: Trial | None) -> Trial | None:
        study, rule = turns.mirror.study, self._exchange.rule_of(turns.track)
        try:
            chosen = rule.pick(study, leaving)
            if chosen is not None and chosen is not leaving and not chosen.waits:
                raise ValueError(f"it picked trial {chosen.number}, which does not wait")
        except Exception as error:
            return self._exchange.give_up_on(turns.track, error).pick(study, leaving)
        return chosen

    # ------------------------------------------------------------------------------- all together

    def _all(self, over: dict[str, str]) -> list[Action]:
        """Stops before starts: a start may need the GPUs that a stop frees."""
        ends = [action for turns in self._turns.values() for action in turns.stopped]
        for study_id, why in over.items():
            ends += self._closing(studies_of(self._view).open[study_id], why)
        ended = {action.job_id for action in ends if isinstance(action, Stop | Branch)}
        starts, stay = self._starts(ended)
        others = [
            _not_at_once(action, self._view.now)
            for action in self._actions
            if not isinstance(action, Start) and _job_of(action) not in ended | stay
        ]
        away = [Preempt(job_id) for job_id in self._away if job_id not in stay]
        if ends:
            # the policy decides about the GPUs that are left
            self._looks.append(Wake(self._view.now))
        return [*ends, *others, *away, *starts, *self._looks]

    def _closing(self, study: StudyTrack, why: str) -> list[Action]:
        jobs = [job_id for trial in study.trials.values() for job_id in trial.jobs]
        live = [job_id for job_id in jobs if job_id in self._view.tracks]
        return [*(Stop(job_id, why, None, True) for job_id in live), CloseStudy(study.id, why)]

    def _starts(self, ended: set[JobId]) -> tuple[list[Start], set[JobId]]:
        """Which trial starts where; a trial that was to give way and is picked again stays."""
        given: dict[JobId, Placement] = {}
        for turns in self._turns.values():
            given.update(_settled(turns.started, self._view))
        stay = {
            job_id
            for job_id, where in given.items()
            if self._view.tracks[job_id].placement == where
        }
        starts = [
            action
            for action in self._actions
            if isinstance(action, Start) and self._study_of(action.job_id) is None
        ]
        starts += [
            Start(job_id, where) for job_id, where in given.items() if job_id not in stay | ended
        ]
        return starts, stay


@contextmanager
def as_after(trial: Trial, steps: int) -> Iterator[None]:
    """The trial as it was after so many steps."""
    losses, best, turn = trial.losses, trial.best, trial.turn
    if steps < len(losses):
        trial.losses, trial.best = losses[:steps], best[:steps]
        trial.turn = max(turn - (len(losses) - steps), 0)
    try:
        yield
    finally:
        trial.losses, trial.best, trial.turn = losses, best, turn


def _may_be_given_on(track: Track, room: Room) -> bool:
    """Could another job of the same shape start where this one runs? Not on a node that is being
    drained or a GPU that is closed, beside processes that are not ours, or for a tenant whose quota
    was cut."""
    placement, tenant = track.placement, room.tenants.get(track.shape.tenant)
    assert placement is not None
    if tenant is not None and room.held[tenant.name] > tenant.gpu_quota:
        return False
    return all([room.open[n] and not room.denied(n) & mask for n, mask in placement.slices])


def _settled(started: dict[JobId, Placement], view: View) -> dict[JobId, Placement]:
    """If a trial is moved and another takes its GPUs, the first stays and the other goes where it
    would have gone."""
    found = dict(started)
    for job_id in started:
        home = view.tracks[job_id].placement
        other = next((own for own, where in found.items() if where == home), None)
        if home is not None and other is not None and other != job_id:
            found[other], found[job_id] = found[job_id], home
    return found


def _slot(placement: Placement, sequence: int) -> Slot:
    node, mask = placement.slices[0]
    return node, mask.bit_length() - 1 if not mask else (mask & -mask).bit_length() - 1, sequence


def _not_at_once(action: Action, now: Seconds) -> Action:
    """A policy whose actions were changed may ask to be woken at this very moment, again and again:
    it is woken a little later."""
    return Wake(now + _AGAIN_S) if isinstance(action, Wake) and action.at <= now else action


def _job_of(action: Action) -> JobId | None:
    return getattr(action, "job_id", None)


def _later(ask: Callable[..., None], *given: object) -> Callable[[], None]:
    return lambda: ask(*given)
