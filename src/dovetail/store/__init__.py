"""The journal on disk: one SQLite file that survives kills, cuts and full disks."""

from dovetail.store.ended_jobs import EndedJob, Filter
from dovetail.store.joining import prepared_tail
from dovetail.store.journal_errors import JournalDamaged, JournalFull, JournalLost, JournalUnusable
from dovetail.store.reader import JournalReader
from dovetail.store.tail import PreparedTail
from dovetail.store.writer import Store

__all__ = [
    "EndedJob",
    "Filter",
    "JournalDamaged",
    "JournalFull",
    "JournalLost",
    "JournalReader",
    "JournalUnusable",
    "PreparedTail",
    "Store",
    "prepared_tail",
]
