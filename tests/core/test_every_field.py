"""A state from a snapshot and the rest of the journal is the state from the whole, field by field.

The fields are found by looking at the objects, so one that is added tomorrow is compared as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from random import Random
from types import MemberDescriptorType
from typing import Any

from hypothesis import given, settings

from chances import CHANCES
from dovetail.core.kept import ROOM_PASSING, STATE_INDEXES
from dovetail.core.shape import Shape
from dovetail.core.snapshot import packed, restore, told
from dovetail.core.state import State
from random_journals import MAKERS, all_kinds, journal

# By class: what is not compared, and why.
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "State": (
        *STATE_INDEXES,  # made anew by whoever asks for them
        *("_shapes", "_simple_shapes", "_lanes"),  # shapes are numbered anew
        *("capacity", "_suspended_since", "_peak_suspended"),  # of long ago: kept in brief
        "_remembers",
    ),
    "Room": ROOM_PASSING,
    "Pool": ("returned", "forgotten", "counted", "counted_upto"),  # for speed
}
IN_ORDER = ("_tracks", "_running")  # as policies walk over them


def fields_of(thing: object) -> list[str]:
    """All that an object holds, whether its class is compiled, has slots or neither."""
    found = set(getattr(thing, "__dict__", ()))
    for kind in type(thing).__mro__:
        found.update(vars(kind).get("__mypyc_attrs__", ()))
        slots = vars(kind).items()
        found.update(name for name, own in slots if isinstance(own, MemberDescriptorType))
        told = vars(kind).get("__annotations__", {})
        found.update(name for name, hint in told.items() if "ClassVar" not in str(hint))
    return sorted(name for name in found if not name.startswith("__"))


def plain(thing: Any, above: tuple[int, ...] = ()) -> Any:
    """Everything that can be reached from it, as plain values."""
    if isinstance(thing, float):
        return round(thing, 6)
    if thing is None or isinstance(thing, int | str | bytes):
        return thing
    if isinstance(thing, Enum):
        return thing.value
    if isinstance(thing, Shape):
        return str(thing)
    if id(thing) in above:
        return "above"
    above = (*above, id(thing))
    if isinstance(thing, dict):
        return {key: plain(value, above) for key, value in thing.items()}
    if isinstance(thing, set | frozenset):
        return sorted(map(plain, thing))
    if isinstance(thing, list | tuple | deque):
        return [plain(one, above) for one in thing]
    if not type(thing).__module__.startswith("dovetail."):
        return repr(thing)
    name = type(thing).__name__
    values = {
        field: plain(getattr(thing, field), above)
        for field in fields_of(thing)
        if field not in LEFT_OUT.get(name, ())
    }
    if values.get("ended_at", -1.0) >= 0:
        values["shape"] = ""  # nobody asks whether tenants mattered when it was last shaped
    if "_dependants" in values:  # those that have ended are passed over there
        live = {key: _open_ones(tracks) for key, tracks in values["_dependants"].items()}
        values["_dependants"] = {key: tracks for key, tracks in live.items() if tracks}
    orders = {f"order of {field}": list(values[field]) for field in IN_ORDER if field in values}
    return {"class": name, **values, **orders}


def _open_ones(tracks: list[Any]) -> list[Any]:
    return [track for track in tracks if track["ended_at"] < 0]


def folded(entries: list[Any], cut: int) -> tuple[State, State]:
    """From the whole; and from a snapshot after so many, then the rest."""
    whole = State(past=1000)
    for entry in entries[:cut]:
        whole.record(entry)
    copy = restore(packed(told(whole)), past=1000)
    for entry in entries[cut:]:
        whole.record(entry)
        copy.record(entry)
    return whole, copy


def test_every_kind_of_entry_is_in_random_journals() -> None:
    assert set(MAKERS) == set(all_kinds())
    accepted: set[str] = set()
    for seed in range(60):
        accepted.update(type(entry).tag for entry in journal(Random(seed), 120))
    assert accepted == set(MAKERS)


@settings(max_examples=60)
@given(chance=CHANCES)
def test_a_snapshot_and_the_rest_lead_where_the_whole_journal_leads(chance: Random) -> None:
    entries = journal(chance, chance.randint(20, 150))
    whole, copy = folded(entries, chance.randint(0, len(entries)))
    seen, expected = plain(copy), plain(whole)
    for field in expected:
        assert seen[field] == expected[field], field


def test_a_field_that_a_snapshot_forgets_is_found() -> None:
    whole, copy = folded(journal(Random(1), 60), 60)
    assert plain(copy) == plain(whole)
    for track in copy.tracks.values():
        track.migrations += 1
    assert plain(copy) != plain(whole)
    whole, copy = folded(journal(Random(1), 60), 60)
    copy.room.occupied[0] = 4
    assert plain(copy) != plain(whole)
