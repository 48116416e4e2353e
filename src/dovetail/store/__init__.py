"""The journal on disk: one SQLite file that survives kills, cuts and full disks."""

from dovetail.store.errors import JournalDamaged, JournalFull, JournalLost, JournalUnusable
from dovetail.store.history import Ended, Filter
from dovetail.store.reader import Reader
from dovetail.store.writer import Store

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
