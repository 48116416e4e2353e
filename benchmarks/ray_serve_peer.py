"""One Ray Serve deployment for `service_peers`, run by the Python of .venv-peers:

    python ray_serve_peer.py PORT LEAST MOST AT_ONCE LOAD_S

It says `declaring` once Ray has started, `ready` once a request would be answered, and ends when its
input does. The server does what the one beside ours does: it takes LOAD_S to load, then waits as long
as `s` says, and answers `ok`.
"""

from __future__ import annotations

import asyncio
import sys
import time

import ray  # type: ignore[import-not-found,unused-ignore]
from ray import serve  # type: ignore[import-not-found,unused-ignore]
from starlette.requests import Request
from starlette.responses import PlainTextResponse

IDLE_S = 2.0


def main() -> None:
    port, least, most, at_once = map(int, sys.argv[1:5])
    load_s = float(sys.argv[5])

    class Model:
        def __init__(self) -> None:
            time.sleep(load_s)

        async def __call__(self, request: Request) -> PlainTextResponse:
            await asyncio.sleep(float(request.query_params.get("s", "0")))
            return PlainTextResponse("ok")

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    print("declaring", flush=True)
    scaling = {
        "min_replicas": least,
        "max_replicas": most,
        "initial_replicas": max(least, 1),
        "target_ongoing_requests": at_once * 0.7,
        "downscale_delay_s": IDLE_S,
        "downscale_to_zero_delay_s": IDLE_S,
    }
    made = serve.deployment(
        Model,
        max_ongoing_requests=at_once,
        autoscaling_config=scaling,
        ray_actor_options={"num_cpus": 1},
    )
    serve.run(made.bind(), name="bench", route_prefix="/")
    print("ready", flush=True)
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
