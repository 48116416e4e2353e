"""The journal on disk: one SQLite file that survives kills, cuts and full disks."""

from dovetail.backends.store.errors import JournalDamaged, JournalFull, JournalLost, JournalUnusable
from dovetail.backends.store.history import Ended, Filter
from dovetail.backends.store.reader import Reader
from dovetail.backends.store.store import Store

__all__ = [
    "Ended",
    "Filter",
    "JournalDamaged",
    "JournalFull",
    "JournalLost",
    "JournalUnusable",
    "Reader",
    "Store",
]
