"""PyTorch training that can be stopped after any step and goes on later as if nothing had happened.

    run = Resumable(model=model, optimizer=optimizer, scheduler=scheduler)
    for epoch in run.epochs(10):
        for inputs, targets in run.batches(loader):
            loss = train_one_step(inputs, targets)
            sdk.report(run.step, loss=loss)

The loop restores what was saved, saves when Dovetail asks for the GPUs, and leaves. The loss curve
is the same bit for bit, as far as training itself is deterministic on your hardware.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar

import torch

from dovetail.sdk import chance, ranks
from dovetail.sdk import checkpoint_files as files
from dovetail.sdk.checkpoints import checkpoint_dir
from dovetail.sdk.stopping import EXIT_REQUEUE, should_stop

Batch = TypeVar("Batch")
GO_ON, SAVE, SAVE_AND_LEAVE = 0, 1, 2


class Stateful(Protocol):
    """A model, an optimizer, a scheduler, a gradient scaler, …"""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any) -> Any: ...


def check_stateful(parts: Mapping[str, object]) -> None:
    for name, part in parts.items():
        if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
            raise TypeError(f"{name} has no state_dict(): a {type(part).__name__} cannot be saved")


class Resumable:
    """Everything that training needs to go on: the parts given, how far it is, and its chance.

    `every_s` saves also every so many seconds, against machines that fail. Under torch.distributed
    every rank needs one of these; ranks stop at the same step, and each saves a file of its own.
    """

    def __init__(self, *, every_s: float | None = None, **parts: Stateful) -> None:
        check_stateful(parts)
        self.step = 0  # the number of the step under way, from 0
        self.epoch = 0
        self._parts = parts
        self._every_s = every_s
        self._saved_at = monotonic()
        self._done = 0  # batches of this epoch that are behind us
        self._epoch_chance: chance.State | None = None  # as it was when this epoch began
        self._sources: tuple[torch.Generator, ...] = ()
        self._settled: chance.State | None = None  # to be set once an epoch has caught up
        self._looked_for_checkpoint = False

    # ------------------------------------------------------------------------------------- loops

    def steps(self, total: int) -> Iterator[int]:
        """Count from where training stands up to `total`, for loops that make their own batches."""
        self._begin()
        while self.step < total:
            yield self.step
            self.step += 1
            if self.step < total:  # else it is done, and need not be started again
                self.pause_if_asked()

    def epochs(self, total: int) -> Iterator[int]:
        """Count epochs. What stands behind the inner loop is run again if it was interrupted."""
        self._begin()
        while self.epoch < total:
            yield self.epoch
            self.epoch += 1
            self._done = 0
            self._epoch_chance = None
            if self.epoch < total:
                self.pause_if_asked()

    def batches(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        """The batches of this epoch, without those that were done before an interruption.

        Those are drawn again and thrown away, so that shuffling and random augmentation go on
        exactly as they would have.
        """
        self._begin()
        self._sources = chance.sources(loader)
        sampler: Any = getattr(loader, "sampler", None)
        if hasattr(sampler, "set_epoch"):  # DistributedSampler: it shuffles by the epoch's number
            sampler.set_epoch(self.epoch)
        if self._epoch_chance is None:
            self._settle()
            self._epoch_chance = chance.state(self._sources)
        chance.set_state(self._epoch_chance, self._sources)
        rest = iter(loader)
        for _ in range(self._done):
            next(rest)
        self._settle()
        for batch in rest:
            yield batch
            self.step += 1
            self._done += 1
            self.pause_if_asked()

    def pause_if_asked(self) -> None:
        """Between two steps: save if it is time, and leave if Dovetail asks for the GPUs."""
        wish = ranks.largest(self._wish())  # one that left alone would leave the others waiting
        if wish != GO_ON:
            self.save()
        if wish == SAVE_AND_LEAVE:
            raise SystemExit(EXIT_REQUEUE)

    # --------------------------------------------------------------------------- save and restore

    def save(self) -> Path:
        """Write a whole new checkpoint, or leave the old one as it is."""
        path = self._path()
        saved = {
            "parts": {name: part.state_dict() for name, part in self._parts.items()},
            "step": self.step,
            "epoch": self.epoch,
            "done": self._done,
            "epoch_chance": self._epoch_chance,
            "chance": chance.state(self._sources),
        }
        # Else a crash in between would leave ranks with checkpoints of two steps.
        files.write_whole(path, saved, agree=ranks.wait_for_all)
        self._saved_at = monotonic()
        return path

    def restore(self) -> bool:
        """Go back to the last checkpoint; False if there is none. The loops above do it themselves."""
        self._looked_for_checkpoint = True
        path = self._path()
        saved = files.read(path) if path.exists() else None
        _check_that_ranks_agree(saved["step"] if saved else -1)
        if saved is None:
            return False
        self._check_same_parts(saved["parts"], path)
        for name, part in self._parts.items():
            part.load_state_dict(saved["parts"][name])
        self.step, self.epoch, self._done = saved["step"], saved["epoch"], saved["done"]
        self._epoch_chance, self._settled = saved["epoch_chance"], saved["chance"]
        chance.set_state(saved["chance"])
        return True

    def _begin(self) -> None:
        if not self._looked_for_checkpoint:
            self.restore()

    def _settle(self) -> None:
        """After catching up with an interrupted epoch: chance as it was when training stopped."""
        if self._settled is not None:
            chance.set_state(self._settled, self._sources)
            self._settled = None

    def _path(self) -> Path:
        return checkpoint_dir() / f"resumable-{ranks.own()}.pt"

    def _check_same_parts(self, saved: dict[str, Any], path: Path) -> None:
        if saved.keys() != self._parts.keys():
            raise ValueError(
                f"{path} holds {', '.join(sorted(saved))}, "
                f"but this script has {', '.join(sorted(self._parts))}"
            )

    def _wish(self) -> int:
        if should_stop():
            return SAVE_AND_LEAVE
        due = self._every_s is not None and monotonic() - self._saved_at >= self._every_s
        return SAVE if due else GO_ON


def _check_that_ranks_agree(step: int) -> None:
    newest, oldest = ranks.largest(step), -ranks.largest(-step)
    if newest != oldest:
        raise RuntimeError(
            f"the ranks have checkpoints of different steps, from {oldest} to {newest} "
            "(-1 is none); remove those files, or run with as many ranks as before"
        )
