"""A Python function as a model server, whose batches form by the same rules as in a simulation.

    from dovetail.sdk import serve

    def predict(batch):  # what was posted, one item for each request
        return model(batch)

    serve(predict, max_batch=16, rule="clockwork")

Standard library only. It answers HTTP on `$PORT`: `GET /health`, and `POST` with an item as JSON.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def serve(
    predict: Callable[[list[Any]], Sequence[Any]],
    *,
    max_batch: int = 8,
    rule: str = "static",
    slo_ms: float | None = None,
    example: Any = None,
    decode: Callable[[bytes], Any] | None = None,
    encode: Callable[[Any], bytes] | None = None,
    port: int | None = None,
    most_waiting: int = 4096,
) -> None:
    """Answer requests until SIGTERM; `predict` runs in this thread.

    `rule`: static, clipper, nexus, clockwork, shepherd or symphony, with parameters as in
    `static:wait_ms=2`. `slo_ms`: what the service file says, unless it is given. `example`: an item on
    which batches of some sizes are tried before the first request, so that the rule knows their times.
    `decode` makes an item of a request's body, `encode` the body of an answer of what `predict` gave;
    left out: both are JSON.
    """
    from dovetail.sdk.serving.running import ModelServer, ServingChoices

    ModelServer(
        predict,
        ServingChoices(max_batch, rule, slo_ms, example, decode, encode, port, most_waiting),
    ).run()
