"""Whether a job in pods can give way, and whether what it has done outlives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.worlds.kubernetes import manifest
from dovetail.worlds.kubernetes.channel import Channel
from dovetail.worlds.kubernetes.pods import Pod
from dovetail.worlds.kubernetes.settings import Settings
from dovetail.worlds.world import Order


@dataclass(frozen=True, slots=True)
class Manners:
    """By what its user says, and what the agents say of its pods."""

    settings: Settings
    channel: Channel

    def saves_itself(self, order: Order, pods: Sequence[Pod]) -> bool:
        """Does the job save itself, so that nothing is lost when its pods end?"""
        said = (self.channel.answer(pod.uid).saves_itself for pod in pods)
        return manifest.is_kept(order, self.settings) and (order.saves_itself or any(said))

    def obstacle(self, order: Order, pods: Sequence[Pod]) -> str:
        """Why it could not give way now; "" if it could."""
        if not order.preemptible:
            return "its user does not want it to give way"
        if order.restartable or self.saves_itself(order, pods):
            return ""
        return next((why for why in map(self._cannot_suspend, pods) if why), "")

    def _cannot_suspend(self, pod: Pod) -> str:
        if pod.probe:
            return pod.probe
        if not self.channel.has_agent(pod.node):
            return f"there is no agent on {pod.node}, and it does not save itself"
        return self.channel.answer(pod.uid).obstacle
