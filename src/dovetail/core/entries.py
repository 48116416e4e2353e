"""Everything that a journal is made of: events (facts observed) and actions (decisions taken)."""

from __future__ import annotations

from typing import TypeAlias

from dovetail.core.actions import *  # noqa: F403
from dovetail.core.actions import Action
from dovetail.core.entry import Entry as Entry
from dovetail.core.events import *  # noqa: F403
from dovetail.core.events import Event

JournalEntry: TypeAlias = Event | Action
