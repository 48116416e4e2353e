"""Hugging Face Trainer: report what it logs, save and leave when asked, go on from there.

arguments = TrainingArguments(output_dir=sdk.checkpoint_dir(), …)
trainer = Trainer(model, arguments, train_dataset=data, callbacks=[DovetailCallback()])
trainer.train(resume_from_checkpoint=last_checkpoint())

For a number of GPUs that changes, `TrainingArguments(**sdk.elastic.batch_sizes(64), …)` keeps the global
batch. The Trainer's order of samples depends on its seed alone, and it passes over as many steps as were
done: with the same global batch these are the same samples, whatever the number of GPUs was.
"""

from __future__ import annotations

from numbers import Real
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from dovetail.sdk import ranks
from dovetail.sdk.checkpoints import checkpoint_dir
from dovetail.sdk.reports import report
from dovetail.sdk.stopping import EXIT_REQUEUE, should_stop


def last_checkpoint() -> str | None:
    """The checkpoint to resume from, for `resume_from_checkpoint`; None at the first start."""
    # The Trainer writes this file last: a folder without it is half a checkpoint.
    whole = [state.parent for state in checkpoint_dir().glob("checkpoint-*/trainer_state.json")]
    return str(max(whole, key=_step)) if whole else None


class DovetailCallback(TrainerCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self._leaving = False

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        numbers = {name: value for name, value in (logs or {}).items() if isinstance(value, Real)}
        if state.is_world_process_zero and numbers:
            report(state.global_step, **numbers)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if ranks.largest(should_stop()):
            self._leaving = control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._leaving:
            ranks.wait_for_all()
            raise SystemExit(EXIT_REQUEUE)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])
