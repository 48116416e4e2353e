"""What the journal says of studies, beside what their trials do as jobs."""

from __future__ import annotations

from typing import ClassVar, Final, final

from dovetail.core.entries import GroupAction, GroupEvent
from dovetail.core.model import Seconds
from dovetail.workloads.study.design import Design

KIND: Final = "study"


@final
class StudyOpened(GroupEvent):
    """A user has asked for a study; its trials are submitted as jobs of the group with its id."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "study-opened"
    fields: ClassVar[tuple[str, ...]] = ("at", "design")

    def __init__(self, at: Seconds, design: Design) -> None:
        super().__init__(at)
        self.design: Final = design


@final
class StudyStopped(GroupEvent):
    """The user wants no turns given for now; its trials are held one by one, their progress kept."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "study-stopped"
    fields: ClassVar[tuple[str, ...]] = ("at", "study_id")

    def __init__(self, at: Seconds, study_id: str) -> None:
        super().__init__(at)
        self.study_id: Final = study_id


@final
class StudyResumed(GroupEvent):
    """The user lets the study go on."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "study-resumed"
    fields: ClassVar[tuple[str, ...]] = ("at", "study_id")

    def __init__(self, at: Seconds, study_id: str) -> None:
        super().__init__(at)
        self.study_id: Final = study_id


@final
class StudyExtended(GroupEvent):
    """The user wants more trials: so many in all, from now on."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "study-extended"
    fields: ClassVar[tuple[str, ...]] = ("at", "study_id", "planned")

    def __init__(self, at: Seconds, study_id: str, planned: int) -> None:
        super().__init__(at)
        self.study_id: Final = study_id
        self.planned: Final = planned


@final
class StudyCancelled(GroupEvent):
    """The user wants no more of the study; all its jobs have ended before."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "study-cancelled"
    fields: ClassVar[tuple[str, ...]] = ("at", "study_id", "reason")

    def __init__(self, at: Seconds, study_id: str, reason: str) -> None:
        super().__init__(at)
        self.study_id: Final = study_id
        self.reason: Final = reason


@final
class CloseStudy(GroupAction):
    """The study is over, and why."""

    kind: ClassVar[str] = KIND
    tag: ClassVar[str] = "close-study"
    fields: ClassVar[tuple[str, ...]] = ("study_id", "reason")

    def __init__(self, study_id: str, reason: str) -> None:
        self.study_id: Final = study_id
        self.reason: Final = reason
