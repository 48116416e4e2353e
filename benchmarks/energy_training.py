"""Small trainings with PyTorch that draw different power: `python energy_training.py MODEL STEPS`.

A step is a handful of batches, a quarter of a second on a large GPU; each is printed as a line of JSON.
Without a GPU everything is far smaller.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def wide() -> tuple[nn.Module, Tensor, int]:
    """Large matrices: as much power as the card has."""
    width = 8192 if GPU else 256
    layers = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers), torch.randn(width, width, device=DEVICE), 8


def attention() -> tuple[nn.Module, Tensor, int]:
    """A transformer of 100 million parameters."""
    width, depth, length = (1024, 8, 512) if GPU else (64, 2, 32)
    layer = nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
    return encoder, torch.randn(32, length, width, device=DEVICE), 8


def conv() -> tuple[nn.Module, Tensor, int]:
    """Convolutions over small pictures."""
    sizes = (64, 128, 256, 256) if GPU else (8, 8)
    layers: list[nn.Module] = [nn.Conv2d(3, sizes[0], 3, padding=1), nn.ReLU()]
    for before, after in pairwise(sizes):
        layers += [nn.Conv2d(before, after, 3, padding=1, stride=2), nn.ReLU()]
        layers += [nn.Conv2d(after, after, 3, padding=1), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[-1], 10)]
    side = 64 if GPU else 16
    return nn.Sequential(*layers), torch.randn(512, 3, side, side, device=DEVICE), 16


def light() -> tuple[nn.Module, Tensor, int]:
    """Many small operations: the card mostly waits."""
    layers = [layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.Tanh())]
    return nn.Sequential(*layers), torch.randn(256, 256, device=DEVICE), 200


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor, int]]] = {
    "wide": wide,
    "attention": attention,
    "conv": conv,
    "light": light,
}


def main(name: str, steps: int) -> None:
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model, inputs, batches = MODELS[name]()
    model = model.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        for _ in range(batches):
            with torch.autocast(DEVICE, torch.bfloat16, enabled=GPU):
                loss = (model(inputs).float() ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(json.dumps({"step": step, "loss": loss.item()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
