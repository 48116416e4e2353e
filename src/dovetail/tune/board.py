"""The live studies as rules see them, kept up to date from the state step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf
from typing import Final, final

from dovetail.core.entries import Reported
from dovetail.core.model import WHOLE_GPU, Node, Seconds
from dovetail.core.room import Room
from dovetail.core.shape import Shape
from dovetail.core.track import Track
from dovetail.core.view import CLOSES, REPORTS, View
from dovetail.tune.study import DONE, NEW, PAUSED, RUNNING, Study, Trial, TrialStanding, bounded
from dovetail.workloads.study.design import Design
from dovetail.workloads.study.kind import studies_of
from dovetail.workloads.study.track import Point, StudyTrack, TrialTrack

UNMEASURED_SWITCH: Final = 0.25  # steps that a switch is taken to cost before anything is known


def loss_of(design: Design, value: float) -> float:
    """The loss of a reported value: lower is better; infinite if the value is not finite."""
    return bounded(value if design.direction == "min" else -value)


def age_of(design: Design, trial: TrialTrack, point: Point) -> int:
    """The number of the step, counted from 1; some scripts count from 0."""
    return age_at(point.step, trial.points[0].step, design.report_every)


def age_at(step: float, first: float, every: float) -> int:
    """The number of the step, from the step reported, the first step reported and the number of
    reports."""
    return ceil(step / every) + int(first <= 0)


def losses_since(losses: Sequence[float], age: int, loss: float) -> list[float]:
    """One loss for each step up to that age; a gap is filled with the loss before it, or with the
    first."""
    missing = age - len(losses)
    return [losses[-1] if losses else loss] * (missing - 1) + [loss] * (missing > 0)


def steps_of(design: Design, trial: TrialTrack) -> int:
    """The number of steps a trial has made."""
    return age_of(design, trial, trial.points[-1]) if trial.points else 0


@final
class Mirror:
    """One study as rules see it. Standings are those of the last `sync`; a draft may change them."""

    def __init__(self, track: StudyTrack) -> None:
        design = track.design
        steps = ceil(design.steps / design.report_every)
        self.track: Final = track
        self.study: Final = Study(steps, planned=design.planned, seed=design.seed)
        self.jobs: Final[dict[int, Track]] = {}  # by trial: the job that runs or could run
        # trials that have made all their steps but have not ended
        self.ending: Final[list[Trial]] = []
        self._made_at: Final[list[list[Seconds]]] = []  # by trial: when each step was made
        self._seen: Final[list[int]] = []  # by trial: the number of points already read
        # steps that follow another step of the same stint; their seconds
        self._undisturbed = [0, 0.0]
        if design.target is not None:
            self.study.target = loss_of(design, design.target)

    def sync(self, view: View) -> Mirror:
        """Bring every trial to what the state says now; changes made in a draft are forgotten."""
        self.jobs.clear()
        self.ending.clear()
        self.study.planned = self.track.design.planned
        self._grow()
        for trial in self.study.trials:
            self._sync_trial(trial, self.track.trials[trial.number], view)
        self._sync_circumstances(view)
        return self

    def learn(self, number: int) -> tuple[int, int]:
        """Take in a report of the trial: the number of steps it had made before, and has made now."""
        self._grow()
        trial = self.study.trials[number]
        before = trial.steps
        self._learn(trial, self.track.trials[number])
        return before, trial.steps

    def _grow(self) -> None:
        """Trials are numbered as they are submitted, without gaps."""
        trials = self.study.trials
        for number in range(len(trials), len(self.track.trials)):
            trials.append(Trial(number, dict(self.track.trials[number].settings)))
            self._made_at.append([])
            self._seen.append(0)

    def _sync_trial(self, trial: Trial, told: TrialTrack, view: View) -> None:
        self._learn(trial, told)
        trial.settings = dict(told.settings)
        trial.seconds = told.held_by(view.now)
        since = told.stints[-1].since if told.stints else -1.0
        trial.turn = _later_than(self._made_at[trial.number], since)
        trial.standing = self._standing(trial, told, view)

    def _learn(self, trial: Trial, told: TrialTrack) -> None:
        """Add one loss for each step, however often the trial reports."""
        number, made_at = trial.number, self._made_at[trial.number]
        for point in told.points[self._seen[number] :]:
            age = min(age_of(self.track.design, told, point), self.study.steps)
            if age > trial.steps and made_at and made_at[-1] > _began(told, point.at):
                self._undisturbed[0] += age - trial.steps
                self._undisturbed[1] += point.at - made_at[-1]
            for loss in losses_since(trial.losses, age, loss_of(self.track.design, point.value)):
                trial.report(loss)
                made_at.append(point.at)
        self._seen[number] = len(told.points)

    def _standing(self, trial: Trial, told: TrialTrack, view: View) -> TrialStanding:
        if told.is_over:
            return TrialStanding(told.standing)
        track = _at_hand(told, view)
        if track is not None:
            self.jobs[trial.number] = track
        if trial.steps >= self.study.steps:
            if track is not None and track.placement is None:
                self.ending.append(trial)
            return DONE
        if track is None or track.placement is not None:
            return RUNNING  # or not available: its user, or a stage that it shares, keeps it back
        return PAUSED if trial.steps or told.stints else NEW

    def _sync_circumstances(self, view: View) -> None:
        study, track, design = self.study, self.track, self.track.design
        step_s = self.step_s(view.now)
        study.now = track.age_s(view.now) / step_s
        study.switches = track.switches
        study.switch_cost = self.switch_s(view) / step_s
        study.slots = self._slots(view)
        starts = [
            max(start_s / step_s - study.switch_cost, 0.0) for start_s in self._starts(step_s, 1)
        ]
        study.starting = sum(starts) / study.slots
        ends = [inf if design.budget_s is None else design.budget_s]
        if design.deadline is not None:
            ends.append(design.deadline - track.opened_at)
        study.deadline = min(ends) / step_s if min(ends) < inf else None

    def step_s(self, now: Seconds) -> Seconds:
        """The mean seconds of a step, without starts where they can be told apart; 1 before the
        first step."""
        if self._undisturbed[1] > 0:
            return self._undisturbed[1] / self._undisturbed[0]
        steps = sum([len(made) for made in self._made_at])
        used_s = sum([trial.held_by(now) for trial in self.track.trials.values()])
        return used_s / steps if steps and used_s > 0 else 1.0

    def switch_s(self, view: View) -> Seconds:
        """The seconds to give a slot to another trial, as measured. Before the first measurement:
        the seconds of a start, but only a little of them, since freezing a trial takes a hundredth
        of a start."""
        taken = [
            max(saved, 0.0) + max(restored, 0.0)
            for saved, restored in self._switches(view)
            if saved >= 0 or restored >= 0
        ]
        if taken:
            return sum(taken) / len(taken)
        step_s = self.step_s(view.now)
        starts = self._starts(step_s, 2)
        unmeasured = UNMEASURED_SWITCH * step_s
        return min(sum(starts) / len(starts), unmeasured) if starts else unmeasured

    def _starts(self, step_s: Seconds, points: int) -> list[Seconds]:
        """The seconds of the first start of each trial that has reported so often, without a step."""
        return [
            max(told.points[0].at - told.stints[0].since - step_s, 0.0)
            for told in self.track.trials.values()
            if len(told.points) >= points and told.stints
        ]

    def _switches(self, view: View) -> Iterator[tuple[Seconds, Seconds]]:
        for told in self.track.trials.values():
            track = view.tracks.get(told.job)
            own = told if track is None else track
            yield own.saved_in_s, own.restored_in_s

    def _slots(self, view: View) -> int:
        shapes = [track.shape for track in self.jobs.values()]
        most = most_at_once(view.room, shapes[0]) if shapes else 1
        return max(min(most, self.track.design.at_once or most), 1)


def _at_hand(told: TrialTrack, view: View) -> Track | None:
    """The trial's job that runs or could run."""
    for job_id in told.jobs:
        track = view.tracks.get(job_id)
        if track is not None and (track.placement is not None or not track.barred or track.benched):
            return None if track.placement is None and track.held else track
    return None


def _began(told: TrialTrack, at: Seconds) -> Seconds:
    """The start of the stint in which the trial was at that time."""
    return next((stint.since for stint in reversed(told.stints) if stint.since < at), -1.0)


def _later_than(times: list[Seconds], since: Seconds) -> int:
    """The number of times, which rise, that come after the given one."""
    number = 0
    while number < len(times) and times[-1 - number] > since:
        number += 1
    return number


def most_at_once(room: Room, shape: Shape) -> int:
    """The number of jobs of this shape that the open nodes could hold if they were empty."""
    number = 0
    for pool in room.eligible(shape):
        for n in pool.members:
            if room.open[n]:
                number += _most_on(room.nodes[n], shape)
    return max(number, 1)


def _most_on(node: Node, shape: Shape) -> int:
    """The same for one node: the scarcest resource decides."""
    most = [
        int(has // needs)
        for has, needs in ((node.cpus, shape.cpus), (node.memory_gb, shape.memory_gb))
        if needs > 0 and has < inf
    ]
    if shape.gpus:
        most.append(node.gpus // shape.gpus * (WHOLE_GPU // shape.share))
    return min(most, default=0)


@final
class Board:
    """All open studies as rules see them, and the trials whose latest step no decision has used yet."""

    def __init__(self) -> None:
        self.watches = REPORTS | CLOSES
        self._view: View | None = None
        self._known: Final[dict[str, Mirror]] = {}
        # By study and trial: the time of the first look at its new step (-1: none yet), and the
        # steps it had made at the look before. A second look at the same moment finds the same, so
        # that deciding twice gives the same decision.
        self._fresh: Final[dict[tuple[str, int], tuple[Seconds, int]]] = {}

    def build(self, view: View) -> Board:
        """A trial that was running when an earlier daemon stopped may have reported just before that."""
        self._view = view
        self._known.clear()
        self._fresh.clear()
        for study in studies_of(view).open.values():
            for trial in study.trials.values():
                if trial.points and 0 <= trial.since < trial.points[-1].at:
                    steps = steps_of(study.design, trial)
                    self._fresh[study.id, trial.number] = (-1.0, steps - 1)
        return self

    def of(self, study: StudyTrack) -> Mirror:
        """The study as it is now."""
        assert self._view is not None
        return self._mirror(study).sync(self._view)

    def _mirror(self, study: StudyTrack) -> Mirror:
        found = self._known.get(study.id)
        if found is None or found.track is not study:
            found = self._known[study.id] = Mirror(study)
        return found

    def fresh(self, now: Seconds) -> dict[str, dict[int, int]]:
        """By study: the trials that have made a step since the last look, and the steps they had
        made then."""
        found: dict[str, dict[int, int]] = {}
        for key, (looked_at, before) in list(self._fresh.items()):
            if 0 <= looked_at < now:
                del self._fresh[key]
            else:
                self._fresh[key] = (now, before)
                found.setdefault(key[0], {})[key[1]] = before
        return found

    def reports(self, track: Track, entry: Reported) -> bool:
        number, study = track.job.member, None
        if number is not None and self._view is not None:
            study = studies_of(self._view).of(track)
        if study is None or number is None:
            return False
        before, steps = self._mirror(study).learn(number)
        if steps > before:
            looked_at, earlier = self._fresh.get((study.id, number), (0.0, before))
            self._fresh[study.id, number] = (-1.0, earlier if looked_at < 0 else before)
        return True

    def closes(self, study: StudyTrack, reason: str) -> None:
        self._known.pop(study.id, None)
        for key in [key for key in self._fresh if key[0] == study.id]:
            del self._fresh[key]
