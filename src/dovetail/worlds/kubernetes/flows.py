"""What is done to the pods of a launch, step by step: make them, suspend them, let them go on, end them.

Each is a generator that yields whenever it has to wait, with the time (monotonic) by which it wants to
be looked at even if nothing happens. So thousands of them wait without a thread, and one of few workers
goes on with whichever has something new. Whatever a flow did before it may be asked to do again: a
controller that was killed in the middle leaves the rest to the next.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from time import monotonic

from dovetail.worlds.agent import COOPERATE, KILL, Done, Used, WorkOutcome
from dovetail.worlds.kubernetes import channel as orders
from dovetail.worlds.kubernetes.bringing_up import GangMaking, Mission, Waits
from dovetail.worlds.kubernetes.channel import Answer
from dovetail.worlds.kubernetes.closing import LOOK_S, TRY_AGAIN_S
from dovetail.worlds.kubernetes.launch_notes import GangNote


class Flows(GangMaking):
    """Those that an errand may be."""

    # ----------------------------------------------------------------------------------- making

    def bring_up(self, mission: Mission) -> Waits:
        if mission.gang.note is not None and mission.gang.note.is_made:
            return (yield from self._go_on(mission))
        return (yield from self._bring_up_new(mission))

    # ---------------------------------------------------------------------------- giving way

    def give_way(self, mission: Mission) -> Waits:
        order, gang, began = mission.errand.order, mission.gang, monotonic()
        troubles: list[str] = []
        if not order.preemptible:
            troubles.append("its user does not want it to give way")
        else:
            answers = yield from self._suspend(mission, troubles)
            if answers:
                used = replace(_used(answers, began, True), tied=not mission.saves_itself)
                return self._done(mission, WorkOutcome.PARKED, used)
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
        yield from self._end(mission, 0)
        return self._done(mission, WorkOutcome.GONE, Used(KILL, monotonic() - began, 0, False))

    def save_itself(self, mission: Mission) -> Waits:
        """A job that saves itself: its pods end, and new pods go on with other GPUs."""
        job_id, began = mission.errand.run.job_id, monotonic()
        troubles: list[str] = []
        if not (mission.errand.order.preemptible and mission.saves_itself):
            trouble = "it does not save itself to where its pod's end does not matter"
            return Done(job_id, WorkOutcome.STAYED, trouble=trouble)
        rung = yield from self._cooperate(mission, troubles)
        if not rung:
            return Done(job_id, WorkOutcome.STAYED, trouble="; ".join(troubles))
        return self._done(mission, WorkOutcome.GONE, Used(rung, monotonic() - began, 0, False))

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
            until = monotonic() + self._settings.start_within_s
            return (yield from self._up_by(self._wait_until_up(mission, until), mission))
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
        yield from self._end(mission, mission.errand.order.grace_s)
        return Done(mission.errand.run.job_id, WorkOutcome.ENDED)


def _used(answers: Sequence[Answer], began: float, is_parked: bool) -> Used:
    """All together: as long as it took from here, and the bytes of all."""
    rung = next((own.rung for own in answers if own.rung), "freeze")
    return Used(rung, monotonic() - began, sum(own.bytes for own in answers), is_parked)
