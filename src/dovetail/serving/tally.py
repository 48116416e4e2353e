"""What became of the requests, counted as it happens: nothing is kept of a single one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, log

from dovetail.sdk.batching.forming import SLACK_S
from dovetail.serving.over_time import OverTime
from dovetail.serving.request import Request

FINENESS = 1000  # bins of a histogram are 0.1 % wide
UNIT = 1e6  # times are counted in microseconds: below that they are one


class TimeHistogram:
    """Times in bins of one relative width. Quantiles are exact to 0.05 %."""

    __slots__ = ("bins", "count", "most", "total")

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        self.count = 0
        self.total = 0.0
        self.most = 0.0

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        if seconds > self.most:
            self.most = seconds
        place = int(log(seconds * UNIT + 1.0) * FINENESS)
        try:
            self.bins[place] += 1
        except KeyError:
            self.bins[place] = 1

    def merge(self, other: TimeHistogram) -> None:
        self.count += other.count
        self.total += other.total
        self.most = max(self.most, other.most)
        for place, count in other.bins.items():
            self.bins[place] = self.bins.get(place, 0) + count

    def copy(self) -> TimeHistogram:
        other = TimeHistogram()
        other.merge(self)
        return other

    def since(self, before: TimeHistogram) -> TimeHistogram:
        """What was added after that copy was made."""
        other = TimeHistogram()
        other.count, other.total = self.count - before.count, self.total - before.total
        other.most = self.most
        if other.count:
            known = before.bins
            for place, count in self.bins.items():
                if count > known.get(place, 0):
                    other.bins[place] = count - known.get(place, 0)
        return other

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def quantile(self, part: float) -> float:
        """The middle of the bin in which it lies; 0 if there is nothing."""
        left = part * self.count
        for place in sorted(self.bins):
            left -= self.bins[place]
            if left <= 0:
                middle = (exp((place + 0.5) / FINENESS) - 1.0) / UNIT
                return min(middle, self.most)
        return self.most


class ServiceTally:
    """Of one service."""

    __slots__ = (
        *(
            "between_tokens",
            "dropped",
            "first_token",
            "good",
            "judged",
            "latency",
            "right",
            "tokens",
        ),
        "too_long",
    )

    def __init__(self) -> None:
        self.good = 0  # answered in time
        self.dropped = 0
        self.latency = TimeHistogram()
        self.first_token = TimeHistogram()  # of language models only
        self.between_tokens = TimeHistogram()  # the mean of each answer of more than one
        self.tokens = 0
        self.judged = 0  # answers of which it is known how often they are right
        self.right = 0.0  # of these; an expectation where it is not drawn
        self.too_long = 0  # dropped, because no replica has memory for it

    @property
    def served(self) -> int:
        return self.latency.count

    @property
    def requests(self) -> int:
        return self.served + self.dropped

    def judge(self, right: float, count: int = 1) -> None:
        """So many answers, of which so many are right."""
        self.judged += count
        self.right += right

    def merge(self, other: ServiceTally) -> None:
        self.good += other.good
        self.judged += other.judged
        self.right += other.right
        self.dropped += other.dropped
        self.tokens += other.tokens
        self.too_long += other.too_long
        self.latency.merge(other.latency)
        self.first_token.merge(other.first_token)
        self.between_tokens.merge(other.between_tokens)


class ServingTally:
    """Of all services, and over time."""

    def __init__(self, services: Iterable[str]) -> None:
        self.by_service: Mapping[str, ServiceTally] = {name: ServiceTally() for name in services}
        self.over_time = OverTime()  # ended, of them in time
        self.ended = 0

    def answered(self, service: str, requests: Iterable[Request], now: float) -> None:
        """The hottest lines of a simulation, so they are all here."""
        own = self.by_service[service]
        times = own.latency
        bins, most, total, count, good = times.bins, times.most, times.total, 0, 0
        limit = now - SLACK_S
        for at, _, deadline, _, _, _, _ in requests:
            seconds = now - at
            total += seconds
            count += 1
            if seconds > most:
                most = seconds
            if deadline >= limit:
                good += 1
            place = int(log(seconds * UNIT + 1.0) * FINENESS)
            try:
                bins[place] += 1
            except KeyError:
                bins[place] = 1
        times.most, times.total = most, total
        times.count += count
        own.good += good
        self.ended += count
        self.over_time.add(now, count, good)

    def dropped(self, service: str, now: float, count: int = 1) -> None:
        self.by_service[service].dropped += count
        self.ended += count
        self.over_time.add(now, count, 0)

    def answered_tokens(self, request: Request, now: float, first_token_at: float) -> None:
        """One answer of a language model."""
        own = self.by_service[request.service]
        own.first_token.add(first_token_at - request.at)
        tokens = request.output_tokens
        own.tokens += tokens
        if tokens > 1:
            own.between_tokens.add((now - first_token_at) / (tokens - 1))
        self.answered(request.service, (request,), now)

    def dropped_as_too_long(self, service: str, now: float) -> None:
        """A request to a language model that would not fit into an empty replica."""
        self.by_service[service].too_long += 1
        self.dropped(service, now)

    def whole(self) -> ServiceTally:
        """All services together."""
        whole = ServiceTally()
        for own in self.by_service.values():
            whole.merge(own)
        return whole
