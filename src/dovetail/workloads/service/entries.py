"""What the journal says of services, beside what their replicas do as jobs: never a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, final

from dovetail.core.entries import GroupEvent
from dovetail.core.model import Seconds
from dovetail.workloads.service.design import ServiceDesign

KIND: Final = "service"


@final
class ServiceDeclared(GroupEvent):
    """A user has asked for a service; its replicas are submitted as jobs of the group with its id."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "service-declared"
    fields: ClassVar[tuple[str, ...]] = ("at", "design")

    def __init__(self, at: Seconds, design: ServiceDesign) -> None:
        super().__init__(at)
        self.design: Final = design


@final
class ServiceScaled(GroupEvent):
    """So many replicas are wanted awake from now on, and why. `variant`: of which; empty: the service
    itself."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "service-scaled"
    fields: ClassVar[tuple[str, ...]] = ("at", "service_id", "replicas", "reason", "variant")

    def __init__(
        self, at: Seconds, service_id: str, replicas: int, reason: str, variant: str = ""
    ) -> None:
        super().__init__(at)
        self.service_id: Final = service_id
        self.replicas: Final = replicas
        self.reason: Final = reason
        self.variant: Final = variant


@final
class ServiceBounded(GroupEvent):
    """Its user allows another number of replicas."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "service-bounded"
    fields: ClassVar[tuple[str, ...]] = ("at", "service_id", "least", "most")

    def __init__(self, at: Seconds, service_id: str, least: int, most: int) -> None:
        super().__init__(at)
        self.service_id: Final = service_id
        self.least: Final = least
        self.most: Final = most


@final
class ServiceLoaded(GroupEvent):
    """A summary of the requests since the last one, as its gateway counted them."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "service-loaded"
    fields: ClassVar[tuple[str, ...]] = ("at", "service_id", "load")

    def __init__(self, at: Seconds, service_id: str, load: Mapping[str, float]) -> None:
        super().__init__(at)
        self.service_id: Final = service_id
        self.load: Final = load


@final
class ServicePaused(GroupEvent):
    """Its user wants no replica awake for now."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "service-paused"
    fields: ClassVar[tuple[str, ...]] = ("at", "service_id")

    def __init__(self, at: Seconds, service_id: str) -> None:
        super().__init__(at)
        self.service_id: Final = service_id


@final
class ServiceResumed(GroupEvent):
    """Its user lets it answer again."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "service-resumed"
    fields: ClassVar[tuple[str, ...]] = ("at", "service_id")

    def __init__(self, at: Seconds, service_id: str) -> None:
        super().__init__(at)
        self.service_id: Final = service_id


@final
class ServiceStopped(GroupEvent):
    """Its user wants no more of it; all its jobs have ended before."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "service-stopped"
    fields: ClassVar[tuple[str, ...]] = ("at", "service_id", "reason")

    def __init__(self, at: Seconds, service_id: str, reason: str) -> None:
        super().__init__(at)
        self.service_id: Final = service_id
        self.reason: Final = reason
