"""Jobs in container images under a real daemon and a real engine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from container_engines import ENGINE, IMAGE, containers, prepare_engine
from dovetail.core.entries import Saved
from dovetail.core.errors import BadInput
from dovetail.core.model import JobId
from dovetail.daemon.submissions import Submission, Terminal
from dovetail.jobfiles.job_model import read
from dovetail.worlds.consoles import CommandBeside, Typed
from dovetail.worlds.local.containers import engine
from dovetail.worlds.local.runs import ladder
from dovetail.worlds.local.runs.run import ProcessRun
from live_box import ME, Box, box


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with pytest.MonkeyPatch.context() as patch:
        prepare_engine(tmp_path_factory.mktemp("engine"), patch)
        with box(tmp_path_factory.mktemp("box"), policy="fifo-skip") as made:
            yield made


def test_a_job_runs_in_its_image_as_its_owner_in_its_folder(here: Box, tmp_path: Path) -> None:
    script = 'id -u; pwd; echo "$OWN"; ls /etc/debian_version; echo made > made; exit 3'
    job = here.submit(script, image=IMAGE, workdir=str(tmp_path), envs={"OWN": "x y"})
    (row,) = here.wait(job)
    assert (row["phase"], row["exit_code"]) == ("failed", 3), row["reason"]
    uid, folder, own, missing = here.log(job).splitlines()
    assert (uid, folder, own) == (str(os.getuid()), str(tmp_path), "x y")
    assert "No such file" in missing
    assert (tmp_path / "made").stat().st_uid == os.getuid()
    assert containers("--all") == []


def test_a_shell_in_an_image_has_a_terminal_and_commands_run_beside_it_inside(here: Box) -> None:
    spec = read({"command": ["sh"], "image": IMAGE, "envs": {"OWN": "inside"}})
    shell = Submission(spec, {}, str(here.home.state), terminal=Terminal(33, 77, 600.0))
    job = JobId(here.service.submit([shell], ME)[0])
    here.wait_until(job, "running")
    consoles = here.daemon.world.consoles
    assert consoles is not None

    def says(words: bytes, answer: str, at: int) -> None:
        consoles.type(job, 0, Typed("test", at, words))
        here.wait_for(lambda: answer in here.log(job))

    first = b"stty size; tty; ls /etc/debian_version\r"
    says(first, "33 77", 0)
    here.wait_for(lambda: "No such file" in here.log(job))
    script = "echo $OWN; ls /etc/debian_version; id -u; exit 6"
    number = consoles.start(job, CommandBeside(("sh", "-c", script)))
    here.wait_for(lambda: consoles.end_of(job, number))
    ended = consoles.end_of(job, number)
    assert ended is not None
    assert ended.code == 6
    said = consoles.log(job, number, "stdout").read(0, 1000)[1].decode()
    assert said == f"inside\n{os.getuid()}\n"
    says(b"exit 5\r", "exit 5", len(first))
    (row,) = here.wait(job)
    assert row["exit_code"] == 5
    assert containers("--all") == []


TRAIN = """
import json, math, os, random, signal, sys, time
stop, folder = os.environ["DOVETAIL_STOP"], os.environ["DOVETAIL_CHECKPOINT_DIR"]
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
saved = os.path.join(folder, "state.json")
chance = random.Random(7)
step, weights = 0, [0.0] * 8
if os.path.exists(saved):
    kept = json.load(open(saved))
    step, weights = kept["step"], [float.fromhex(own) for own in kept["weights"]]
    version, words, more = kept["chance"]
    chance.setstate((version, tuple(words), more))
while step < int(sys.argv[1]):
    loss = 0.0
    for _ in range(400):
        row = [chance.gauss(0, 1) for _ in weights]
        wrong = sum(map(lambda a, b: a * b, row, weights)) - math.tanh(row[0] - row[3])
        weights = [w - 0.01 * wrong * x for w, x in zip(weights, row)]
        loss += wrong * wrong
    time.sleep(0.01)
    step += 1
    print(step, loss.hex(), flush=True)
    if asked and os.path.exists(stop):
        kept = {"step": step, "weights": [w.hex() for w in weights], "chance": chance.getstate()}
        json.dump(kept, open(saved + ".new", "w"))
        os.replace(saved + ".new", saved)
        sys.exit(75)
"""
EPOCHS = 250


@pytest.fixture(scope="module")
def undisturbed(here: Box) -> str:
    (row,) = here.wait(job := _train(here))
    assert row["phase"] == "finished", row["reason"]
    assert len(here.log(job).splitlines()) == EPOCHS
    return here.log(job)


def _train(here: Box, **fields: object) -> str:
    (here.home.state / "train.py").write_text(TRAIN)
    return here.submit(["python3", "train.py", str(EPOCHS)], image=IMAGE, **fields)


def _preempt(here: Box, job: str, times: int) -> None:
    for n in range(1, times + 1):
        seen = len(here.log(job))
        here.wait_for(partial(_goes_on, here, job, seen))
        here.service.pause([job], ME)
        here.wait_for(partial(_has_given_way, here, job, n))
        here.service.resume([job], ME)


def _goes_on(here: Box, job: str, seen: int) -> bool:
    return here.phase(job) == "running" and len(here.log(job)) > seen


def _has_given_way(here: Box, job: str, times: int) -> bool:
    return len(_rungs(here, job)) == times


def _rungs(here: Box, job: str) -> list[str]:
    return [e.rung for e in here.journal() if isinstance(e, Saved) and e.job_id == job]


def test_a_training_in_a_container_frozen_ten_times_gives_the_same_curve(
    here: Box, undisturbed: str
) -> None:
    job = _train(here)
    _preempt(here, job, 10)
    (row,) = here.wait(job)
    assert (row["phase"], _rungs(here, job)) == ("finished", ["freeze"] * 10)
    assert here.log(job) == undisturbed


def test_a_training_in_a_container_that_is_asked_to_stop_saves_itself_and_goes_on(
    here: Box, undisturbed: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where there is no room for frozen jobs: by the stop file and SIGTERM, which comes once."""
    with box(tmp_path_factory.mktemp("narrow"), suspended_gb=0.0) as narrow:
        job = _train(narrow, checkpoint={"grace": 20})
        _preempt(narrow, job, 3)
        (row,) = narrow.wait(job)
        assert (row["phase"], _rungs(narrow, job)) == ("finished", ["cooperative"] * 3)
        assert narrow.log(job) == undisturbed


def test_the_grace_is_the_jobs_and_not_its_engines(
    here: Box, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An engine may take longer to notice that a container has ended than its job to save itself."""
    grace_s, really = 2.0, ladder._ends_within

    def engine_is_slow(run: ProcessRun, seconds: float) -> bool:
        if seconds != grace_s:
            return really(run, seconds)
        time.sleep(seconds)
        return False

    monkeypatch.setattr(ladder, "_ends_within", engine_is_slow)
    with box(tmp_path, suspended_gb=0.0) as narrow:
        job = _train(narrow, checkpoint={"grace": grace_s})
        _preempt(narrow, job, 1)
        assert _rungs(narrow, job) == ["cooperative"]


def test_a_daemon_that_comes_back_adopts_running_and_frozen_containers(
    here: Box, undisturbed: str, tmp_path: Path
) -> None:
    first = Box(tmp_path)
    jobs = [_train(first), _train(first)]
    _preempt(first, jobs[1], 1)
    first.wait_for(lambda: all("4 " in first.log(job) for job in jobs))
    first.service.pause(jobs[:1], ME)
    first.wait_for(lambda: first.phase(jobs[0]) == "suspended")
    first.leave()
    with box(tmp_path) as second:
        assert second.phase(jobs[0]) == "suspended"
        second.service.resume(jobs[:1], ME)
        rows = second.wait(*jobs)
        assert [row["phase"] for row in rows] == ["finished", "finished"]
        assert [second.log(job) for job in jobs] == [undisturbed, undisturbed]


def test_a_cancelled_job_leaves_no_container_behind(here: Box) -> None:
    script = "(setsid sleep 1000 &) ; sleep 1000"
    quick = here.submit(script, image=IMAGE)
    stubborn = here.submit(f"trap '' TERM; {script}", image=IMAGE, checkpoint={"grace": 0.5})
    for job in (quick, stubborn):
        here.wait_until(job, "running")
    here.wait_for(lambda: len(containers()) == 2)
    here.service.pause([stubborn], ME)
    here.wait_until(stubborn, "suspended")
    here.service.cancel([quick, stubborn], ME)
    here.wait_for(lambda: not list((here.home.runs / "live").iterdir()), 30)
    here.wait_for(lambda: containers("--all") == [])


def test_a_container_whose_keeper_is_killed_is_ended_and_removed(here: Box) -> None:
    job = here.submit("sleep 1000", image=IMAGE)
    here.wait_for(lambda: len(containers()) == 1)
    os.kill(ProcessRun(here.home.folder(job) / "1").keeper_pid() or 0, signal.SIGKILL)
    (row,) = here.wait(job)
    assert "killed from outside" in row["reason"]
    here.wait_for(lambda: containers("--all") == [])


def test_an_engine_that_cannot_run_the_image_says_why(here: Box) -> None:
    (row,) = here.wait(here.submit("true", image="localhost/no-such-image:9"))
    assert row["phase"] == "failed"
    assert f"{ENGINE} could not run it in localhost/no-such-image:9: " in row["reason"]


def test_a_container_has_no_rights_that_its_owner_has_not(here: Box, tmp_path: Path) -> None:
    """No capabilities, none to be gained, none of this machine's folders but two, no value of a
    variable in a list of processes."""
    script = (
        "grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; cat /proc/self/mounts; sleep 1000"
    )
    job = here.submit(script, image=IMAGE, workdir=str(tmp_path), envs={"TOKEN": "s3cr3t"})
    here.wait_for(lambda: "NoNewPrivs" in here.log(job) and "proc" in here.log(job).split())
    words = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    here.service.cancel([job], ME)
    assert not [own for own in words if b"s3cr3t" in own]
    rows = here.log(job).splitlines()
    rights = dict(row.split() for row in rows[:3])
    assert rights == {"CapEff:": "0" * 16, "CapBnd:": "0" * 16, "NoNewPrivs:": "1"}
    engines = ("/proc", "/sys", "/dev", "/etc", "/run", "/sbin/docker-init")
    places = {row.split()[1] for row in rows[3:]}
    ours = {place for place in places if not place.startswith(engines)}
    assert ours == {"/", str(tmp_path), str(here.home.folder(job))}


def test_the_root_folder_is_not_mounted_as_a_working_folder(here: Box) -> None:
    (row,) = here.wait(here.submit("true", image=IMAGE, workdir="/"))
    assert "the working folder of a job in an image cannot be /" in row["reason"]


def test_a_job_with_an_image_is_refused_where_nothing_can_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with box(tmp_path) as bare:
        with pytest.raises(BadInput) as refused:
            bare.submit(["/bin/true"], image=IMAGE)
        assert (
            "the image localhost/dovetail-test:1, and neither podman nor docker is installed"
            in str(refused.value)
        )
        (row,) = bare.wait(bare.submit(["/bin/true"]))
        assert row["phase"] == "finished"


@pytest.mark.parametrize("name", ["podman", "docker"])
def test_gpus_for_a_container_need_nvidias_toolkit(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "_CDI_FOLDERS", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = engine.Engine(name, f"/usr/bin/{name}")
    with pytest.raises(engine.NoEngine, match="NVIDIA container toolkit"):
        found.gpu_options(["GPU-1"])


def test_gpus_are_given_by_their_uuid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spec = "kind: nvidia.com/gpu\ndevices:\n- name: GPU-a\n- name: GPU-b\n"
    (tmp_path / "nvidia.yaml").write_text(spec)
    (tmp_path / "nvidia-ctk").write_text("")
    (tmp_path / "nvidia-ctk").chmod(0o755)
    monkeypatch.setattr(engine, "_CDI_FOLDERS", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path))
    both = ["GPU-a", "GPU-b"]
    by_cdi = ["--device", "nvidia.com/gpu=GPU-a", "--device", "nvidia.com/gpu=GPU-b"]
    assert engine.Engine("podman", "podman").gpu_options(both) == by_cdi
    assert engine.Engine("docker", "docker").gpu_options(both) == ["--gpus", '"device=GPU-a,GPU-b"']
