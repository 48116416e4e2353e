"""Lightning: report metrics, save and leave when Dovetail asks for the GPUs, go on from there.

    trainer = Trainer(callbacks=[DovetailCallback()])
    trainer.fit(model, loader, ckpt_path=last_checkpoint())

Model, optimizers and counters go on exactly. Lightning itself begins the loader of an interrupted
epoch anew; give it one that keeps its place (torchdata's StatefulDataLoader) if that matters, or
samples that are dealt to a number of GPUs that changes:

    samples = Samples(len(data), batch=64)                    # dovetail.sdk.elastic
    dovetail = DovetailCallback(samples)
    loader = DataLoader(data, batch_sampler=dovetail.dealt)
    trainer = Trainer(devices=sdk.elastic.gpus(), use_distributed_sampler=False, callbacks=[dovetail])

`training_step` returns its mean loss times `dovetail.weight`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

from dovetail.sdk.checkpoints import checkpoint_dir
from dovetail.sdk.elastic import Part, Samples
from dovetail.sdk.reports import report
from dovetail.sdk.stopping import EXIT_REQUEUE, should_stop


def last_checkpoint() -> Path | None:
    """The checkpoint to resume from, for `ckpt_path`; None at the first start."""
    path = _path()
    return path if path.exists() else None


class Dealt:
    """What is left of the samples' epoch for one rank, as a loader's batch sampler."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self.rank, self.ranks = 0, 1  # as the trainer says
        self.parts: list[Part] = []

    def __iter__(self) -> Iterator[list[int]]:
        self.parts = self._samples.parts(self.rank, self.ranks)
        return iter([part.indices for part in self.parts])

    def __len__(self) -> int:
        return len(range(self._samples.consumed, self._samples.number, self._samples.batch))


class DovetailCallback(Callback):  # type: ignore[misc]
    """`samples` are for a job on a number of GPUs that changes."""

    def __init__(self, samples: Samples | None = None) -> None:
        self.samples = samples
        self.dealt = None if samples is None else Dealt(samples)
        self.weight = 1.0  # of this rank's mean loss in the step under way
        self._parts: Iterator[Part] = iter(())
        self._part: Part | None = None

    def setup(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self.dealt is not None:
            self.dealt.rank, self.dealt.ranks = trainer.global_rank, trainer.world_size

    def state_dict(self) -> dict[str, int]:
        return {} if self.samples is None else self.samples.state_dict()

    def load_state_dict(self, state: dict[str, int]) -> None:
        if self.samples is not None and state:
            self.samples.load_state_dict(state)

    def on_train_epoch_start(self, *_: Any) -> None:
        if self.dealt is not None:
            iter(self.dealt)  # a trainer may have asked for the first batch already, or not yet
            self._parts = iter(self.dealt.parts)

    def on_train_batch_start(self, *_: Any) -> None:
        self._part = next(self._parts, None)
        self.weight = 1.0 if self._part is None else self._part.weight

    def on_train_epoch_end(self, *_: Any) -> None:
        if self.samples is not None:
            self.samples.next_epoch()

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if self.samples is not None and self._part is not None:
            self.samples.advance(self._part)
        if trainer.is_global_zero and trainer.logged_metrics:
            report(trainer.global_step, **trainer.logged_metrics)
        if trainer.strategy.reduce_boolean_decision(should_stop(), all=False):
            trainer.save_checkpoint(_path())  # all ranks take part
            raise SystemExit(EXIT_REQUEUE)


def _path() -> Path:
    return checkpoint_dir() / "lightning.ckpt"
