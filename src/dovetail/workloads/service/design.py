"""The design of a service, as its user asked for it."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.core.model import Seconds


@dataclass(frozen=True, slots=True)
class ServiceDesign:
    """A service: requests that come to one address are answered by replicas."""

    id: str
    name: str
    user: str = ""
    tenant: str = ""  # whose quota its replicas count against
    port: int = 0  # of its address
    host: str = "127.0.0.1"
    least: int = 1  # replicas
    most: int = 1
    at_once: int = 8  # requests that one replica has at the same time
    slo_s: Seconds | None = None  # so fast an answer should be
    percentile: float = 99.0  # for so many of a hundred
    rule: str = "reactive"
    idle_s: Seconds | None = None  # after which a replica that is not needed sleeps; None: it ends
    spec: str = ""  # the whole description, as JSON

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most or self.most < 1:
            raise ValueError(f"service {self.id!r}: {self.least} to {self.most} replicas cannot be")
