"""What the controller writes for the agents, counted; without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from typing import Any

from dovetail.worlds.kubernetes.channel import SUSPEND, Channel, PodOrder
from dovetail.worlds.kubernetes.client import Api
from dovetail.worlds.kubernetes.config import Access
from dovetail.worlds.kubernetes.settings import Settings

UID = "0f40707b-d22d-45e9-a45c-2e5ae6fc4936"


class _Written(Api):
    """It keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__(Access("127.0.0.1", 1))
        self.rows: list[Mapping[str, Any]] = []

    def patch(self, path: str, body: dict[str, Any], kind: str = "") -> dict[str, Any]:
        self.rows.append(body["spec"]["pods"][0])
        return {"metadata": {"generation": len(self.rows)}}


class _AtOnce(Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def test_which_reports_are_known_is_told_with_the_next_order_or_when_it_is_much() -> None:
    api = _Written()
    channel = Channel(api, Settings(), _AtOnce(), lambda uid: None, lambda uid: "node1")
    channel.put("node1", PodOrder(UID, "trial", "default", "1", "containerd://1"))
    for upto in (100, 200, 300):
        channel.took(UID, upto)
    assert len(api.rows) == 1
    channel.want(UID, SUSPEND)
    assert [row["reportsUpto"] for row in api.rows] == [0, 300]
    channel.took(UID, 5000)
    assert [row["reportsUpto"] for row in api.rows] == [0, 300, 5000]
