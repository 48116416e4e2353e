"""Real PyTorch on the processor: training that is interrupted learns the same, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("torch") is None:
    pytest.skip(
        "PyTorch is not here: `make test` found no build without CUDA for this platform",
        allow_module_level=True,
    )

HERE = Path(__file__).parents[2]
EXAMPLE = str(HERE / "examples" / "train_torch.py")
ELASTIC = str(HERE / "examples" / "elastic_ddp" / "train.py")
LEFT = 85


@dataclass(frozen=True)
class Forge:
    process: subprocess.Popen[str]

    def start(
        self,
        folder: Path,
        *words: str,
        stop: bool = False,
        term_after_bytes: int | None = None,
        ranks: int = 1,
        gpus: int = 1,
    ) -> list[int]:
        """The exit codes of a job's ranks; `stop` asks it to leave from the beginning."""
        folder.mkdir(exist_ok=True)
        (folder / "stop").touch() if stop else (folder / "stop").unlink(missing_ok=True)
        variables = {"REPORT": "reports.jsonl", "STOP": "stop", "CHECKPOINT_DIR": "checkpoints"}
        request = {
            "words": words,
            "folder": str(folder),
            "env": {
                **{f"DOVETAIL_{name}": str(folder / file) for name, file in variables.items()},
                "DOVETAIL_GPUS": str(gpus),
            },
            "term_after_bytes": term_after_bytes,
            "ranks": ranks,
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        codes: list[int] = json.loads(self.process.stdout.readline())
        return codes


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    words = [sys.executable, str(Path(__file__).with_name("forge.py"))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Forge(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(120) == 0


def curve(folder: Path) -> list[dict[str, Any]]:
    """Everything reported, as text that holds every bit."""
    lines = map(json.loads, (folder / "reports.jsonl").read_text().splitlines())
    return [line for line in lines if "dovetail" not in line]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_interrupted_after_every_step_has_the_same_loss_curve(
    forge: Forge, tmp_path: Path, workers: str
) -> None:
    words = (EXAMPLE, "--epochs", "3", "--workers", workers)
    alone, cut = tmp_path / "alone", tmp_path / "cut"
    assert forge.start(alone, *words) == [0]
    starts = 0
    while forge.start(cut, *words, stop=True) == [LEFT]:
        starts += 1
    assert starts == 14  # 12 steps, and the ends of two of the three epochs
    assert len(curve(alone)) == 12
    assert curve(cut) == curve(alone)


def test_a_run_interrupted_by_sigterm_at_any_moment_has_the_same_loss_curve(
    forge: Forge, tmp_path: Path
) -> None:
    words = (EXAMPLE, "--epochs", "60")
    alone, cut = tmp_path / "alone", tmp_path / "cut"
    assert forge.start(alone, *words) == [0]
    whole = (alone / "reports.jsonl").stat().st_size
    codes = [LEFT]
    for part in (0.1, 0.3, 0.5, 9):  # the last signal never comes
        if codes == [LEFT]:  # on a busy machine it may be done before a signal comes
            codes = forge.start(cut, *words, term_after_bytes=int(part * whole))
    assert codes == [0]
    assert curve(cut) == curve(alone)


HAND_MADE = """
import random, torch
from dovetail import sdk
from dovetail.sdk.pytorch import Resumable
torch.set_num_threads(1)
torch.manual_seed(1)
generator = torch.Generator().manual_seed(2)
model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(3, 1))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.arange(30.0).reshape(10, 3))
loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True, generator=generator)
def learn(batch):
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss
run = Resumable(model=model, optimizer=optimizer)
random.random(); torch.rand(1)  # what is drawn before the loop does not count
"""
LOOPS = {
    "steps": """
for step in run.steps(6):
    sdk.report(step, loss=learn(torch.rand(4, 3)), drawn=random.random())
""",
    "own generator": """
for epoch in run.epochs(3):
    for [batch] in run.batches(loader):
        sdk.report(run.step, loss=learn(batch))
    sdk.report(run.step, drawn=torch.rand(1))
""",
    "by hand": """
run.restore()
while run.step < 6:
    sdk.report(run.step, loss=learn(torch.rand(4, 3)))
    run.step += 1
    run.pause_if_asked()
""",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_every_kind_of_loop_goes_on_exactly(forge: Forge, tmp_path: Path, loop: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(HAND_MADE + LOOPS[loop])
    alone, cut = tmp_path / "alone", tmp_path / "cut"
    # Python's chance is not seeded by the script, so the run alone starts from a checkpoint too.
    assert forge.start(alone, str(script), stop=True) == [LEFT]
    (cut / "checkpoints").mkdir(parents=True)
    for file in ("reports.jsonl", "checkpoints/resumable-0.pt"):
        (cut / file).write_bytes((alone / file).read_bytes())
    assert forge.start(alone, str(script)) == [0]
    while forge.start(cut, str(script), stop=True) == [LEFT]:
        pass
    assert len(curve(alone)) >= 6
    assert curve(cut) == curve(alone)


RANKS = """
import datetime, os, signal, sys, torch
from dovetail import sdk
from dovetail.sdk.pytorch import Resumable
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
torch.distributed.init_process_group(
    "gloo", f"file://{os.getcwd()}/meeting-{sys.argv[1]}", datetime.timedelta(seconds=60), 2, rank
)
torch.manual_seed(rank)
model = torch.nn.Linear(3, 1)
run = Resumable(model=model)
for step in run.steps(40):
    if rank == 0 and step == 15 and sys.argv[1] == "asked":
        os.kill(os.getpid(), signal.SIGTERM)
    total = torch.rand(1)
    torch.distributed.all_reduce(total)
    sdk.report(step, rank=rank, total=total)
torch.distributed.destroy_process_group()
"""


def test_all_ranks_stop_after_the_same_step_when_one_is_asked(forge: Forge, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(RANKS)
    alone, cut = tmp_path / "alone", tmp_path / "cut"
    assert forge.start(alone, str(script), "alone", ranks=2) == [0, 0]
    assert forge.start(cut, str(script), "asked", ranks=2) == [LEFT, LEFT]
    assert max(line["step"] for line in curve(cut)) == 15
    assert forge.start(cut, str(script), "again", ranks=2) == [0, 0]
    for rank in (0, 1):
        told = [[line for line in curve(job) if line["rank"] == rank] for job in (alone, cut)]
        assert told[0] == told[1]
        assert len(told[0]) == 40


# ------------------------------------------------------------------------------------- what is bad


def ends_badly(forge: Forge, folder: Path, script: str) -> str:
    (folder / "script.py").write_text(script)
    tail = "import sys, traceback\ntry:\n    go()\nexcept Exception as problem:\n"
    tail += "    open('problem', 'w').write(f'{type(problem).__name__}: {problem}')\n"
    (folder / "script.py").write_text(script + tail)
    assert forge.start(folder, str(folder / "script.py")) == [0]
    return (folder / "problem").read_text()


def test_a_part_without_a_state_is_refused(forge: Forge, tmp_path: Path) -> None:
    script = "from dovetail.sdk.pytorch import Resumable\ndef go(): Resumable(model=3)\n"
    problem = ends_badly(forge, tmp_path, script)
    assert problem == "TypeError: model has no state_dict(): a int cannot be saved"


def test_a_checkpoint_of_other_parts_is_refused(forge: Forge, tmp_path: Path) -> None:
    script = """if True:
        import torch
        from dovetail.sdk.pytorch import Resumable
        def go():
            Resumable(model=torch.nn.Linear(1, 1)).save()
            Resumable(network=torch.nn.Linear(1, 1)).restore()
    """
    problem = ends_badly(forge, tmp_path, script + "\n")
    assert problem.endswith("resumable-0.pt holds model, but this script has network")


def test_a_save_that_fails_leaves_the_old_checkpoint(forge: Forge, tmp_path: Path) -> None:
    script = """if True:
        import resource, torch
        from dovetail.sdk.pytorch import Resumable
        def go():
            run = Resumable(model=torch.nn.Linear(100, 100))
            path = run.save()
            before = path.read_bytes()
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
            try:
                run.save()
            finally:
                assert path.read_bytes() == before
                assert [file.name for file in path.parent.iterdir()] == [path.name]
    """
    problem = ends_badly(forge, tmp_path, script + "\n")
    assert problem
    assert "AssertionError" not in problem


def test_saving_every_so_often_needs_no_request(forge: Forge, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    loop = (
        "for _ in run.steps(2): pass\nassert (sdk.checkpoint_dir() / 'resumable-0.pt').exists()\n"
    )
    script.write_text(HAND_MADE.replace("Resumable(model", "Resumable(every_s=0, model") + loop)
    assert forge.start(tmp_path / "job", str(script)) == [0]


def test_a_tensor_that_is_being_learned_is_a_number_too(forge: Forge, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, warnings\nfrom dovetail import sdk\nwarnings.simplefilter('error')\n"
        "sdk.report(torch.tensor(3), loss=torch.tensor(0.5, requires_grad=True).double())\n"
    )
    assert forge.start(tmp_path / "job", str(script)) == [0]
    assert curve(tmp_path / "job") == [{"step": 3, "loss": 0.5}]


def test_a_job_on_a_number_of_slots_that_changes_sees_every_sample_once_and_learns_the_same(
    forge: Forge, tmp_path: Path
) -> None:
    """In 64 bits the order of adding leaves next to nothing of a difference."""
    words = (ELASTIC, "--epochs", "2", "--samples", "50", "--batch", "8", "--sample-s", "0")
    alone, elastic = tmp_path / "alone", tmp_path / "elastic"
    assert forge.start(alone, *words, "--double") == [0]
    for gpus in (1, 4, 2, 3):
        left = forge.start(elastic, *words, "--double", "--record", ".", stop=True, gpus=gpus)
        assert left == [LEFT], "one step each"
    assert forge.start(elastic, *words, "--double", "--record", ".", gpus=3) == [0]
    seen = [line for file in elastic.glob("seen-*") for line in file.read_text().splitlines()]
    assert sorted(seen) == sorted(f"{epoch} {n}" for epoch in range(2) for n in range(50))
    pairs = list(zip(curve(elastic), curve(alone), strict=True))
    assert [one["step"] for one, _ in pairs] == [other["step"] for _, other in pairs]
    assert max(abs(one["loss"] / other["loss"] - 1) for one, other in pairs) < 1e-9
