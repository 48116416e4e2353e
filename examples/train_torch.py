"""A small PyTorch network with everything that makes resuming hard: shuffled batches, noise, dropout,
Adam, a learning-rate schedule. `Resumable` is all it needs to be stopped after any step.

    dovetail submit -- python train_torch.py --epochs 100
"""

from __future__ import annotations

import argparse
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from dovetail import sdk
from dovetail.sdk.pytorch import Resumable


class NoisyWaves(Dataset):
    """Pieces of sine waves, a little different each time that they are looked at."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        wave = np.sin(np.linspace(0, 1 + index, 16)) * random.uniform(0.9, 1.1)
        noisy = wave + np.random.normal(0, 0.05, 16)
        return torch.tensor(noisy, dtype=torch.float32), torch.tensor([index / 60])


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--workers", type=int, default=0)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)

    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, chosen.epochs)
    loader = DataLoader(NoisyWaves(), batch_size=15, shuffle=True, num_workers=chosen.workers)

    run = Resumable(model=model, optimizer=optimizer, scheduler=scheduler)
    for _ in run.epochs(chosen.epochs):
        for inputs, targets in run.batches(loader):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
            sdk.report(run.step, loss=loss, rate=scheduler.get_last_lr()[0])
        scheduler.step()
    print(f"done after {run.step} steps")


if __name__ == "__main__":
    main()
