"""Requests made by chance: a steady stream, bursts, a day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, pi, sin
from random import Random

from dovetail.core.errors import BadInput
from dovetail.serving.request import Request

DAY_S = 86_400.0


@dataclass(frozen=True)
class Traffic:
    """Requests a second to each service, for so long."""

    rate: float = 100.0
    seconds: float = 600.0
    prompt_tokens: int = 0  # mean; they are spread exponentially
    output_tokens: int = 0
    inputs: int = 0  # so many different ones, each as likely; 0: all differ

    def __post_init__(self) -> None:
        if not 0 < self.rate < inf:
            raise BadInput(f"rate={self.rate:g}: requests a second are above 0")
        if not 0 < self.seconds < inf:
            raise BadInput(f"seconds={self.seconds:g}: a time above 0")
        if min(self.prompt_tokens, self.output_tokens, self.inputs) < 0:
            raise BadInput("prompt_tokens, output_tokens and inputs are at least 0")

    def arrivals(self, seed: int) -> Iterator[float]:
        raise NotImplementedError

    def requests(self, service: str, slo_s: float, seed: int) -> Iterator[Request]:
        """To one service, in order of time."""
        made = self._made(service, slo_s, seed)
        if not self.inputs:
            return made
        draw = Random(f"inputs {seed}").randrange
        return (one._replace(input=str(draw(self.inputs))) for one in made)

    def _made(self, service: str, slo_s: float, seed: int) -> Iterator[Request]:
        if not self.prompt_tokens and not self.output_tokens:
            for at in self.arrivals(seed):
                yield Request(at, service, at + slo_s)
            return
        tokens = Random(f"tokens {seed}").expovariate
        prompt, output = self.prompt_tokens, self.output_tokens
        for at in self.arrivals(seed):
            asked = 1 + int(tokens(1.0) * prompt)
            yield Request(at, service, at + slo_s, asked, 1 + int(tokens(1.0) * output))


@dataclass(frozen=True)
class Poisson(Traffic):
    """A steady stream: each request comes independently of all others."""

    def arrivals(self, seed: int) -> Iterator[float]:
        gap, rate, end = Random(f"poisson {seed}").expovariate, self.rate, self.seconds
        at = gap(rate)
        while at < end:
            yield at
            at += gap(rate)


@dataclass(frozen=True)
class Bursty(Traffic):
    """Bursts: gaps between requests are gamma distributed with the coefficient of variation `cv`; 1 is
    a steady stream, 4 is as bursty as recorded traffic of functions and models."""

    cv: float = 4.0

    def __post_init__(self) -> None:
        Traffic.__post_init__(self)
        if not 0 < self.cv <= 100:
            raise BadInput(f"cv={self.cv:g}: it is above 0 and at most 100")

    def arrivals(self, seed: int) -> Iterator[float]:
        gap, shape = Random(f"bursty {seed}").gammavariate, 1.0 / self.cv**2
        scale, end = 1.0 / (self.rate * shape), self.seconds
        at = gap(shape, scale)
        while at < end:
            yield at
            at += gap(shape, scale)


@dataclass(frozen=True)
class Daily(Traffic):
    """Days: the rate follows a sine; at its peak it is `peak` times the mean, in the small hours as far
    below. `day_s` makes a day shorter."""

    seconds: float = DAY_S
    peak: float = 1.8
    day_s: float = DAY_S

    def __post_init__(self) -> None:
        Traffic.__post_init__(self)
        if not 1 <= self.peak <= 2:
            raise BadInput(f"peak={self.peak:g}: it is from 1 to 2 times the mean rate")
        if not 0 < self.day_s < inf:
            raise BadInput(f"day_s={self.day_s:g}: a time above 0")

    def arrivals(self, seed: int) -> Iterator[float]:
        """Times of requests on days that begin at midnight and have their peak at noon, drawn by
        thinning a steady stream of the peak's rate."""
        chance = Random(f"daily {seed}")
        gap, toss, highest = chance.expovariate, chance.random, self.rate * self.peak
        turn, swing, end = 2 * pi / self.day_s, self.peak - 1.0, self.seconds
        at = gap(highest)
        while at < end:
            if toss() * self.peak < 1.0 + swing * sin(turn * at - pi / 2):
                yield at
            at += gap(highest)
