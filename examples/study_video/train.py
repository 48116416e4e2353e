"""A small convolutional network (PyTorch) learns to tell how a shape moves in a short clip.

The clips are made here: a square or a disc on 16 x 16 grey pixels that goes left, right, up or down,
grows, or turns round half-way, over eight frames with noise. The script knows nothing of Dovetail:
`metric_pattern` in study.yaml reads what it prints.

    dovetail tune study.yaml
    python train.py --lr 0.003 --channels 16       # one trial by hand
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

MOTIONS = ("left", "right", "up", "down", "grows", "turns round")
FRAMES, SIDE = 8, 16


def main() -> None:
    chosen = options().parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    model = network(chosen)
    optimizer = torch.optim.Adam(model.parameters(), lr=chosen.lr, weight_decay=chosen.decay)
    held_out = clips(chosen.clips // 2, seed=0)
    training = clips(chosen.clips, seed=1)
    for epoch in range(1, chosen.epochs + 1):
        train(model, optimizer, *training, chosen.batch)
        accuracy, precision = judge(model, *held_out)
        print(f"epoch {epoch}: accuracy {accuracy:.4f}, precision {precision:.4f}", flush=True)


def options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser()
    found.add_argument("--lr", type=float, default=3e-3)
    found.add_argument("--channels", type=int, default=8)
    found.add_argument("--depth", type=int, default=3, help="frames that a filter sees at once")
    found.add_argument("--dropout", type=float, default=0.1)
    found.add_argument("--decay", type=float, default=1e-4)
    found.add_argument("--batch", type=int, default=32)
    found.add_argument("--epochs", type=int, default=9)
    found.add_argument("--clips", type=int, default=800)
    return found


def clips(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """So many clips, each channel x frame x row x column, and how the shape in them moves."""
    chance = torch.Generator().manual_seed(seed)
    motion = torch.randint(len(MOTIONS), (count,), generator=chance)
    x, y, size, speed = torch.rand(4, count, 1, generator=chance)
    is_disc = torch.rand(count, 1, 1, 1, generator=chance) < 0.5
    time = torch.arange(FRAMES)[None] - (FRAMES - 1) / 2
    way = (0.6 + 0.8 * speed) * time
    there_and_back = (0.6 + 0.8 * speed) * (time.abs() - FRAMES / 4)
    is_ = [(motion == number)[:, None] for number in range(len(MOTIONS))]
    across = way * (is_[1].float() - is_[0].float()) + there_and_back * is_[5]
    along = way * (is_[3].float() - is_[2].float())
    radius = 1.5 + 1.5 * size + 0.4 * time * is_[4]
    u = torch.arange(SIDE)[None, None, None, :] - (5 + 6 * x + across)[:, :, None, None]
    v = torch.arange(SIDE)[None, None, :, None] - (5 + 6 * y + along)[:, :, None, None]
    far = torch.where(is_disc, torch.sqrt(u**2 + v**2), torch.maximum(u.abs(), v.abs()))
    shown = (radius[:, :, None, None] + 0.5 - far).clamp(0, 1)
    noise = 1.0 * torch.randn(shown.shape, generator=chance)
    return (shown + noise)[:, None], motion


def network(chosen: argparse.Namespace) -> nn.Module:
    few, many, depth = chosen.channels, 2 * chosen.channels, chosen.depth
    inside = (depth // 2, 1, 1)
    return nn.Sequential(
        nn.Conv3d(1, few, (depth, 3, 3), padding=inside), nn.ReLU(), nn.AvgPool3d((1, 2, 2)),
        nn.Conv3d(few, many, (depth, 3, 3), padding=inside), nn.ReLU(), nn.AvgPool3d(2),
        nn.Flatten(), nn.Dropout(chosen.dropout),
        nn.Linear(many * (FRAMES // 2) * (SIDE // 4) ** 2, len(MOTIONS)),
    )  # fmt: skip


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    shown: torch.Tensor,
    motion: torch.Tensor,
    batch: int,
) -> None:
    model.train()
    for some in torch.randperm(len(shown)).split(batch):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(shown[some]), motion[some]).backward()
        optimizer.step()


def judge(model: nn.Module, shown: torch.Tensor, motion: torch.Tensor) -> tuple[float, float]:
    """Accuracy, and precision as the mean over the motions: of those told to be so, how many are."""
    model.eval()
    with torch.no_grad():
        told = torch.cat([model(some).argmax(1) for some in shown.split(200)])
    right = (told == motion).float()
    precisions = [
        right[told == number].mean().item() if (told == number).any() else 0.0
        for number in range(len(MOTIONS))
    ]
    return right.mean().item(), sum(precisions) / len(precisions)


if __name__ == "__main__":
    main()
