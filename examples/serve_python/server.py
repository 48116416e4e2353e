"""A Python function as a service. Its batches form by the rule `clockwork`: as large as is in time.

dovetail serve examples/serve_python/service.yaml
curl -d '[0.1, 0.7, 0.2]' ADDRESS
"""

from __future__ import annotations

import numpy as np

from dovetail.sdk import serve

WEIGHTS = np.random.default_rng(0).standard_normal((3, 10))


def predict(batch: list[list[float]]) -> list[int]:
    scores = np.array(batch) @ WEIGHTS
    return [int(best) for best in scores.argmax(axis=1)]


if __name__ == "__main__":
    serve(predict, max_batch=16, rule="clockwork", example=[0.0, 0.0, 0.0])
