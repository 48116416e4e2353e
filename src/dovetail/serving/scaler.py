"""How many servers each group has: the scaling rules of services, asked every second of the run."""

from __future__ import annotations

from dovetail.serving.site import ServingSite


class Scaler:
    """Asks the rule of each service that may have more or fewer replicas."""

    def __init__(self, site: ServingSite) -> None:
        self._site = site

    def begin(self) -> None:
        """Groups of a fixed size need nobody."""
