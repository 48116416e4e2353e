"""For jobs that run on a number of GPUs that changes: as many processes, and every sample once.

    def train() -> None:
        ...                       # RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set

    if __name__ == "__main__":
        sdk.elastic.on_each_gpu(train)

Dovetail asks the job to save, and starts it again with another number in DOVETAIL_GPUS. What stays is
the order of the samples: `Samples` deals those that are left of an epoch to as many ranks as there are.
`dovetail.sdk.elastic_pytorch.ElasticRun` does all of it for a PyTorch loop. Standard library only.
"""

from __future__ import annotations

import os
import sys

from dovetail.sdk.stopping import EXIT_REQUEUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.process import BaseProcess


def gpus() -> int:
    """How many GPUs (or processor slots) this job has now; outside Dovetail one."""
    return max(int(os.environ.get("DOVETAIL_GPUS") or 1), 1)


# ------------------------------------------------------------------------------------- processes


def on_each_gpu(train: Callable[[], object]) -> None:
    """Run `train()` in one process for each GPU, with the variables that torch.distributed looks
    for. Returns when all have ended well; else leaves with their exit code. Do not use a GPU
    through PyTorch before the call: the processes are forked, so that modules are imported only
    once."""
    import multiprocessing
    import signal

    context = multiprocessing.get_context("fork")
    count, address = gpus(), rendezvous()
    processes = [
        context.Process(target=_as_rank, args=(train, address, rank, count), name=f"rank {rank}")
        for rank in range(count)
    ]
    for process in processes:
        process.start()
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # they see the stop file; who waits must not leave
    code = _joined(processes)
    if code:
        raise SystemExit(code)


def rank_variables(
    address: tuple[str, int], local: int, count: int, env: Mapping[str, str]
) -> dict[str, str]:
    """For one of `count` processes on this node; `env` tells of a job over several nodes."""
    nodes, node = int(env.get("NNODES") or 1), int(env.get("NODE_RANK") or 0)
    return {
        "RANK": str(node * count + local),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(nodes * count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": address[0],
        "MASTER_PORT": str(address[1]),
    }


def rendezvous() -> tuple[str, int]:
    """As the environment says, for a job over several nodes; else a free port of this machine."""
    if "MASTER_PORT" in os.environ:
        return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1", int(probe.getsockname()[1])


def _as_rank(train: Callable[[], object], address: tuple[str, int], rank: int, count: int) -> None:
    """Leaves at once when it is done: threads of a framework that was forked may keep the interpreter
    from ending."""
    os.environ.update(rank_variables(address, rank, count, os.environ))
    code = 1
    try:
        train()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _joined(processes: Sequence[BaseProcess]) -> int:
    """The exit code of all. One that fails takes the others with it: they would wait for it."""
    from multiprocessing.connection import wait

    left, code = list(processes), 0
    while left:
        wait([process.sentinel for process in left])
        for process in [own for own in left if own.exitcode is not None]:
            left.remove(process)
            ended = process.exitcode or 0
            if ended and ended != EXIT_REQUEUE and code in (0, EXIT_REQUEUE):
                print(f"dovetail: {process.name} ended with {ended}", file=sys.stderr, flush=True)
                for other in left:
                    other.kill()
                code = ended if ended > 0 else 128 - ended
            code = code or ended
    return code


# --------------------------------------------------------------------------------------- samples


class Part:
    """The samples of one rank in one step. `weight` is for the mean of their losses, so that the mean
    over the ranks is the mean over the step's samples: multiply the loss by it."""

    __slots__ = ("indices", "step_samples", "weight")

    def __init__(self, indices: list[int], step_samples: int, weight: float) -> None:
        self.indices = indices
        self.step_samples = step_samples  # of all ranks together
        self.weight = weight


class Samples:
    """The samples of each epoch in an order that depends on the seed and the epoch alone, dealt in
    steps of `batch` to `ranks` ranks. Its state is the epoch and how many samples are behind."""

    def __init__(self, number: int, batch: int, seed: int = 0) -> None:
        if number < 1 or batch < 1:
            raise ValueError(f"there are {number} samples in batches of {batch}; give 1 or more")
        self.number = number
        self.batch = batch
        self.seed = seed
        self.epoch = 0
        self.consumed = 0  # of this epoch

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "consumed": self.consumed, "number": self.number}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        if state["number"] != self.number:
            raise ValueError(
                f"the checkpoint is of {state['number']} samples and there are {self.number} now: "
                "go on with the same data, or remove the checkpoint"
            )
        self.epoch, self.consumed = state["epoch"], state["consumed"]

    @property
    def seen(self) -> int:
        """In all epochs."""
        return self.epoch * self.number + self.consumed

    def order(self) -> list[int]:
        """Of this epoch, whatever the number of ranks."""
        from random import Random

        indices = list(range(self.number))
        Random(f"{self.seed}/{self.epoch}").shuffle(indices)
        return indices

    def parts(self, rank: int, ranks: int) -> list[Part]:
        """What is left of this epoch, a step at a time."""
        order = self.order()
        starts = range(self.consumed, self.number, self.batch)
        return [part_of(order[start : start + self.batch], rank, ranks) for start in starts]

    def advance(self, part: Part) -> None:
        """The step is done, by all ranks."""
        self.consumed += part.step_samples

    def next_epoch(self) -> None:
        self.epoch, self.consumed = self.epoch + 1, 0


def part_of(step: list[int], rank: int, ranks: int) -> Part:
    """Every `ranks`-th of the step's samples. A rank for which none is left takes part all the same,
    with a sample that counts for nothing."""
    own = step[rank::ranks]
    if not own:
        return Part(step[:1], len(step), 0.0)
    return Part(own, len(step), len(own) * ranks / len(step))


def batch_sizes(batch: int, most: int | None = None) -> dict[str, int]:
    """The same global batch on as many GPUs as there are now, in the words of Hugging Face: samples
    on each at once, at most so many, and how often before the weights change."""
    each, rest = divmod(batch, gpus())
    if rest or not each:
        raise ValueError(
            f"a batch of {batch} cannot be shared evenly by {gpus()} GPUs: choose one that all "
            "numbers of GPUs in `elastic` divide, or scale it"
        )
    times = next(n for n in range(1, each + 1) if each % n == 0 and each // n <= (most or each))
    return {"per_device_train_batch_size": each // times, "gradient_accumulation_steps": times}
