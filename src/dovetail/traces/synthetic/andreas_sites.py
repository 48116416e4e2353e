"""The sites of ANDREAS' instances: the cluster that the authors measured, and a datacenter.

The numbers are the authors' measurements (data_server.csv of their repository; the tables that come
with their datacenter instances).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from dovetail.core.model import Option
from dovetail.models.cost import Costs, NodeRates
from dovetail.models.hourly import Hourly


@dataclass(frozen=True, slots=True)
class Site:
    """Kinds of nodes, which alternate, types of jobs, which are equally likely, and prices."""

    rates: Mapping[str, NodeRates]  # by kind of node
    types: Sequence[Sequence[Option]]
    late: tuple[float, float]  # money a second after the deadline, least and most
    price: float = 0.0  # money per kWh
    pue: float = 1.0  # power of the site over that of its nodes

    @property
    def costs(self) -> Costs:
        return Costs(dict(self.rates), Hourly([self.price], "price"), pue=self.pue)

    @property
    def gpus(self) -> Mapping[str, int]:
        return {kind: len(rates.per_hour) - 1 for kind, rates in self.rates.items()}

    @property
    def most_gpus(self) -> int:
        """The most GPUs that a job was timed with."""
        return max(option.gpus for options in self.types for option in options)


# ---------------------------------------------------------------------------------- what they measured

PRICE, PUE = 0.17168313, 1.33
WEIGHTS: Final = (0.000253709514333333, 0.000443991650083333)
# Watts of a node with 1, 2, … busy GPUs. The cost of two in a TURING node was made with 480 W.
WATTS: Final[Mapping[str, tuple[float, ...]]] = {
    "TESLA": (530.0, 700.0, 870.0, 1040.0),
    "TURING": (400.0, 470.0),
}
CHARGED_WATTS: Final = {"TESLA": (530.0, 700.0, 870.0, 1040.0), "TURING": (400.0, 480.0)}


class AndreasApplication(NamedTuple):
    """Seconds per epoch on one GPU of a TESLA node, on two, and on one of a TURING node."""

    one: float
    two: float
    slow: float

    def options(self, epochs: int) -> list[Option]:
        times = (("TESLA", 1, self.one), ("TESLA", 2, self.two), ("TURING", 1, self.slow))
        return [Option(kind, gpus, seconds * epochs) for kind, gpus, seconds in times]


_BIG = AndreasApplication(43.0842, 30.5512, 110.7112)  # a large LSTM
_SMALL = AndreasApplication(43.0261, 30.5871, 110.6581)  # a small one
_EFFICIENT = AndreasApplication(51.6221, 41.2372, 88.9881)  # EfficientNet
_CONVOLUTION = AndreasApplication(20.5382, 17.8042, 41.2582)
_TRAINED: Final = (
    (_BIG, 120), (_SMALL, 120), (_EFFICIENT, 120), (_BIG, 160), (_SMALL, 160), (_EFFICIENT, 160),
    (_BIG, 320), (_SMALL, 320), (_CONVOLUTION, 320), (_CONVOLUTION, 160),
)  # fmt: skip

MEASURED: Final = Site(
    {
        kind: NodeRates(
            (0.0, *watts),
            (0.0, *(charged / 1000 * PRICE * PUE for charged in CHARGED_WATTS[kind])),
        )
        for kind, watts in WATTS.items()
    },
    [application.options(epochs) for application, epochs in _TRAINED],
    WEIGHTS,
    PRICE,
    PUE,
)

# ----------------------------------------------------------------------------------- their datacenter

# AlexNet with four sizes of batch: seconds to begin, and for each round of epochs, on 1 to 8 GPUs of a
# K80 node and then of an M60 node.
_ALEXNET: Final = (
    (
        (109.669, 112.624, 112.02, 110.527, 108.678, 106.65, 104.522, 102.329,
         82.938, 66.946, 52.785, 43.378, 33.047, 22.253, 11.196, -0.027),
        (79845.528, 76135.316, 69985.408, 63225.575, 56221.773, 49095.986, 41900.493, 34661.434,
         84249.666, 78364.855, 72891.096, 68905.342, 64366.101, 59550.117, 54575.994, 49503.034),
    ),
    (
        (67.682, 67.092, 66.185, 65.198, 64.18, 63.145, 62.102, 61.053,
         52.044, 45.714, 39.97, 35.726, 31.241, 26.634, 21.959, 17.241),
        (80544.982, 77254.117, 71585.802, 65323.123, 58822.7, 52203.404, 45516.181, 38786.503,
         84214.428, 78977.756, 74066.713, 70468.187, 66316.97, 61889.409, 57303.935, 52619.767),
    ),
    (
        (46.689, 44.326, 43.267, 42.534, 41.931, 41.393, 40.892, 40.415,
         37.183, 35.326, 33.562, 31.9, 30.337, 28.825, 27.341, 25.875),
        (81943.89, 79491.719, 74786.589, 69518.219, 64024.554, 58418.24, 52747.557, 47036.642,
         84329.464, 80276.3, 76417.946, 73593.876, 70218.709, 66567.992, 62759.818, 58853.234),
    ),
    (
        (36.192, 32.943, 31.808, 31.202, 30.806, 30.516, 30.287, 30.095,
         30.432, 30.403, 30.359, 29.987, 29.886, 29.92, 30.032, 30.191),
        (84741.705, 83966.921, 81188.163, 77908.411, 74428.261, 70847.913, 67210.308, 63536.919,
         85125.119, 83098.644, 81120.411, 79845.255, 78022.185, 75925.158, 73671.584, 71320.168),
    ),
)  # fmt: skip
# Which of the four, and rounds of epochs, in the order of their types of job.
_ROUNDS: Final = (
    (3, 1), (2, 3), (1, 3), (0, 3), (2, 4), (1, 4), (0, 4), (2, 1), (1, 1), (0, 1), (3, 2), (2, 2),
    (1, 2), (0, 2), (3, 3),
)  # fmt: skip
_RENT: Final[Mapping[str, tuple[float, ...]]] = {  # of a node by the hour, with 1 to 8 busy GPUs
    "K80": (0.56, 1.13, 1.69, 2.25, 2.8075, 3.365, 3.9225, 4.48),
    "M60": (0.62, 1.24, 1.86, 2.48, 3.1, 3.72, 4.34, 4.96),
}


def _alexnet(batch: int, rounds: int) -> list[Option]:
    begins, lasts = _ALEXNET[batch]
    ways = [(kind, gpus) for kind in _RENT for gpus in range(1, 9)]
    return [
        Option(kind, gpus, first + rounds * each)
        for (kind, gpus), first, each in zip(ways, begins, lasts, strict=True)
    ]


DATACENTER: Final = Site(
    {kind: NodeRates(per_hour=(0.0, *rent)) for kind, rent in _RENT.items()},
    [_alexnet(batch, rounds) for batch, rounds in _ROUNDS],
    (100 * WEIGHTS[0], 100 * WEIGHTS[1]),
)

SITES: Final[Mapping[str, Site]] = {"andreas": MEASURED, "datacenter": DATACENTER}
