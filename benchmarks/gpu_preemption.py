"""Suspend and resume unmodified PyTorch training on a real GPU: what it costs and that nothing is lost.

    PYTHONPATH=src python benchmarks/gpu_preemption.py --out docs/gpu_preemption.md

Needs an NVIDIA driver 570 or newer, PyTorch and nvidia-ml-py, and no other work on the GPU. About eight
minutes on an H200; `--quick` under three. The training script below is all that runs on the GPU.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from dovetail.worlds.local import machine
from dovetail.worlds.local.gpus import cuda

GB = 1e9
NOBODY = 65534
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

TRAIN = '''"""An ordinary training script. It knows nothing of Dovetail."""
import argparse, ctypes, hashlib
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("losses")
parser.add_argument("--gb", type=float, default=0.5)
parser.add_argument("--steps", type=int, default=10**9)
parser.add_argument("--mode", default="plain")  # plain, loader, graph
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--managed", action="store_true")
options = parser.parse_args()

CHUNK, WIDTH, BATCH = 2**26, 1024, 256  # a chunk of the data is 256 MiB


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 10**7

    def __getitem__(self, index):
        return torch.randn(WIDTH, generator=torch.Generator().manual_seed(index))


def main():
    torch.manual_seed(options.seed)
    chunks = max(0, round((options.gb - 0.6) * 1e9 / (4 * CHUNK)))
    data = [torch.randn(CHUNK, device="cuda") for _ in range(chunks)]
    data = data or [torch.randn(CHUNK // 16, device="cuda")]
    if options.managed:
        managed = take_managed_memory(64 * 2**20)
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
    ).cuda()
    step = prepare(model)
    batches = from_loader() if options.mode == "loader" else None
    with open(options.losses, "w", buffering=1) as losses:
        for number in range(options.steps):
            chunk = data[number % len(data)].view(-1, WIDTH)
            start = number * BATCH % (len(chunk) - BATCH)
            x = chunk[start : start + BATCH]
            if batches is not None:
                x = x + next(batches).to("cuda", non_blocking=True)
            losses.write(f"{number} {step(x).item().hex()}\\n")
        weights = torch.cat([each.detach().flatten() for each in model.parameters()]).cpu()
        checksum = sum(int(chunk.view(torch.int32).sum(dtype=torch.int64)) for chunk in data)
        losses.write(f"end {hashlib.sha256(weights.numpy().tobytes()).hexdigest()} {checksum}\\n")


def prepare(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=options.mode == "graph")

    def step(x):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(model(x), x[:, :1].tanh())
        loss.backward()
        optimizer.step()
        return loss

    return captured(step) if options.mode == "graph" else step


def captured(step):
    still = torch.randn(BATCH, WIDTH, device="cuda")
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step(still)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(still)

    def replay(x):
        still.copy_(x)
        graph.replay()
        return loss

    return replay


def from_loader():
    return iter(
        torch.utils.data.DataLoader(Samples(), batch_size=BATCH, num_workers=2, pin_memory=True)
    )


def take_managed_memory(count):
    torch.zeros(1, device="cuda")
    with open("/proc/self/maps") as maps:
        runtime = ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart" in line))
    address, size = ctypes.c_void_p(), ctypes.c_size_t(count)
    assert runtime.cudaMallocManaged(ctypes.byref(address), size, 1) == 0
    assert runtime.cudaMemset(address, 1, size) == 0
    return address


if __name__ == "__main__":
    main()
'''

HOLD = '''"""Somebody else on the GPU: takes so many bytes and keeps them."""
import sys, time
import torch

taken = torch.empty(int(sys.argv[2]), dtype=torch.uint8, device="cuda")
open(sys.argv[1], "w").write("0 taken\\n")
time.sleep(3600)
'''


@dataclass
class Page:
    """What is printed and, as Markdown, kept. `problems` decides the exit status."""

    out: Path | None
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def say(self, text: str = "") -> None:
        self.lines.append(text)
        print(text, flush=True)
        if self.out:
            self.out.write_text("\n".join(self.lines) + "\n", encoding="utf-8")

    def tell(self, text: str, first: str = "") -> None:
        rest = " " * len(first)
        for line in textwrap.wrap(text, 98, initial_indent=first, subsequent_indent=rest):
            self.say(line)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The first column to the left, the figures to the right."""
        widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        for row in (head, rule, *rows):
            rest = zip(row[1:], widths[1:], strict=True)
            self.say(_row([row[0].ljust(widths[0]), *(text.rjust(width) for text, width in rest)]))
        self.say()

    def check(self, holds: bool, what: str) -> str:
        if not holds:
            self.problems.append(what)
        return "yes" if holds else "NO"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


class Job:
    """One training process and the file of its losses."""

    def __init__(
        self, folder: Path, script: str, *options: object, user: int | None = None
    ) -> None:
        self.losses = folder / f"losses{time.monotonic_ns()}"
        self.log = self.losses.with_suffix(".log")
        command = [sys.executable, str(folder / script), str(self.losses), *map(str, options)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "HOME": str(folder)},
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        self.pid = self.process.pid

    def steps(self) -> int:
        return self.losses.read_bytes().count(b"\n") if self.losses.exists() else 0

    def wait_for(self, steps: int, limit_s: float = 240) -> int:
        until = time.monotonic() + limit_s
        while self.steps() < steps:
            if self.process.poll() is not None or time.monotonic() > until:
                if self.steps() >= steps:
                    break
                raise SystemExit(f"a job got stuck: {self.log.read_text()[-2000:]}")
            time.sleep(0.005)
        return self.steps()

    def goes_on(self) -> bool:
        """It makes twenty more steps."""
        with suppress(SystemExit):
            return self.wait_for(self.steps() + 20, limit_s=20) > 0
        return False

    def stands_still(self) -> bool:
        before = self.steps()
        time.sleep(0.1)
        return self.steps() == before

    def curve(self) -> list[str]:
        """Every loss, bit for bit, then the sums over weights and data; waits for the end."""
        if self.process.wait(240):
            raise SystemExit(f"a job failed: {self.log.read_text()[-2000:]}")
        return self.losses.read_text().splitlines()

    def tree(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Bench:
    """Where the scripts lie, and what is left of the GPU when nobody is on it."""

    folder: Path
    page: Page
    quick: bool
    uuid: str
    idle_free: int
    jobs: list[Job] = field(default_factory=list)

    def job(self, *options: object, script: str = "train.py", user: int | None = None) -> Job:
        job = Job(self.folder, script, *options, user=user)
        self.jobs.append(job)
        return job

    def used_gb(self) -> float:
        """On the GPU, beyond what the idle driver takes."""
        return (self.idle_free - machine.free_gpu_memory_bytes()[self.uuid]) / GB

    def end_all(self) -> None:
        for job in self.jobs:
            job.end()
        self.jobs.clear()


def host_gb() -> float:
    return machine.host_memory_available_bytes() / GB


# --- (a) seconds against bytes ---


@dataclass(frozen=True)
class Switch:
    """One suspension and resumption."""

    gpu_gb: float
    lock_s: float
    suspend_s: float
    left_gb: float
    host_gb: float
    resume_s: float
    unlock_s: float

    def cells(self, label: str) -> list[str]:
        return [
            label,
            f"{self.gpu_gb:.2f}",
            f"{self.lock_s * 1000:.1f}",
            f"{self.suspend_s:.2f}",
            f"{self.gpu_gb / self.suspend_s:.1f}",
            f"{self.left_gb * 1000:.0f}",
            f"{self.host_gb:.1f}",
            f"{self.resume_s:.2f}",
            f"{self.gpu_gb / self.resume_s:.1f}",
            f"{self.unlock_s * 1000:.1f}",
        ]


SWITCH_HEAD = (
    "job GB",
    "on GPU GB",
    "lock ms",
    "suspend s",
    "GB/s",
    "left MB",
    "host GB",
    "resume s",
    "GB/s",
    "unlock ms",
)


def switch(bench: Bench, job: Job) -> Switch:
    job.wait_for(job.steps() + 50)
    on_gpu = machine.gpu_memory_bytes([job.pid])[job.pid] / GB
    host = host_gb()
    off = cuda.suspend([job.pid])
    left, held = bench.used_gb(), host - host_gb()
    bench.page.check(job.stands_still(), "a suspended job made a step")
    on = cuda.resume([job.pid])
    return Switch(on_gpu, off.lock_s, off.move_s, left, held, on.move_s, on.lock_s)


def middle(switches: Sequence[Switch]) -> Switch:
    return min(
        switches, key=lambda each: abs(each.suspend_s - median(s.suspend_s for s in switches))
    )


def seconds_against_bytes(bench: Bench) -> None:
    page = bench.page
    page.say("## Seconds against bytes")
    page.say()
    page.tell(
        "One training job alone, suspended and resumed in mid-training; the middle one of three "
        "(two from 16 GB on). `left` is what stays on the GPU, `host` what the host's memory holds "
        "meanwhile."
    )
    page.say()
    sizes = [0.5, 2.0] if bench.quick else [0.5, 2.0, 8.0, 16.0, 32.0]
    rows = [middle(switches_at(bench, size)).cells(f"{size:g}") for size in sizes]
    page.table(SWITCH_HEAD, rows)
    with huge_pages() as allowed:
        if allowed:
            page.tell(
                "The same with transparent huge pages for everyone (`always`, not `madvise`):"
            )
            page.say()
            sizes = sizes[1::3] if len(sizes) > 2 else sizes[-1:]
            rows = [middle(switches_at(bench, size)).cells(f"{size:g}") for size in sizes]
            page.table(SWITCH_HEAD, rows)


def switches_at(bench: Bench, size: float) -> list[Switch]:
    job = bench.job("--gb", size)
    found = [switch(bench, job) for _ in range(3 if size < 16 else 2)]
    bench.page.check(job.goes_on(), f"the job of {size:g} GB did not go on")
    bench.end_all()
    return found


@contextmanager
def huge_pages() -> Iterator[bool]:
    """For the whole machine, and only for a moment: False where that is not ours to change."""
    before = (
        HUGE_PAGES.read_text().partition("[")[2].partition("]")[0] if HUGE_PAGES.exists() else ""
    )
    if before in ("", "always") or not os.access(HUGE_PAGES, os.W_OK):
        yield False
        return
    HUGE_PAGES.write_text("always")
    try:
        yield True
    finally:
        HUGE_PAGES.write_text(before)


# --- (b) two jobs that do not fit together ---


def two_that_do_not_fit(bench: Bench) -> None:
    page = bench.page
    page.say("## Two jobs on one GPU that cannot hold both")
    page.say()
    if not bench.quick:
        one_gives_way(bench)
    turn_by_turn(bench)


def one_gives_way(bench: Bench) -> None:
    """The long one is preempted, a short one of the same size runs to its end, the long one goes on."""
    page, size, steps = bench.page, round(bench.idle_free / GB / 2 + 1), 1500
    long_options = ("--gb", size, "--steps", steps)
    alone = bench.job(*long_options).curve()
    long = bench.job(*long_options)
    long.wait_for(steps // 2)
    needs = machine.gpu_memory_by_gpu([long.pid])
    off = cuda.suspend([long.pid])
    room = machine.free_gpu_memory_bytes()[bench.uuid] / GB
    short = bench.job("--gb", size, "--steps", 500, "--seed", 1)
    short.wait_for(100)
    both = bench.used_gb() + needs[bench.uuid] / GB
    refused = machine.room_for(needs)
    page.check(refused != "", "room was promised for a job that does not fit")
    short.curve()
    on = cuda.resume([long.pid])
    same = page.check(long.curve() == alone, "the job that gave way lost something")
    page.tell(
        f"**One gives way.** Two jobs of {size} GB want {both:.0f} GB of a GPU of "
        f"{bench.idle_free / GB:.0f} GB. The long one is suspended at half its way in "
        f"{off.move_s:.1f} s ({room:.0f} GB are then free), the short one starts, runs and ends, the "
        f"long one is back in {on.move_s:.1f} s. While the short one was there, `room_for` said "
        f'"{refused.partition(" has ")[2]}". Every loss, the weights and the data of the long one '
        f"are as when it ran alone: {same}."
    )
    page.say()
    bench.end_all()


def turn_by_turn(bench: Bench) -> None:
    """Both in turn. Between two turns the host holds both, so they are smaller than the host."""
    page, size, steps = bench.page, 2.0 if bench.quick else 12.0, 1600
    options = [("--gb", size, "--steps", steps, "--seed", seed) for seed in (1, 2)]
    alone = [job.curve() for job in [bench.job(*each) for each in options]]
    left = int(1.6 * size * GB)
    taken = machine.free_gpu_memory_bytes()[bench.uuid] - left - int(0.6 * GB)  # and a context
    bench.job(taken, script="hold.py").wait_for(1)
    free = machine.free_gpu_memory_bytes()[bench.uuid] / GB
    first, second = bench.job(*options[0]), None
    switches, needs = [], 0
    for mark in (steps // 4, steps // 2, steps * 3 // 4):
        first.wait_for(mark)
        needs = machine.gpu_memory_by_gpu([first.pid])[bench.uuid]
        switches.append(cuda.suspend([first.pid]).move_s)
        if second is None:
            second = bench.job(*options[1])
        else:
            switches.append(_resumed(bench, second, needs))
        second.wait_for(mark)
        switches.append(cuda.suspend([second.pid]).move_s)
        switches.append(_resumed(bench, first, needs))
    first_same = first.curve() == alone[0]
    assert second is not None
    switches.append(_resumed(bench, second, needs))
    same = page.check(first_same and second.curve() == alone[1], "jobs in turn lost something")
    page.tell(
        f"**Turn by turn.** Another process holds all but {free:.0f} GB; two jobs of "
        f"{needs / GB:.1f} GB each take turns on the rest, {len(switches)} switches in "
        f"{sum(switches):.0f} s. Both are as when they ran alone: {same}. Between two turns the host "
        f"holds both jobs, which is why these are smaller: a host needs as much free memory as the "
        f"jobs that take turns."
    )
    page.say()
    bench.end_all()


def _resumed(bench: Bench, job: Job, needs: int) -> float:
    bench.page.check(machine.room_for({bench.uuid: needs}) == "", "no room after a suspension")
    return cuda.resume([job.pid]).move_s


# --- (c) twenty preemptions ---


def twenty_preemptions(bench: Bench) -> None:
    page, times = bench.page, 3 if bench.quick else 20
    steps = {"plain": 4200, "loader": 4200, "graph": 21_000}  # seconds of work each
    page.say(f"## {times} preemptions")
    page.say()
    modes = tuple(steps)
    names = {
        "plain": "plain",
        "loader": "DataLoader, 2 workers, pinned memory",
        "graph": "CUDA graph",
    }
    options = {mode: ("--mode", mode, "--steps", steps[mode]) for mode in modes}
    alone = {mode: bench.job(*options[mode]) for mode in modes}
    broken = {mode: bench.job(*options[mode]) for mode in modes}
    with ThreadPoolExecutor(len(modes)) as pool:
        seconds = dict(
            zip(
                modes,
                pool.map(lambda mode: preempted(bench, broken[mode], times, steps[mode]), modes),
                strict=True,
            )
        )
    rows = []
    for mode in modes:
        same = page.check(broken[mode].curve() == alone[mode].curve(), f"{mode} lost something")
        off, on = seconds[mode]
        rows.append([names[mode], str(steps[mode]), str(times), f"{off:.2f}", f"{on:.2f}", same])
    page.tell(
        "Suspended at random moments; each loss, and at the end the weights and the data, compared "
        "bit for bit with a run alone. Middle values of the seconds; the three run at once."
    )
    page.say()
    head = ("training", "steps", "preempted", "suspend s", "resume s", "same bits")
    page.table(head, rows)
    bench.end_all()


def preempted(bench: Bench, job: Job, times: int, steps: int) -> tuple[float, float]:
    chance, off, on = random.Random(job.pid), [], []
    for count in range(times):
        job.wait_for((count + 1) * steps // (times + 1))
        time.sleep(chance.random() * 0.01)
        if count == 0:
            holders = cuda.holders(job.tree())
            seen = sorted(machine.gpu_memory_bytes(job.tree()))
            bench.page.check(holders == [job.pid] == seen, f"wrong holders: {holders}, {seen}")
        off.append(cuda.suspend([job.pid]).move_s)
        bench.page.check(job.stands_still(), "a suspended job made a step")
        bench.page.check(not machine.gpu_memory_bytes([job.pid]), "a suspended job held GPU memory")
        on.append(cuda.resume([job.pid]).move_s)
    return median(off), median(on)


# --- (d) what goes wrong ---

STEPS_D = 2000


@dataclass(frozen=True)
class Trial:
    """One thing that goes wrong, tried on a job in mid-training."""

    what: str
    gb: float
    attempt: Callable[[Bench, list[Job]], str]
    managed: bool = False
    partner: tuple[object, ...] = ()  # a second process, suspended with the first


def half_way(bench: Bench) -> None:
    page = bench.page
    page.say("## What goes wrong half-way")
    page.say()
    page.tell(
        "Each on a job in mid-training, which afterwards must run to its end with the same bits as "
        "alone and hold no more GPU and host memory than before (GB, before → after). All are tried "
        "at once, so the seconds are longer than they need be."
    )
    page.say()
    alone = {gb: bench.job("--gb", gb, "--steps", STEPS_D) for gb in (0.5, 4.0)}
    spare = [bench.job("--gb", 4.0) for _ in range(2)]
    with ThreadPoolExecutor(len(TRIALS) + 2) as pool:
        lines = [pool.submit(tried, bench, trial, alone[trial.gb]) for trial in TRIALS]
        lines += [pool.submit(other, bench) for other in (as_an_ordinary_user, cost_of_the_caller)]
    for line in lines:
        page.tell(line.result(), "- ")
    page.tell(killed_while_suspended(bench, spare[0]), "- ")
    page.tell(restored_without_room(bench, spare[1]), "- ")
    page.say()
    bench.end_all()


def tried(bench: Bench, trial: Trial, alone: Job) -> str:
    partners = [bench.job(*trial.partner)] if trial.partner else []
    for partner in partners:
        partner.wait_for(50)
    flags = ["--managed"] if trial.managed else []
    jobs = [bench.job("--gb", trial.gb, "--steps", STEPS_D, *flags), *partners]
    jobs[0].wait_for(STEPS_D // 4)
    before = Held.by(jobs)
    told = trial.attempt(bench, jobs)
    goes_on = all([job.goes_on() for job in jobs])
    after = Held.by(jobs)
    same = bench.page.check(goes_on and jobs[0].curve() == alone.curve(), f"{trial.what}: lost")
    back = bench.page.check(after.no_more_than(before), f"{trial.what}: memory kept")
    return (
        f"**{trial.what}**: {told}. Same bits: {same}. Memory given back: {back} "
        f"(GPU {before.gpu_gb:.1f} → {after.gpu_gb:.1f}, host {before.host_gb:.1f} → "
        f"{after.host_gb:.1f})."
    )


@dataclass(frozen=True)
class Held:
    """What some processes hold of the GPU's and of the host's memory."""

    gpu_gb: float
    host_gb: float

    @staticmethod
    def by(jobs: Sequence[Job]) -> Held:
        pids = [job.pid for job in jobs]
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
        on_gpu = sum(machine.gpu_memory_bytes(pids).values())
        return Held(on_gpu / GB, pages * resource.getpagesize() / GB)

    def no_more_than(self, other: Held) -> bool:
        return self.gpu_gb < other.gpu_gb + 0.1 and self.host_gb < other.host_gb + 0.3


def refused(pids: Sequence[int]) -> str:
    """Suspend, expecting a refusal; the driver's words without the process ids."""
    began = time.monotonic()
    try:
        cuda.suspend(pids)
    except cuda.SuspendFailed as failure:
        stuck = f", stuck: {len(failure.stuck)}" if failure.stuck else ""
        return (
            f"{failure.step} refused after {time.monotonic() - began:.2f} s, {failure.why}{stuck}"
        )
    cuda.resume(pids)
    return "not refused"


def just_suspended(bench: Bench, jobs: list[Job]) -> str:
    return refused([job.pid for job in jobs])


def too_little_host_memory(bench: Bench, jobs: list[Job]) -> str:
    (job,) = jobs
    pages = int(Path(f"/proc/{job.pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2**30
    resource.prlimit(job.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    told = refused([job.pid])
    resource.prlimit(job.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    return f"{told}; tried again without the limit: {refused([job.pid])}"


def stopped_process(bench: Bench, jobs: list[Job]) -> str:
    (job,) = jobs
    os.kill(job.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, job.pid, os.WSTOPPED | os.WNOWAIT)
    told = refused([job.pid])
    os.kill(job.pid, signal.SIGCONT)
    return told


def killed_caller(bench: Bench, jobs: list[Job]) -> str:
    (job,) = jobs
    caller = call(bench, f"print(flush=True); cuda.suspend([{job.pid}])")
    assert caller.stdout is not None
    caller.stdout.readline()
    time.sleep(0.5)
    caller.kill()
    caller.communicate()
    began = time.monotonic()
    state = cuda.state(job.pid)
    waited = time.monotonic() - began
    cuda.resume([job.pid])
    return (
        f"killed 0.5 s after the call; the next caller waits {waited:.2f} s, finds the process "
        f"{state} and resumes it"
    )


def paired(bench: Bench, jobs: list[Job]) -> str:
    (job,) = jobs
    cuda.suspend([job.pid])
    cuda.resume([job.pid], {bench.uuid: bench.uuid})
    return "restored onto a GPU named by its UUID (here the same one)"


TRIALS = (
    Trial("Managed memory", 0.5, just_suspended, managed=True),
    Trial(
        "One of two uses managed memory",
        4.0,
        just_suspended,
        partner=("--gb", 0.5, "--managed"),
    ),
    Trial("Too little host memory", 4.0, too_little_host_memory),
    Trial("A stopped process", 0.5, stopped_process),
    Trial("The caller is killed", 4.0, killed_caller),
    Trial("GPUs given by UUID", 0.5, paired),
)


def call(bench: Bench, code: str, user: int | None = None) -> subprocess.Popen[str]:
    """Our own code in a process of its own, as a daemon that can be killed or an ordinary user."""
    start = (
        "from dovetail.worlds.local import machine\nfrom dovetail.worlds.local.gpus import cuda\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", start + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=bench.folder,
        env={**os.environ, "PYTHONPATH": str(bench.folder / "src")},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )


def last_line(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    return (out or err).strip().splitlines()[-1].rpartition("SuspendFailed: ")[2]


def as_an_ordinary_user(bench: Bench) -> str:
    """Nobody suspends its own job, and does not get at another's."""
    what = "**As an ordinary user**: "
    if os.getuid():
        return f"{what}everything here was."
    own, other = bench.job("--gb", 0.5, user=NOBODY), bench.job("--gb", 0.5)
    for job in (own, other):
        job.wait_for(100)
    code = "print(cuda.suspend([{0}]) and cuda.resume([{0}]) and 'suspended and resumed')"
    answers = [last_line(call(bench, code.format(job.pid), NOBODY)) for job in (own, other)]
    told = [answer.replace(f"process {other.pid}", "the process") for answer in answers]
    fine = bench.page.check(own.goes_on() and other.goes_on(), "a job of an ordinary user")
    return f"{what}its own job: {told[0]}; another user's: {told[1]}. Both go on: {fine}."


CALLER = """
import os
def size():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
before = size()
cuda.suspend([{pid}])
cuda.resume([{pid}])
print(f"{{size() - before:.1f}}", sum(machine.gpu_memory_bytes([os.getpid()]).values()))
"""


def cost_of_the_caller(bench: Bench) -> str:
    """A daemon makes these calls: it must stay small and off the GPU."""
    job = bench.job("--gb", 0.5)
    job.wait_for(100)
    grown_mb, on_gpu = last_line(call(bench, CALLER.format(pid=job.pid))).split(maxsplit=1)
    small = bench.page.check(on_gpu == "0", "the caller is a GPU process")
    return (
        f"**What the caller pays**: {grown_mb} MB of its memory for the first suspension and "
        f"resumption, {on_gpu} bytes of the GPU's: {small}."
    )


def killed_while_suspended(bench: Bench, job: Job) -> str:
    host = host_gb()
    cuda.suspend([job.pid])
    held, on_gpu = host_gb(), bench.used_gb()
    job.end()
    time.sleep(1)
    after = host_gb()
    back = bench.page.check(after > held + 3 and bench.used_gb() <= on_gpu, "memory not given back")
    return (
        f"**Killed while suspended**: its memory is given back: {back} (free on the host: "
        f"{host:.1f}, suspended {held:.1f}, killed {after:.1f})."
    )


def restored_without_room(bench: Bench, job: Job) -> str:
    """What `room_for` is there to prevent."""
    needs = machine.gpu_memory_by_gpu([job.pid])
    cuda.suspend([job.pid])
    holder = bench.job(machine.free_gpu_memory_bytes()[bench.uuid] - int(3 * GB), script="hold.py")
    holder.wait_for(1)
    warned = bench.page.check(machine.room_for(needs) != "", "room_for did not warn")
    first = not_resumed(job)
    holder.end()
    return (
        f"**Restored without room on the GPU**: `room_for` warned: {warned}. Done nevertheless: "
        f"{first}; again with room: {not_resumed(job)}. Such a job is lost and can only be ended."
    )


def not_resumed(job: Job) -> str:
    try:
        cuda.resume([job.pid])
    except cuda.ResumeFailed as failure:
        return f"{failure.step} refused, {failure.why}"
    return "resumed"


# --- all of it ---

PARTS = {
    "a": seconds_against_bytes,
    "b": two_that_do_not_fit,
    "c": twenty_preemptions,
    "d": half_way,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="write the page there as Markdown, too")
    parser.add_argument(
        "--parts", default="abcd", help="a table, b two jobs, c twenty times, d failures"
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--append", action="store_true", help="go on with the page of an earlier run"
    )
    options = parser.parse_args()
    gpus = machine.find_gpus()
    reason = machine.gpu_trouble() or cuda.can_suspend() or ("" if gpus else "no GPU was found")
    if reason:
        raise SystemExit(f"gpu_preemption: {reason}")
    page = Page(options.out)
    if options.append:
        page.lines += options.out.read_text(encoding="utf-8").splitlines()
    with TemporaryDirectory() as name, machine.nvml():
        bench = prepare(Path(name), page, options.quick, gpus[0])
        if not page.lines:
            introduce(page, gpus[0])
        try:
            for part in options.parts:
                PARTS[part](bench)
        finally:
            bench.end_all()
    for problem in page.problems:
        page.say(f"PROBLEM: {problem}")
    sys.exit(bool(page.problems))


def prepare(folder: Path, page: Page, quick: bool, gpu: machine.GpuFound) -> Bench:
    folder.chmod(0o777)  # an ordinary user writes losses there, too
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    (folder / "hold.py").write_text(HOLD, encoding="utf-8")
    package = Path(machine.__file__).parents[2]
    shutil.copytree(package, folder / "src" / "dovetail")
    return Bench(folder, page, quick, gpu.uuid, machine.free_gpu_memory_bytes()[gpu.uuid])


def introduce(page: Page, gpu: machine.GpuFound) -> None:
    torch = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    page.say("# Suspending GPU jobs: what it costs, and that nothing is lost")
    page.say()
    page.tell(
        f"Measured by `benchmarks/gpu_preemption.py` on one {gpu.kind} ({gpu.memory_gb:g} GiB) with "
        f"driver {cuda.driver_version()}, PyTorch {torch}, {len(os.sched_getaffinity(0))} cores and "
        f"{machine.host_memory_bytes() / 2**30:.0f} GiB of host memory. The training scripts know "
        f"nothing of Dovetail. GB are 10⁹ bytes."
    )
    page.say()


if __name__ == "__main__":
    main()
