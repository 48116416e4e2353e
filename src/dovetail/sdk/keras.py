"""Keras: report after each epoch, save and leave when asked, go on from there.

    dovetail = DovetailCallback()
    model.fit(x, y, epochs=10, initial_epoch=dovetail.restore(model), callbacks=[dovetail])

Weights and optimizer go on exactly; dropout and shuffling draw anew. Keras can only begin at the
start of an epoch: asked in the middle of one, it keeps what it has learned and does it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from dovetail.sdk.checkpoints import checkpoint_dir
from dovetail.sdk.reports import report
from dovetail.sdk.stopping import stop_if_asked

NAME = "keras-{epoch}.weights.h5"


class DovetailCallback(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self._epoch = 0

    def restore(self, model: Any) -> int:
        """Load the last checkpoint into the compiled model; the epoch to begin with."""
        found = _newest()
        if found is None:
            return 0
        model.optimizer.build(model.trainable_variables)
        model.load_weights(found)
        self._epoch = _epoch(found)
        return self._epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        stop_if_asked(self._save)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch + 1
        report(self._epoch, **(logs or {}))
        stop_if_asked(self._save)

    def _save(self) -> None:
        """Write a whole new file, then remove the older one: its name says the epoch."""
        draft = checkpoint_dir() / "draft.weights.h5"
        self.model.save_weights(draft, overwrite=True)
        final = draft.with_name(NAME.format(epoch=self._epoch))
        draft.replace(final)
        for older in set(_all()) - {final}:
            older.unlink()


def _all() -> list[Path]:
    return list(checkpoint_dir().glob(NAME.format(epoch="*")))


def _newest() -> Path | None:
    return max(_all(), key=_epoch, default=None)


def _epoch(path: Path) -> int:
    return int(path.name.removeprefix("keras-").partition(".")[0])
