"""What a gateway is told when it is started, and the bounds of what it holds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

CERTIFICATE: Final = "certificate"  # begins the line by which a gateway in a pod says who it is


@dataclass(frozen=True, slots=True)
class GatewayBounds:
    """How much of everything there may be at once, and for how long."""

    connections: int = 2048
    queue: int = 512  # requests that wait for a replica
    queue_s: float = 30.0  # how long one may wait
    at_once: int = 8  # requests that one replica has at the same time
    body_bytes: int = 64 * 1024 * 1024
    client_s: float = 10.0  # for a head, and for a client that neither sends nor reads
    keep_alive_s: float = 60.0
    connect_s: float = 2.0
    answer_s: float = 300.0  # until a replica begins its answer, and between two parts of it

    def __post_init__(self) -> None:
        for own in fields(self):
            if getattr(self, own.name) <= 0:
                raise ValueError(f"{own.name} is {getattr(self, own.name)}; it must be above 0")


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """`control` is the path of the Unix socket by which the daemon speaks to it; where `controller` is
    given, the port, and that the certificate (DER, base64) of the only one who may. `account`: the user,
    the group and the further groups whose rights it has while it answers; None: it keeps its own.
    The files of `tls` are read before."""

    service: str
    host: str
    port: int
    control: str
    slo_s: float | None = None
    bounds: GatewayBounds = field(default_factory=GatewayBounds)
    account: tuple[int, int, tuple[int, ...]] | None = None
    controller: str = ""
    network: str = ""  # how it was opened to other machines, who then show a token; "": it is not
    tls: tuple[str, str] | None = None  # files of a certificate and its key
    percentile: float = 99.0  # of the answers that should keep the SLO

    def text(self) -> str:
        return json.dumps(asdict(self))


def settings_in(text: str) -> GatewaySettings:
    given: dict[str, Any] = json.loads(text)
    return GatewaySettings(**{**given, "bounds": GatewayBounds(**given["bounds"])})
