"""A real model server on a GPU: seconds from request to answer when it is warm, asleep, and killed.

    PYTHONPATH=src:. python benchmarks/service_gpu.py --gb 4 --out docs/services_gpu.md

Needs PyTorch, an NVIDIA driver 570 or newer and nothing else on the GPU; no network. `--cpu --gb 0.2` is
a rehearsal without a GPU. The server and the training script below know nothing of Dovetail.
"""

from __future__ import annotations

import argparse
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from dovetail.client.connection import Client
from dovetail.home import home_in
from dovetail.worlds.local.runs.run import ProcessRun

ROUNDS = 5
SERVER = '''"""Serves a model of so many GB, loaded from a file."""
import sys, torch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, file, device = int(sys.argv[1]), sys.argv[2], sys.argv[3]
layers = [layer.to(device) for layer in torch.load(file)]

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        with torch.no_grad():
            x = torch.ones(1, layers[0].shape[0], device=device, dtype=layers[0].dtype)
            for layer in layers:
                x = torch.tanh(x @ layer)
            body = f"{x.float().sum().item():.6f}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass

ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
'''
TRAIN = '''"""Trains for ever, and says how far it is."""
import sys, torch
device, said = sys.argv[1], open(sys.argv[2], "w", buffering=1)
torch.manual_seed(0)
parts = torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1)
model = torch.nn.Sequential(*parts).to(device)
best = torch.optim.Adam(model.parameters())
step = 0
while True:
    x = torch.randn(256, 1024, device=device)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    best.zero_grad(); loss.backward(); best.step()
    step += 1
    said.write(f"{step} {loss.item():.6f}\\n")
'''
WEIGHTS = """
import sys, torch
width = 4096
number = max(int(float(sys.argv[2]) * 1e9 / (2 * width * width)), 1)
torch.manual_seed(0)
torch.save([torch.randn(width, width, dtype=torch.bfloat16) / 64 for _ in range(number)], sys.argv[1])
"""


def run_python(*words: str) -> None:
    subprocess.run([sys.executable, *words], check=True)


class Bench:
    """One daemon with one service on one slot."""

    def __init__(self, home: Path, options: argparse.Namespace) -> None:
        self.home = home
        self.device = "cpu" if options.cpu else "cuda"
        (home / "server.py").write_text(SERVER)
        (home / "train.py").write_text(TRAIN)
        run_python("-c", WEIGHTS, str(home / "weights.pt"), str(options.gb))
        up = ["up", "--policy", "fair-share", *(["--slots", "1"] if options.cpu else [])]
        self.dovetail(*up)
        self.client = Client(home_in(home))

    def dovetail(self, *words: str) -> None:
        run_python("-m", "dovetail.cli.main", "--home", str(self.home), *words)

    def declare(self) -> int:
        files = [str(self.home / "server.py"), "{port}", str(self.home / "weights.pt"), self.device]
        asked = {
            "spec": {
                "name": "model",
                "command": [sys.executable, *files],
                "replicas": {"min": 0, "max": 1},
                "idle_s": 2,
                "health": "/",
                "queue_s": 600,
            },
            "environment": dict(os.environ),
            "workdir": str(self.home),
        }
        return int(self.client.post("/v1/services", asked)["address"].rpartition(":")[2])

    def replica(self) -> dict[str, object]:
        found: list[dict[str, object]] = self.client.get("/v1/services/model")["replicas"]
        return found[0] if found else {"state": "none"}

    def wait(self, there: Callable[[], object]) -> None:
        deadline = time.monotonic() + 900
        while not there():
            if time.monotonic() > deadline:
                raise SystemExit(f"it did not happen: {self.client.get('/v1/services/model')}")
            time.sleep(0.05)

    def fall_asleep(self) -> None:
        self.wait(lambda: self.replica()["state"] == "asleep")
        job = self.replica()["job"]
        self.wait(lambda: self.client.get(f"/v1/jobs/{job}")["phase"] == "suspended")

    def kill(self) -> None:
        """The replica dies; the next one may start at once."""
        job = str(self.replica()["job"])
        pid = ProcessRun(self.home / "runs" / job / "1").main_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.wait(lambda: self.replica().get("job") != job)

    def train(self) -> str:
        words = [sys.executable, str(self.home / "train.py"), self.device]
        job = {
            "spec": {"name": "train", "command": [*words, str(self.home / "steps")]},
            "environment": dict(os.environ),
            "workdir": str(self.home),
        }
        found: str = self.client.post("/v1/jobs", {"jobs": [job]})["ids"][0]
        self.wait(lambda: self.steps() > 20)
        return found

    def has_trained(self, steps: int) -> bool:
        return self.steps() > steps

    def steps(self) -> int:
        file = self.home / "steps"
        return len(file.read_text().splitlines()) if file.exists() else 0


def answer_s(port: int) -> tuple[float, str]:
    began = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=900)) as line:
        line.request("GET", "/")
        answer = line.getresponse()
        body = answer.read().decode()
        assert answer.status == 200, body
    return time.monotonic() - began, body


def measured(bench: Bench, rounds: int) -> dict[str, list[float]]:
    port = bench.declare()
    found: dict[str, list[float]] = {"killed": [], "warm": [], "asleep": [], "beside training": []}
    first, right = answer_s(port)
    found["killed"].append(first)  # it had never been started
    for _ in range(rounds):
        found["warm"].append(checked(port, right))
        bench.fall_asleep()
        found["asleep"].append(checked(port, right))
    for _ in range(rounds - 1):
        bench.kill()
        found["killed"].append(checked(port, right))
    bench.fall_asleep()
    job = bench.train()
    for _ in range(rounds):
        before = bench.steps()
        found["beside training"].append(checked(port, right))
        bench.fall_asleep()
        bench.wait(partial(bench.has_trained, before + 20))
    bench.client.post("/v1/jobs/cancel", {"ids": [job]})
    return found


def checked(port: int, right: str) -> float:
    seconds, body = answer_s(port)
    assert body == right, f"{body} instead of {right}"
    return seconds


def page(found: dict[str, list[float]], options: argparse.Namespace) -> str:
    about = {
        "warm": "the replica is awake",
        "asleep": "suspended: weights in host memory, GPU free",
        "killed": "no process: started, weights loaded from disk (page cache), healthy",
        "beside training": "asleep, and a training job has the GPU: it gives way first",
    }
    rows = [
        f"| {name} | {median(own):.3f} | {min(own):.3f} | {max(own):.3f} | {len(own)} | {about[name]} |"
        for name, own in found.items()
    ]
    where = "processors (a rehearsal)" if options.cpu else "one GPU"
    head = [
        "# A model server that sleeps: seconds from request to answer",
        "",
        f"Measured by `benchmarks/service_gpu.py` on {where}, a PyTorch server with {options.gb:g} GB",
        "of weights.",
        "Every answer was the same to the last digit.",
        "",
        "| the server is | median s | least s | most s | rounds | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    return "\n".join([*head, *rows, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=4.0)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="dovetail-gpu-") as folder:
        bench = Bench(Path(folder), options)
        try:
            told = page(measured(bench, options.rounds), options)
        finally:
            bench.dovetail("down", "--cancel")
    print(told)
    if options.out:
        options.out.write_text(told)


if __name__ == "__main__":
    main()
