"""What `dovetail up` would refuse of a configuration file, said before it is typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from dovetail.cli.daemon.policy import with_predictor
from dovetail.cli.daemon.up import check_tls, with_cluster
from dovetail.cli.daemon.up_settings import line_of
from dovetail.config_file import ConfigFile
from dovetail.core.errors import BadInput
from dovetail.home import Home

if TYPE_CHECKING:
    from dovetail.predict.speed import SpeedPredictor

_FORGET: Final = "none"
_LOCAL: Final = "local"


def check_said(place: Home, file: ConfigFile, said: Mapping[str, Any]) -> None:
    """BadInput: the first that would be refused, with its line."""
    _together(place, file, said)
    for name, value in said.items():
        if name in _CHECKS and value != _FORGET:
            _at(file, name, partial(_CHECKS[name], value))
    if "policy" in said:
        _at(file, "policy", partial(_policy, said))
    if "gpus" in said and said.get("world", _LOCAL) == _LOCAL:
        _at(file, "gpus", partial(_gpus, said["gpus"]))
    if "listen" in said:
        _at(file, "listen", partial(_network, said))


def _at(file: ConfigFile, name: str, check: Callable[[], object]) -> None:
    try:
        check()
    except (BadInput, click.UsageError) as error:
        told = str(error)
        option = name.replace("_", "-")
        told = told.removeprefix(f"--{option} ").removeprefix(f"{option}: ")
        raise BadInput(f"{line_of(file, name)}: {option}: {told}") from None


def _together(place: Home, file: ConfigFile, said: Mapping[str, Any]) -> None:
    """What goes with something else."""
    asked = {"tls_cert": None, "tls_key": None, "without_tls": False, "listen": None, **said}
    for name in ("group", "admins"):
        if name in said and not place.system:
            _at(file, name, partial(_refuse, f"--{name} goes with --system"))
    for name in ("tls_cert", "tls_key", "without_tls"):
        if name in said:
            _at(file, name, partial(check_tls, asked))
    for name in ("kubeconfig", "context", "namespace"):
        if name in said:
            given = {"kubeconfig": None, "context": None, "namespace": None, name: said[name]}
            _at(file, name, partial(with_cluster, said.get("world"), given))
    if "predictor" in said and "policy" not in said:
        told = "--predictor goes with --policy, such as --policy qssf"
        _at(file, "predictor", partial(_refuse, told))


def _refuse(told: str) -> None:
    raise BadInput(told)


def _policy(said: Mapping[str, Any]) -> None:
    """With the speeds that the file names; of last time's nobody knows here."""
    from dovetail.core.state import State
    from dovetail.daemon.active_policy import make
    from dovetail.predict.speed import SameEverywhere

    table = said.get("speed_table")
    speeds = SameEverywhere() if table is None else None if table == _FORGET else _speeds(table)
    make(with_predictor(said["policy"], said.get("predictor")), speeds=speeds, view=State())


def _gpus(only: str) -> None:
    """Those of this machine."""
    from dovetail.worlds.local.machine import chosen_gpus, find_gpus

    chosen_gpus(find_gpus(), only)


def _free_memory(text: str) -> None:
    from dovetail.worlds.local.gpus.strangers import least_free

    least_free(text)


def _keep(words: Sequence[str]) -> None:
    from dovetail.daemon.history.retention import keep_of

    keep_of(words)


def _costs(path: str) -> None:
    from dovetail.daemon.history.costs import costs_here

    costs_here(path, [], epoch=0.0)


def _speeds(path: str) -> SpeedPredictor:
    from dovetail.predict.speed import SimilarModels
    from dovetail.traces.clusters.speed_tables import read_speed_table

    return SimilarModels(read_speed_table(path))


def _power_table(texts: Sequence[str]) -> None:
    from dovetail.daemon.power_limits import table_of

    table_of([text for text in texts if text != _FORGET])


def _group(option: str) -> Callable[[str], object]:
    def check(name: str) -> object:
        from dovetail.daemon.users.system_accounts import group_called

        return group_called(name, option)

    return check


def _network(said: Mapping[str, Any]) -> None:
    from dovetail.daemon.http.access import place_of
    from dovetail.daemon.http.tls import context_at

    _, (address, _) = place_of(said["listen"])
    how = said.get("tls_cert"), said.get("tls_key"), said.get("without_tls", False)
    context_at(address, *how)


_CHECKS: Final[Mapping[str, Callable[[Any], object]]] = {
    "free_memory": _free_memory,
    "keep": _keep,
    "costs": _costs,
    "speed_table": _speeds,
    "power_table": _power_table,
    "group": _group("--group"),
    "admins": _group("--admins"),
}
