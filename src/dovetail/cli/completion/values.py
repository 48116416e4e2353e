"""What may be typed for a value: jobs, studies, services, GPUs and tenants of the daemon, or names.

Quick and silent: who presses Tab waits for it, and wants no message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import click

from dovetail.client.connection import Client
from dovetail.home import find_home

_WITHIN_S: Final = 0.5
_MOST: Final = 300

Found: TypeAlias = Iterator[tuple[str, str]]  # a value, and what it is
Complete: TypeAlias = Callable[[Client], Found]


def values_for(command: str, param: click.Parameter) -> Complete | None:
    """`command` without `dovetail`, such as `policy set`."""
    name, metavar = param.name or "", str(param.metavar or "")
    if "ID|NAME|PATTERN" in metavar or (command, name) in _ENDED:
        return _all_jobs if command.partition(" ")[0] in _ABOUT_ENDED else _live_jobs
    first = command.partition(" ")[0]
    if isinstance(param, click.Argument) and first in ("study", "services") and name == "name":
        return _studies if first == "study" else _services
    return _BY_PLACE.get((command, name)) or _BY_OPTION.get(name)


def kind_of(command: str, param: click.Parameter) -> str:
    """The catalogue that the value is named in; "" for none."""
    kind = getattr(param.type, "kind", "")
    if kind:
        return str(kind)
    places = {("policy set", "name"), ("policies", "name")}
    is_policy = param.name in ("policy", "policies") or (command, param.name) in places
    is_study = command.startswith(("tune", "study")) or (command, param.name) == (
        "serve",
        "policies",
    )
    return "policies" if is_policy and not is_study else ""


def ask(home: str | None, complete: Complete) -> list[tuple[str, str]]:
    client = Client(find_home(home), timeout_s=_WITHIN_S)
    try:
        return list(complete(client))
    finally:
        client.close()


# ------------------------------------------------------------------------------- of the daemon


def _live_jobs(client: Client) -> Found:
    yield from _told(client.get("/v1/jobs", limit=_MOST)["jobs"])


def _all_jobs(client: Client) -> Found:
    yield from _live_jobs(client)
    yield from _told(client.get("/v1/history", limit=_MOST // 10)["jobs"])


def _told(rows: list[dict[str, Any]]) -> Found:
    for row in rows:
        yield str(row["id"]), f"{row['name']}, {row['phase']}"
    for name in dict.fromkeys(row["name"] for row in rows if row["name"]):
        yield name, "by name"


def _studies(client: Client) -> Found:
    for row in client.get("/v1/studies")["studies"]:
        yield str(row["name"]), str(row["state"])


def _services(client: Client) -> Found:
    for row in client.get("/v1/services")["services"]:
        yield str(row["name"]), ""


def _gpus(client: Client) -> Found:
    for node in client.get("/v1/nodes")["nodes"]:
        yield node["id"], f"all {len(node['gpus'])}"
        for gpu in node["gpus"]:
            yield f"{node['id']}/{gpu['index']}", "closed" if gpu["closed"] else "open"


def _tenants(client: Client) -> Found:
    for row in client.get("/v1/tenants")["tenants"]:
        yield row["name"], "tenant"


def _users(client: Client) -> Found:
    for row in client.get("/v1/limits")["limits"]:
        yield row["user"], "user"


_ENDED: Final = frozenset({("again", "job")})
_ABOUT_ENDED: Final = frozenset({"show", "logs", "again", "history", "wait"})
_BY_PLACE: Final[Mapping[tuple[str, str], Complete]] = {
    ("nodes close", "gpus"): _gpus,
    ("nodes open", "gpus"): _gpus,
    ("tenant set", "name"): _tenants,
    ("limit set", "user"): _users,
}
_BY_OPTION: Final[Mapping[str, Complete]] = {
    "tenant": _tenants,
    **dict.fromkeys(("after", "after_any", "after_failed"), _all_jobs),
}
