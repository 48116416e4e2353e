"""Whether any configuration could keep the SLO of a service: said before a run, with what would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail.core.errors import BadInput
from dovetail.core.model import WHOLE_GPU
from dovetail.serving.service import ServedModel
from dovetail.text.durations import latency_text


def check_slos(services: Mapping[str, ServedModel], kinds: Iterable[str]) -> None:
    """A request alone, on the fastest GPU that the service may have, must be in time."""
    there = list(dict.fromkeys(kinds))
    for own in services.values():
        usable = [kind for kind in there if own.kind in ("", kind)]
        if not usable:
            raise BadInput(
                f"service {own.name!r} needs GPUs of kind {own.kind!r}; the cluster has "
                f"{', '.join(there) or 'none'}"
            )
        _check(own, usable)


def _check(own: ServedModel, kinds: list[str]) -> None:
    try:
        alone, kind = min((own.latency.seconds(1, kind, own.share), kind) for kind in kinds)
    except BadInput as error:
        raise BadInput(f"service {own.name!r}: {error}") from None
    if alone <= own.slo_s:
        return
    ways = [f"an SLO of {latency_text(alone)}"]
    whole, kind_of_whole = min((own.latency.seconds(1, one, WHOLE_GPU), one) for one in kinds)
    if whole <= own.slo_s:
        ways.append(f"the whole of {_gpu(kind_of_whole)} ({latency_text(whole)})")
    raise BadInput(
        f"service {own.name!r}: no configuration keeps its SLO of {latency_text(own.slo_s)}: one "
        f"request alone takes {latency_text(alone)} on {_part(own.share)}{_gpu(kind)}; what would: "
        f"{' or '.join(ways)}"
    )


def _part(share: int) -> str:
    return "" if share == WHOLE_GPU else f"{share / WHOLE_GPU:.0%} of "


def _gpu(kind: str) -> str:
    return "a GPU" if kind == "gpu" else f"a GPU of kind {kind}"
