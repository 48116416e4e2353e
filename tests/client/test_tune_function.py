"""Studies from Python, against a stand-in for the daemon that runs one trial after the other."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import dovetail
from dovetail.api.study_row import StudyOpen, TrialRow
from dovetail.api.wire import plain
from dovetail.core.errors import BadInput, DovetailError
from dovetail.jobfiles.study_model import StudySpec, expand, read_study
from dovetail.tune import Choice, Float, Integer, sampling, tune, worker

SOURCES = str(Path(dovetail.__file__).parents[1])


_NUMBERS = ("done", "running", "paused", "failed", "stopped", "switches", "gpu_hours", "age_s")
_NOT_SAID = ("target", "reached_s", "at_once", "deadline", "budget")
_OTHERS: dict[str, Any] = {  # of a study, besides what these tests look at
    **dict.fromkeys(_NUMBERS, 0),
    **dict.fromkeys(_NOT_SAID),
    "id": "s1",
    "reason": "",
    "user": "ann",
    "policy": "default",
    "metric": "loss",
    "direction": "min",
    "steps": 1,
    "report_every": 1,
    "sampler": "random",
    "seed": 0,
    "opened_at": 0.0,
    "switch": {"seconds": 0.0, "rung": ""},
    "suspended_bytes": 0,
}


class StandIn(socketserver.UnixStreamServer):
    """Says what the daemon says: the study is open when first asked for, then closed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder / "dovetail.sock"), _Handler)
        self.folder = folder
        self.asked: dict[str, Any] = {}
        self.study: dict[str, Any] = {}
        self.looks = 0

    def open(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.asked, spec = asked, read_study(asked["spec"])
        trials = [self._trial(spec, asked, number) for number in range(spec.planned)]
        told = [own for own in trials if own.best is not None]
        choose = min if spec.direction == "min" else max
        best = choose(told, key=lambda own: own.best or 0.0) if told else None
        self.study = {
            **_OTHERS,
            "name": spec.title,
            "trials": [plain(own) for own in trials],
            "best": best and {"trial": best.number, "value": best.best, "step": 1, "settings": {}},
        }
        jobs = [own.job for own in trials]
        opened = StudyOpen(study="s1", name=spec.title, planned=spec.planned, trials=jobs)
        found: dict[str, Any] = plain(opened)
        return found

    def _trial(self, spec: StudySpec, asked: dict[str, Any], number: int) -> TrialRow:
        settings = sampling.make(spec.sampler, spec.seed, spec.trials).suggest(
            spec.space, number, ()
        )
        job = expand(spec, settings, number)
        reports = self.folder / f"reports-{number}"
        reports.unlink(missing_ok=True)  # of an earlier study
        variables = {**asked["environment"], **job.envs, "DOVETAIL_REPORT": str(reports)}
        words = job.command or ("sh", "-c", str(job.run))
        log = self.folder / f"log-{number}"
        with log.open("w") as file:
            done = subprocess.run(
                words, env=variables, cwd=asked["workdir"], stdout=file, stderr=file, check=False
            )
        lines = reports.read_text().splitlines() if reports.exists() else []
        points = [(float(own["step"]), own[spec.metric], 0.0) for own in map(json.loads, lines)]
        values = [value for _, value, _ in points]
        choose = min if spec.direction == "min" else max
        return TrialRow(
            number=number,
            job=str(number),
            state="failed" if done.returncode else "done",
            settings=dict(settings),
            steps=len(points),
            value=values[-1] if values else None,
            best=choose(values) if values else None,
            points=points,
            stints=[],
            reason="",
        )

    def look(self) -> dict[str, Any]:
        self.looks += 1
        return {**self.study, "state": "open" if self.looks == 1 else "closed"}


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self._answer(201, self.server.open(json.loads(self.rfile.read(length))))

    def do_GET(self) -> None:
        assert self.path == "/v1/studies/s1"
        self._answer(200, self.server.look())

    def _answer(self, status: int, told: dict[str, Any]) -> None:
        raw = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: Any) -> None:
        pass

    def address_string(self) -> str:
        return "unix"


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.setenv("DOVETAIL_HOME", str(tmp_path))
    with StandIn(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


SCRIPT = """
from dovetail import sdk
from dovetail.tune import Choice, Integer, tune
import neighbour

def train(settings):
    for epoch in range(1, 4):
        sdk.report(epoch, loss=settings["n"] * neighbour.TWO + 1 / epoch)

class Net:
    @staticmethod
    def fit(settings):
        return float(settings["n"])

SPACE = {"n": Integer(1, 3), "o": Choice("a")}
if __name__ == "__main__":
    result = tune(train, space=SPACE, metric="loss", steps=3, sampler="grid", seed=1)
    print(result.best.settings["n"], result.best.value, result.best.curve[0], len(result.trials))
    print(tune(Net.fit, space=SPACE, metric="loss", steps=3, sampler="grid").best.curve)
"""


def test_a_script_tunes_a_function_of_its_own(daemon: StandIn, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "neighbour.py").write_text("TWO = 2\n")
    (code / "train.py").write_text(SCRIPT)
    words = [sys.executable, str(code / "train.py")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stderr == ""
    assert done.stdout == f"1 {2 + 1 / 3} (1.0, 3.0) 3\n((3.0, 1.0),)\n"
    assert daemon.asked["spec"]["function"] == f"{code / 'train.py'}:Net.fit"
    assert daemon.asked["spec"]["python"] == sys.executable


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("sdk.report(1, loss=0.5); return 0.25", [{"step": 1, "loss": 0.5}]),
        (
            "sdk.report(1, pace=2.0); return 0.25",
            [{"step": 1, "pace": 2.0}, {"step": 2, "loss": 0.25}],
        ),
        ("return 0.25", [{"step": 2, "loss": 0.25}]),
    ],
)
def test_what_a_function_returns_counts_where_it_has_not_reported_the_metric(
    tmp_path: Path, body: str, told: list[dict[str, float]]
) -> None:
    """At the end of what it is to train, which may be a part of the whole trial."""
    (tmp_path / "own.py").write_text(
        f"from dovetail import sdk\ndef train(settings):\n    {body}\n"
    )
    reports = tmp_path / "reports"
    reports.write_text('{"step": 0, "loss": 9}\n')  # by an earlier process of the trial
    variables = {"PYTHONPATH": SOURCES, "DOVETAIL_REPORT": str(reports), "DOVETAIL_STEPS": "2"}
    words = ["-m", worker.NAME, "own.py:train", "--metric", "loss", "--step", "9"]
    settings = {"DOVETAIL_SETTINGS": "{}"}
    subprocess.run([sys.executable, *words], env=variables | settings, cwd=tmp_path, check=True)
    assert [json.loads(line) for line in reports.read_text().splitlines()[1:]] == told


def test_a_function_of_a_package_is_found_by_its_name(daemon: StandIn, tmp_path: Path) -> None:
    package = tmp_path / "code" / "nets" / "small"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "sizes.py").write_text("SIZE = 5\n")
    (package / "train.py").write_text(
        "from .sizes import SIZE\ndef train(settings):\n    return {'loss': SIZE, 'other': 1}\n"
    )
    call = (
        "from nets.small.train import train; from dovetail.tune import Float, tune;"
        "print(tune(train, space={'x': Float(0, 1)}, metric='loss', steps=1, trials=1).best.value)"
    )
    words = [sys.executable, "-c", f"import sys; sys.path[0] = {str(tmp_path / 'code')!r}; {call}"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.stdout, done.stderr) == ("5.0\n", "")


def test_a_command_is_tuned_too(daemon: StandIn) -> None:
    report = "import sys; from dovetail import sdk; sdk.report(1, loss=float(sys.argv[1]))"
    space = {"x": Choice(0.5, 0.25, 2)}
    result = tune(
        [sys.executable, "-c", report, "{x}"],
        space=space,
        metric="loss",
        direction="max",
        steps=1,
        sampler="grid",
    )
    assert result.best.settings == {"x": 2}
    assert [trial.value for trial in result.trials] == [0.5, 0.25, 2.0]
    script = 'echo "{{\\"step\\": 1, \\"loss\\": $(( {x} + 1 ))}}" >> "$DOVETAIL_REPORT"'
    integers = {"x": Integer(1, 2)}
    found = tune(script, space=integers, metric="loss", steps=1, sampler="grid")
    assert found.best.value == 2


def test_a_study_without_a_value_says_so(daemon: StandIn) -> None:
    result = tune("false", space={"x": Float(0, 1)}, metric="loss", steps=1, trials=2)
    assert [trial.state for trial in result.trials] == ["failed", "failed"]
    with pytest.raises(DovetailError, match="no trial of study false has reported a value"):
        _ = result.best


def test_without_waiting_the_study_is_told_as_it_is(daemon: StandIn) -> None:
    result = tune("true", space={"x": Float(0, 1)}, metric="l", steps=1, trials=1, wait=False)
    assert (result.study, result.state, daemon.looks) == ("s1", "open", 1)


def test_without_a_daemon_it_is_told_how_to_start_one_there(tmp_path: Path) -> None:
    with pytest.raises(DovetailError, match=f"start one: dovetail --home {tmp_path} up"):
        tune("true", space={"x": Float(0, 1)}, metric="l", steps=1, trials=1, home=str(tmp_path))


def test_a_file_that_tunes_when_imported_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    (tmp_path / "neighbour.py").write_text("TWO = 2\n")
    words = [sys.executable, "-m", "dovetail.tune.worker", "train.py:train"]
    words += ["--metric", "loss", "--step", "3"]
    env = {**os.environ, "PYTHONPATH": SOURCES}
    done = subprocess.run(
        words, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=env, check=False
    )
    assert "a trial imports this file, and must not begin a study itself" in done.stderr


@pytest.mark.parametrize("what", [lambda settings: 1.0, dict[str, int]])
def test_a_function_that_no_other_process_could_find_is_refused(what: Any) -> None:
    with pytest.raises(BadInput, match="give a function that stands at the top of a file"):
        tune(what, space={"x": Float(0, 1)}, metric="loss", steps=1, trials=1)


def test_a_mistake_is_told_before_anything_is_sent() -> None:
    with pytest.raises(BadInput, match="polcy: there is no such field; did you mean 'policy'"):
        tune("x", space={"x": Float(0, 1)}, metric="l", steps=1, trials=1, polcy="fifo")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nowhere:f", "there is no module 'nowhere' to be found from"),
        ("nowhere.deep:f", "there is no module 'nowhere.deep' to be found from"),
        ("nowhere.py:f", "there is no file /"),
        ("json:nothing", "there is no function 'nothing' in json"),
        ("json:decoder.nothing", "there is no function 'decoder.nothing' in json"),
    ],
)
def test_a_function_that_is_not_there_is_told(text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        worker.find(text)


def test_a_module_that_the_function_needs_itself_is_shown_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy_training.py").write_text("import not_installed_anywhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        worker.find("needy_training:f")
