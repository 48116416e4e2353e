"""The journal's note of a declared job or study: that it was taken on, as what, and under which ids.

It is written with the submission itself, in one transaction: nothing is taken on twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

from dovetail.worlds.declared import Declared

PREFIX: Final = "declared "


@dataclass(frozen=True, slots=True)
class DeclaredNote:
    kind: str
    tenant: str
    fields: Mapping[str, str]  # of its spec when it was taken on, as digests: some are secrets
    ids: tuple[str, ...] = ()  # of its jobs, or of its study

    def text(self) -> str:
        kept = {"kind": self.kind, "tenant": self.tenant, "fields": dict(self.fields)}
        return json.dumps({**kept, "ids": list(self.ids)})

    def with_ids(self, ids: list[str]) -> DeclaredNote:
        return replace(self, ids=tuple(ids))

    def edited(self, declared: Declared) -> list[str]:
        """The fields that are not as they were."""
        now = _digests(declared.spec)
        names = {*self.fields, *now}
        return sorted(name for name in names if self.fields.get(name) != now.get(name))


def key_of(declared: Declared) -> str:
    return PREFIX + declared.key


def note_of(declared: Declared) -> DeclaredNote:
    return DeclaredNote(declared.kind, declared.tenant, _digests(declared.spec))


def note_in(text: str) -> DeclaredNote:
    found = json.loads(text)
    ids = tuple(found.pop("ids"))
    return DeclaredNote(**found, ids=ids)


def _digests(spec: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()
        for name, value in spec.items()
        if value is not None  # it counts as left out
    }
