"""What a training script may import. Standard library only; outside Dovetail it does nothing.

    from dovetail import sdk

    for step in range(first, last):
        loss = train_one_step()
        sdk.report(step, loss=loss)
        sdk.stop_if_asked(save)  # save() writes into sdk.checkpoint_dir()

`dovetail.sdk.pytorch`, `.lightning`, `.huggingface` and `.keras` do the saving for you. They import
their framework, this package does not. `dovetail.sdk.elastic` and `.elastic_pytorch` are for jobs that
run on a number of GPUs that changes. `serve` makes a Python function a model server.
"""

from dovetail.sdk.checkpoints import checkpoint_dir, resumed
from dovetail.sdk.chosen import settings
from dovetail.sdk.reports import report
from dovetail.sdk.serving import serve
from dovetail.sdk.stopping import EXIT_REQUEUE, should_stop, stop_if_asked

__all__ = [
    "EXIT_REQUEUE",
    "checkpoint_dir",
    "report",
    "resumed",
    "serve",
    "settings",
    "should_stop",
    "stop_if_asked",
]
