"""Results cached in a folder, so that an interrupted analysis continues."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

from dovetail.insight.work import Map

FOLDER = "cache"
SEAL = 16  # bytes before each value, by which it is known to be whole
OURS = ("dovetail.insight.", "dovetail.predict.", "dovetail.analysis.")
PLAIN = {
    ("builtins", "complex"),
    ("builtins", "frozenset"),
    ("builtins", "set"),
    ("collections", "OrderedDict"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
}


class ResultCache:
    """Each value in a file of its own, which gets its name only when it is complete."""

    def __init__(self, out: Path, key: str) -> None:
        self.folder = out / FOLDER / key
        self.folder.mkdir(parents=True, exist_ok=True)

    def recall(self, name: str) -> Any | None:
        """The value cached under this name; None if there is none or it cannot be read."""
        try:
            told = (self.folder / name).read_bytes()
        except OSError:
            return None
        seal, packed = told[:SEAL], told[SEAL:]
        if seal != _seal(packed):
            return None  # a disk or a person changed it
        try:
            return _Careful(BytesIO(packed)).load()
        except Exception:  # whatever a pickle by somebody else may raise: it is measured again
            return None

    def keep(self, name: str, value: object) -> None:
        path = self.folder / name
        part = path.with_name(f"{name}.{os.getpid()}.part")
        packed = pickle.dumps(value, protocol=5)
        part.write_bytes(_seal(packed) + packed)
        part.replace(path)

    def remembering(self, part: str, run: Map) -> Map:
        """A map that runs only tasks without a cached result.

        A task is identified by the part, the number of the call and its index: a part that is asked
        the same question runs the same tasks in the same order.
        """
        calls = count()

        def mapped(
            task: Callable[..., Any], *given: Iterable[Any], **options: Any
        ) -> Iterator[Any]:
            call = f"{part}.{next(calls)}.{getattr(task, '__name__', 'task')}"
            rows = list(zip(*given, strict=False))
            kept = [self.recall(f"{call}.{i}") for i in range(len(rows))]
            left = [row for row, known in zip(rows, kept, strict=True) if known is None]
            done = iter(run(task, *zip(*left, strict=True), **options) if left else ())
            for place, known in enumerate(kept):
                if known is not None:
                    yield known[0]
                    continue
                value = next(done)
                self.keep(f"{call}.{place}", (value,))
                yield value

        return mapped


def _seal(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=SEAL).digest()


class _Careful(pickle.Unpickler):
    """Unpickles only plain values and our own classes: a folder may come from somebody else."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(OURS) or (module, name) in PLAIN:
            found = super().find_class(module, name)
            if (module, name) in PLAIN or isinstance(found, type):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not one of ours")
