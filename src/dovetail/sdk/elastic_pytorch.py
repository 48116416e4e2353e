"""PyTorch training on a number of GPUs that changes: every sample once an epoch, on all that there are.

    run = ElasticRun(data, batch=64, model=model, optimizer=optimizer)  # the bare model
    parallel = DistributedDataParallel(model)
    for epoch in run.epochs(10):
        for inputs, targets in run.batches():
            loss = loss_function(parallel(inputs), targets)           # the mean over the samples
            (loss * run.weight).backward()
            optimizer.step()
            sdk.report(run.step, loss=loss)

Asked for its GPUs, or to go on with another number, it saves and leaves; started again it goes on with
the samples that are left. With the same global batch it learns the same, but for the order in which
numbers are added. What a rank draws at random (dropout) depends on the number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any

from torch.utils.data import DataLoader

from dovetail.sdk import checkpoint_files, ranks
from dovetail.sdk.checkpoints import checkpoint_dir
from dovetail.sdk.elastic import Samples
from dovetail.sdk.pytorch import Stateful, check_stateful
from dovetail.sdk.stopping import EXIT_REQUEUE, should_stop

GO_ON, SAVE, SAVE_AND_LEAVE = 0, 1, 2


class ElasticRun:
    """The parts given, and which samples are behind. One file for all ranks, which hold the same.

    `batch` is that of all GPUs together, whatever their number; with `scaled` it is that of one GPU,
    and `run.batch` is what they have together now, for who wants to scale a learning rate by it.
    `run.step` counts in batches of `batch`, so that it means the same on any number of GPUs.
    """

    def __init__(
        self,
        data: Any,
        batch: int,
        *,
        seed: int = 0,
        scaled: bool = False,
        every_s: float | None = None,
        loading: dict[str, Any] | None = None,  # more for the DataLoader, such as num_workers
        **parts: Stateful,
    ) -> None:
        check_stateful(parts)
        self.batch = batch * ranks.count() if scaled else batch
        self.weight = 1.0  # of this rank's mean loss in the step under way
        self.samples = Samples(len(data), self.batch, seed)
        self._unit = batch
        self._data = data
        self._parts: dict[str, Stateful] = {**parts, "samples": self.samples}
        self._loading = loading or {}
        self._every_s = every_s
        self._saved_at = monotonic()
        self.resumed = self._restore()

    @property
    def step(self) -> float:
        """How many batches are behind."""
        return self.samples.seen / self._unit

    @property
    def epoch(self) -> int:
        return self.samples.epoch

    def epochs(self, total: int) -> Iterator[int]:
        """Count epochs. What stands behind the inner loop is done once for each."""
        while self.samples.epoch < total:
            yield self.samples.epoch
            self.samples.next_epoch()
            if self.samples.epoch < total:
                self.pause_if_asked()

    def batches(self) -> Iterator[Any]:
        """This rank's part of every step that is left of this epoch."""
        parts = self.samples.parts(ranks.own(), ranks.count())
        dealt = [part.indices for part in parts]
        loader: Any = DataLoader(self._data, batch_sampler=dealt, **self._loading)
        for i, (part, batch) in enumerate(zip(parts, loader, strict=True), 1):
            self.weight = part.weight
            yield batch
            self.samples.advance(part)
            if i < len(
                parts
            ):  # else the epoch is over, and what comes after it is still to be done
                self.pause_if_asked()

    def pause_if_asked(self) -> None:
        """Between two steps: save if it is time, and leave if Dovetail asks for it."""
        wish = ranks.largest(self._wish())
        if wish != GO_ON:
            self.save()
        if wish == SAVE_AND_LEAVE:
            raise SystemExit(EXIT_REQUEUE)

    def save(self) -> None:
        """By the first rank; the others wait until it is done."""
        if ranks.own() == 0:
            saved = {name: part.state_dict() for name, part in self._parts.items()}
            checkpoint_files.write_whole(_path(), saved, agree=lambda: None)
        ranks.wait_for_all()
        self._saved_at = monotonic()

    def _restore(self) -> bool:
        if not _path().exists():
            return False
        saved = checkpoint_files.read(_path())
        if saved.keys() != self._parts.keys():
            raise ValueError(
                f"{_path()} holds {', '.join(sorted(saved))}, "
                f"but this script has {', '.join(sorted(self._parts))}"
            )
        for name, part in self._parts.items():
            part.load_state_dict(saved[name])
        return True

    def _wish(self) -> int:
        if should_stop():
            return SAVE_AND_LEAVE
        due = self._every_s is not None and monotonic() - self._saved_at >= self._every_s
        return SAVE if due else GO_ON


def _path() -> Any:
    return checkpoint_dir() / "elastic.pt"
