"""A real model server on one GPU: seconds from request to answer when it is warm, asleep and killed,
alone and while a training job has the GPU. It writes `services_gpu.md` and `.json` to the folder given.

    python benchmarks/service_gpu.py --out FOLDER

Needs PyTorch, an NVIDIA driver 570 or newer, nothing else on the GPU, and of Dovetail what
`pip install .[live]` brings; no network. Six to eight minutes; what is done is kept if it is cut short.
`--cpu --gb 0.2` is a rehearsal without a GPU. The server and the training script below know nothing of
Dovetail.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from dovetail.client.connection import Client
from dovetail.home import home_in
from dovetail.worlds.local.runs.run import ProcessRun

GB = 1e9
IDLE_S = 2
SERVER = '''"""Serves a model of so many GB, loaded from a file."""
import sys, torch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
port, file, device = int(sys.argv[1]), sys.argv[2], sys.argv[3]
layers = [layer.to(device) for layer in torch.load(file, map_location="cpu")]

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
TRAIN = '''"""Trains, and writes the loss of every step."""
import sys, torch
device, steps, said = sys.argv[1], int(sys.argv[2]), open(sys.argv[3], "w", buffering=1)
width, batch = (4096, 4096) if device == "cuda" else (256, 256)
torch.manual_seed(0)
parts = torch.nn.Linear(width, 4 * width), torch.nn.ReLU(), torch.nn.Linear(4 * width, 1)
model = torch.nn.Sequential(*parts).to(device)
best = torch.optim.Adam(model.parameters())
for step in range(steps):
    x = torch.randn(batch, width, device=device)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    best.zero_grad(); loss.backward(); best.step()
    said.write(f"{step} {loss.item():.9g}\\n")
'''
WEIGHTS = """
import sys, torch
width = 4096
number = max(round(float(sys.argv[2]) * 1e9 / (2 * width * width)), 1)
torch.manual_seed(0)
torch.save([torch.randn(width, width).bfloat16() / 64 for _ in range(number)], sys.argv[1])
"""
CASES: Final = {  # in the order of the page
    "warm": "the replica is awake",
    "asleep": "suspended: its weights wait in host memory, the GPU is free",
    "killed": "no process: it is started, loads its weights (file in the page cache), is healthy",
    "killed, file on disk": "the same, and the file has left the page cache",
    "asleep, GPU in use": "a training job has the GPU; it is suspended first",
    "killed, GPU in use": "the same, and the server has to be started",
}


class Bench:
    """One daemon with one service on one GPU, or slot."""

    def __init__(self, home: Path, options: argparse.Namespace) -> None:
        self.home = home
        self.device = "cpu" if options.cpu else "cuda"
        self.weights, self.steps_file = home / "weights.pt", home / "steps"
        (home / "server.py").write_text(SERVER)
        (home / "train.py").write_text(TRAIN)
        say(f"writing {options.gb:g} GB of weights")
        run_python("-c", WEIGHTS, str(self.weights), str(options.gb))
        self.dovetail("up", "--policy", "fair-share", *(["--slots", "1"] if options.cpu else []))
        self.client = Client(home_in(home))

    def dovetail(self, *words: str) -> None:
        run_python("-m", "dovetail.cli.main", "--home", str(self.home), *words)

    def declare(self) -> int:
        files = [str(self.home / "server.py"), "{port}", str(self.weights), self.device]
        spec = {
            "name": "model",
            "command": [sys.executable, *files],
            "replicas": {"min": 0, "max": 1},
            "idle_s": IDLE_S,
            "health": "/",
            "queue_s": 600,
        }
        asked = {"spec": spec, "environment": environment(), "workdir": str(self.home)}
        return int(self.client.post("/v1/services", asked)["address"].rpartition(":")[2])

    def service(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get("/v1/services/model")
        return found

    def replica(self) -> dict[str, Any]:
        return next(iter(self.service()["replicas"]), {"state": "none"})

    def wait(self, what: str, there: Callable[[], object], within_s: float = 240) -> float:
        """How long it took."""
        began = time.monotonic()
        while not there():
            if time.monotonic() > began + within_s:
                sys.exit(f"{what} did not happen within {within_s:g} s: {self.service()}")
            time.sleep(0.02)
        return time.monotonic() - began

    def fall_asleep(self) -> float:
        """From its last request having been answered to its being suspended."""
        self.wait("draining", lambda: self.replica()["state"] in ("draining", "asleep"))
        return self.wait("falling asleep", lambda: self.replica()["state"] == "asleep")

    def phase(self, job: str) -> str:
        return str(self.client.get(f"/v1/jobs/{job}")["phase"])

    def remove(self) -> None:
        """The sleeping replica's process ends, as when a service is scaled to zero by killing."""
        self.client.post("/v1/jobs/cancel", {"ids": [self.replica()["job"]]})
        self.wait("ending", lambda: self.replica()["state"] == "none")

    def server_pid(self) -> int:
        pid = ProcessRun(self.home / "runs" / self.replica()["job"] / "1").main_pid()
        assert pid is not None
        return pid

    def train(self) -> str:
        words = [sys.executable, str(self.home / "train.py"), self.device, str(10**9)]
        spec = {"name": "train", "command": [*words, str(self.steps_file)]}
        job = {"spec": spec, "environment": environment(), "workdir": str(self.home)}
        found: str = self.client.post("/v1/jobs", {"jobs": [job]})["ids"][0]
        self.goes_on(0)
        return found

    def goes_on(self, steps: int) -> None:
        self.wait("training", lambda: last_step(self.steps_file) > steps + 20)


def environment() -> dict[str, str]:
    return {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def run_python(*words: str) -> None:
    done = subprocess.run([sys.executable, *words], env=environment(), check=False)
    if done.returncode:
        sys.exit(f"this failed: {' '.join(words)[:200]}")


def last_step(file: Path) -> int:
    if not file.exists():
        return 0
    with file.open("rb") as said:
        said.seek(max(file.stat().st_size - 200, 0))
        whole = said.read().rpartition(b"\n")[0].rpartition(b"\n")[2]
    return int(whole.split()[0]) if whole else 0


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------------------- measuring


class Measured:
    """Seconds by case, and what was seen beside them; written after every round."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.seconds: dict[str, list[float]] = {case: [] for case in CASES}
        self.suspending: list[float] = []
        self.memory: dict[str, float] = {}  # GB
        self.training = ""
        self.right = ""
        self._options = options

    def ask(self, port: int, case: str) -> None:
        seconds, body = answer_s(port)
        self.right = self.right or body
        if body != self.right:
            sys.exit(f"{case}: the answer was {body}, not {self.right} as before")
        self.seconds[case].append(seconds)
        say(f"{case}: {seconds:.3f} s")
        self.write()

    def write(self) -> None:
        folder = self._options.out
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "services_gpu.md").write_text(page(self, self._options))
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        told = {**own, "gb": self._options.gb, "machine": machine(self._options.cpu)}
        (folder / "services_gpu.json").write_text(json.dumps(told, indent=1) + "\n")


def answer_s(port: int) -> tuple[float, str]:
    began = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=600)) as line:
        line.request("GET", "/")
        answer = line.getresponse()
        body = answer.read().decode()
    if answer.status != 200:
        sys.exit(f"a request was answered with {answer.status}: {body}")
    return time.monotonic() - began, body


def measure(bench: Bench, found: Measured, rounds: int) -> None:
    before = gpu_gb()
    port = bench.declare()
    answer_s(port)  # the first start of all pays for files that nobody has read yet
    for _ in range(rounds):
        found.ask(port, "warm")
        found.memory["on the GPU, awake"] = gpu_gb() - before
        found.suspending.append(bench.fall_asleep())
        found.memory["on the GPU, asleep"] = gpu_gb() - before
        found.memory["in host memory, asleep"] = resident_gb(bench.server_pid())
        found.ask(port, "asleep")
    for case, few in (("killed", 3), ("killed, file on disk", 2)):
        for _ in range(min(rounds, few)):
            bench.fall_asleep()
            bench.remove()
            if case != "killed":
                forget(bench.weights)
            found.ask(port, case)
    beside_training(bench, found, port, rounds)


def beside_training(bench: Bench, found: Measured, port: int, rounds: int) -> None:
    bench.fall_asleep()
    job = bench.train()
    for case, few in (("asleep, GPU in use", rounds), ("killed, GPU in use", 2)):
        for _ in range(min(rounds, few)):
            if case != "asleep, GPU in use":
                bench.remove()
            found.ask(port, case)
            steps = last_step(bench.steps_file)
            bench.fall_asleep()
            bench.goes_on(steps)
    gave_way = bench.client.get(f"/v1/jobs/{job}")["preemptions"]
    bench.client.post("/v1/jobs/cancel", {"ids": [job]})
    bench.wait("ending", lambda: bench.phase(job) == "cancelled")
    found.training = as_alone(bench, gave_way)
    found.write()


def as_alone(bench: Bench, gave_way: int) -> str:
    """Its losses beside those of a run that nobody interrupts."""
    losses = bench.steps_file.read_text().splitlines()[:-1]
    say(f"training {len(losses):,} steps alone")
    file = bench.home / "alone"
    run_python(str(bench.home / "train.py"), bench.device, str(len(losses)), str(file))
    same = file.read_text().splitlines() == losses
    return (
        f"The training job gave way {gave_way} times. Each of its {len(losses):,} losses is as when it "
        f"runs alone: {'yes' if same else 'NO'}."
    )


def forget(file: Path) -> None:
    """Have the system drop it from the page cache."""
    with file.open("rb") as weights:
        os.fsync(weights.fileno())
        os.posix_fadvise(weights.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def gpu_gb() -> float:
    """In use on the first GPU; 0 where there is none."""
    import pynvml  # type: ignore[import-untyped]

    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        return float(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used) / GB
    return 0.0


def resident_gb(pid: int) -> float:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(row.split()[1]) for row in rows if row.startswith("VmRSS:")) * 1024 / GB


def machine(is_rehearsal: bool) -> str:
    import torch

    cores = f"PyTorch {torch.__version__}, {len(os.sched_getaffinity(0))} cores"
    if is_rehearsal:
        return f"processors alone (a rehearsal), {cores}"
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return f"one {torch.cuda.get_device_name()}, driver {' '.join(driver[:1])}, {cores}"


# --------------------------------------------------------------------------------------------- page


def page(found: Measured, options: argparse.Namespace) -> str:
    return "\n".join(
        [
            "# A model server that sleeps: seconds from request to answer",
            "",
            f"Measured by `benchmarks/service_gpu.py` on {machine(options.cpu)}.",
            f"The server is PyTorch behind Python's own HTTP server, with {options.gb:g} GB of weights;",
            "it and the training script know nothing of Dovetail. A request counts from its sending to",
            "the end of its answer, through the service's address. All answers are the same to the last",
            "digit.",
            "",
            "| the server is | median s | least s | most s | rounds | |",
            "| --- | ---: | ---: | ---: | ---: | --- |",
            *[_row(case, own) for case, own in found.seconds.items() if own],
            "",
            *_beside(found),
            "",
        ]
    )


def _row(case: str, own: list[float]) -> str:
    middle, least, most = median(own), min(own), max(own)
    return f"| {case} | {middle:.3f} | {least:.3f} | {most:.3f} | {len(own)} | {CASES[case]} |"


def _beside(found: Measured) -> Iterator[str]:
    if found.suspending:
        yield f"Going to sleep takes {median(found.suspending):.2f} s."
    if found.memory:
        told = [f"{what} {gb:.2f} GB" for what, gb in found.memory.items()]
        yield f"Memory of the server: {'; '.join(told)}."
    if found.training:
        yield found.training


@contextmanager
def running(options: argparse.Namespace) -> Iterator[Bench]:
    with TemporaryDirectory(prefix="dovetail-gpu-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), options)
        try:
            yield bench
        finally:
            with suppress(Exception):
                bench.client.post("/v1/services/model/stop")
            with suppress(SystemExit):
                bench.dovetail("down", "--cancel")


def check_means(is_rehearsal: bool) -> None:
    try:
        import torch
    except ModuleNotFoundError:
        sys.exit("PyTorch is needed: the server and the training job of this benchmark use it")
    if not is_rehearsal and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU here; --cpu --gb 0.2 is a rehearsal without one")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the page")
    parser.add_argument("--gb", type=float, default=4.0, help="of weights")
    parser.add_argument("--rounds", type=int, default=5, help="of those that sleep")
    parser.add_argument("--cpu", action="store_true", help="a rehearsal on one processor slot")
    options = parser.parse_args()
    check_means(options.cpu)
    found = Measured(options)
    with running(options) as bench:
        measure(bench, found, options.rounds)
    print((options.out / "services_gpu.md").read_text())


if __name__ == "__main__":
    main()
