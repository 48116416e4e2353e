"""An SLO that cannot be kept as the service is: what stands in its way, and what would help."""

from __future__ import annotations

from dovetail.daemon.services.scene import ServiceScene
from dovetail.daemon.services.wake_times import WakeTimes
from dovetail.workloads.service.scaling import SeenLoad


def slo_trouble(
    seen: SeenLoad, least_service_s: float, times: WakeTimes, scene: ServiceScene
) -> str:
    """ "" if nothing does, as far as is known."""
    slo_s = scene.design.slo_s
    if slo_s is None:
        return ""
    if least_service_s > slo_s:
        return _no_number_helps(least_service_s, slo_s)
    if seen.service_s > slo_s:
        return _too_many_at_once(seen.service_s, least_service_s, slo_s, scene)
    if seen.tail_s > slo_s and scene.wanted >= scene.most and seen.awake >= scene.most:
        return _too_few_allowed(seen, slo_s, scene)
    if scene.least == 0 and times.has_woken and times.wake_s > slo_s:
        return _waking_is_too_slow(times.wake_s, slo_s)
    return ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


def _no_number_helps(least_s: float, slo_s: float) -> str:
    return (
        f"a replica alone takes {_ms(least_s)} for an answer at best: no number of them keeps "
        f"{_ms(slo_s)}; a smaller model, a faster GPU or slo_ms above {_ms(least_s)} would"
    )


def _too_many_at_once(service_s: float, least_s: float, slo_s: float, scene: ServiceScene) -> str:
    return (
        f"a replica takes {_ms(service_s)} for an answer when it has several ({_ms(least_s)} at best), "
        f"the SLO is {_ms(slo_s)}: at_once below {scene.design.at_once} would keep it"
    )


def _too_few_allowed(seen: SeenLoad, slo_s: float, scene: ServiceScene) -> str:
    return (
        f"{scene.design.percentile:g} of 100 answers take {_ms(seen.tail_s)} instead of {_ms(slo_s)} "
        f"with the {scene.most} replicas it may have: dovetail services scale {scene.design.name} "
        f"{scene.least}-{scene.most + 1} allows one more"
    )


def _waking_is_too_slow(wake_s: float, slo_s: float) -> str:
    return (
        f"a request that wakes a replica waits {_ms(wake_s)}, more than the {_ms(slo_s)} of the SLO; "
        "with min: 1 nobody has to"
    )
