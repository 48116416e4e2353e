"""DistributedDataParallel on as many processes as there are GPUs (or slots), a number that may change:
1, then 4, then 2, as Dovetail sees fit. Every sample is seen once an epoch, and the global batch stays.

    dovetail up --slots 4 --policy afs
    dovetail submit examples/elastic_ddp/job.yaml
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch._dynamo  # an optimizer would import it, for seconds, in every process
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

from dovetail import sdk
from dovetail.sdk import elastic
from dovetail.sdk.elastic_pytorch import ElasticRun

SIZE = 16


class Waves(Dataset):
    """Pieces of sine waves; the network learns how fast each one is."""

    def __init__(self, number: int, double: bool) -> None:
        kind = torch.float64 if double else torch.float32
        speeds = torch.linspace(0, 1, number, dtype=kind)
        self.waves = torch.sin(torch.linspace(0, 6, SIZE, dtype=kind) * (1 + 5 * speeds[:, None]))
        self.speeds = speeds[:, None]

    def __len__(self) -> int:
        return len(self.speeds)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        return self.waves[index], self.speeds[index], index


def train(options: argparse.Namespace) -> None:
    distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = Waves(options.samples, options.double)
    model = nn.Sequential(nn.Linear(SIZE, 32), nn.Tanh(), nn.Linear(32, 1))
    model = model.to(device, data.waves.dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    run = ElasticRun(data, options.batch, model=model, optimizer=optimizer)
    parallel = DistributedDataParallel(model)
    for epoch in run.epochs(options.epochs):
        for waves, speeds, which in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(parallel(waves.to(device)), speeds.to(device))
            (loss * run.weight).backward()
            optimizer.step()
            time.sleep(options.sample_s * len(waves))
            note(options.record, epoch, which.tolist() if run.weight else [])
            tell(run, loss * run.weight)
    distributed.barrier()


def tell(run: ElasticRun, loss: torch.Tensor) -> None:
    """The loss of the whole step: the mean over the ranks."""
    whole = loss.detach().clone()
    distributed.all_reduce(whole)
    if distributed.get_rank() == 0:
        sdk.report(run.step, loss=whole.item() / distributed.get_world_size())


def note(folder: str, epoch: int, samples: list[int]) -> None:
    """Which samples were seen, for who wants to count them."""
    if folder:
        with (Path(folder) / f"seen-{os.environ['RANK']}").open("a") as file:
            file.writelines(f"{epoch} {sample}\n" for sample in samples)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--samples", type=int, default=240)
    parser.add_argument("--batch", type=int, default=24, help="of all processes together")
    parser.add_argument("--sample-s", type=float, default=0.01, help="of work for each sample")
    parser.add_argument("--double", action="store_true", help="numbers of 64 bits")
    parser.add_argument("--record", default="", help="a folder for which samples were seen")
    options = parser.parse_args()
    elastic.on_each_gpu(lambda: train(options))


if __name__ == "__main__":
    main()
