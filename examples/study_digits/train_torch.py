"""The digits of train.py, drawn and learned by PyTorch on a GPU (or without one).

    python train_torch.py --lr 0.1 --momentum 0.9

Every run with the same settings on the same kind of GPU gives the same losses to the last bit.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # or matrices are multiplied in any order

import torch
from torch import nn
from train import CLASSES, FINE, FINER, PIXELS, VALIDATION, options, templates

from dovetail import sdk


def main() -> None:
    for epoch, (loss, accuracy) in enumerate(epochs(options().parse_args()), 1):
        sdk.report(epoch, val_loss=loss, accuracy=accuracy)
        print(f"epoch {epoch:2}  val_loss {loss:.6f}  accuracy {accuracy:.2%}", flush=True)


def epochs(chosen: argparse.Namespace) -> Iterator[tuple[float, float]]:
    """Loss and accuracy on digits never trained with, after each epoch."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pixels, units = PIXELS * PIXELS, chosen.units
    model = nn.Sequential(nn.Linear(pixels, units), nn.ReLU(), nn.Linear(units, CLASSES)).to(device)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=chosen.lr, momentum=chosen.momentum, weight_decay=chosen.decay
    )
    draw = Drawing(device, chosen.noise)
    never_seen = draw(VALIDATION, seed=0)
    for epoch in range(1, chosen.epochs + 1):
        # What an epoch sees depends on its number alone: there is no state of chance to be kept.
        images, labels = draw(chosen.examples, seed=epoch)
        for first in range(0, len(images) - chosen.batch + 1, chosen.batch):
            some = slice(first, first + chosen.batch)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[some]), labels[some]).backward()
            optimizer.step()
        yield judge(model, *never_seen)


def judge(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    with torch.no_grad():
        scores = model(images)
        loss = nn.functional.cross_entropy(scores, labels)
        return loss.item(), (scores.argmax(1) == labels).float().mean().item()


class Drawing:
    """Draws digits on the GPU, each seed its own; see train.py for how."""

    def __init__(self, device: torch.device, noise: float) -> None:
        self.device = device
        self.noise = noise
        self.drawn = torch.from_numpy(templates()).to(device)

    def __call__(self, count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """So many images, and what they show."""
        chance = torch.Generator(self.device).manual_seed(seed)
        labels = torch.randint(CLASSES, (count,), generator=chance, device=self.device)
        images = [self.hand_written(some, chance) for some in labels.split(20_000)]
        noise = torch.randn(count, PIXELS**2, generator=chance, device=self.device)
        return torch.cat(images) + self.noise * noise, labels

    def hand_written(self, labels: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
        bell = torch.randn(5, len(labels), 1, generator=chance, device=self.device)
        even = torch.rand(2, len(labels), 1, generator=chance, device=self.device)
        (angle, wave), (right, down, slant) = 0.22 * bell[:2], 0.06 * bell[2:]
        wide, high = 0.85 + 0.65 * even
        side = (torch.arange(FINE, device=self.device) + 0.5) / FINE - 0.5
        x, y = side.repeat(FINE)[None], side.repeat_interleave(FINE)[None]
        bent = x + 0.3 * wave * torch.sin(6 * y + 20 * slant)
        u = wide * (torch.cos(angle) * bent + (torch.sin(angle) + slant) * y) + 0.5 + right
        v = high * (torch.cos(angle) * y - torch.sin(angle) * bent) + 0.5 + down
        column = (u * FINER).long().clamp(0, FINER - 1)
        row = (v * FINER).long().clamp(0, FINER - 1)
        ink = self.drawn[(labels[:, None] * FINER + row) * FINER + column].float()
        block = FINE // PIXELS
        return ink.view(-1, PIXELS, block, PIXELS, block).mean((2, 4)).view(-1, PIXELS**2)


if __name__ == "__main__":
    main()
