"""Lightning: report metrics, save and leave when Dovetail asks for the GPUs, go on from there.

    trainer = Trainer(callbacks=[DovetailCallback()])
    trainer.fit(model, loader, ckpt_path=last_checkpoint())

Model, optimizers and counters go on exactly. Lightning itself begins the loader of an interrupted
epoch anew; give it one that keeps its place (torchdata's StatefulDataLoader) if that matters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

from dovetail.sdk.checkpoints import checkpoint_dir
from dovetail.sdk.reports import report
from dovetail.sdk.stopping import EXIT_REQUEUE, should_stop


def last_checkpoint() -> Path | None:
    """The checkpoint to resume from, for `ckpt_path`; None at the first start."""
    path = _path()
    return path if path.exists() else None


class DovetailCallback(Callback):  # type: ignore[misc]
    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.is_global_zero and trainer.logged_metrics:
            report(trainer.global_step, **trainer.logged_metrics)
        if trainer.strategy.reduce_boolean_decision(should_stop(), all=False):
            trainer.save_checkpoint(_path())  # all ranks take part
            raise SystemExit(EXIT_REQUEUE)


def _path() -> Path:
    return checkpoint_dir() / "lightning.ckpt"
