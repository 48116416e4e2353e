"""`dovetail serve` and `dovetail services`, typed as users do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from service_daemon import SERVER, ServiceDaemon, service_daemon


def typed(made: ServiceDaemon, *words: str) -> subprocess.CompletedProcess[str]:
    home = ["--home", str(made.daemon.folder)]
    program = [sys.executable, "-m", "dovetail.cli.main", *home, *words]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_a_service_is_declared_looked_at_explained_scaled_and_stopped(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(f"name: chat\ncommand: [{sys.executable}, {SERVER}, '{{port}}']\nslo_ms: 500\n")
    with service_daemon() as made:
        said = typed(made, "serve", str(file))
        assert said.returncode == 0, said.stderr
        assert said.stdout.startswith("Service chat answers at http://127.0.0.1:")
        made.wait_for("ready", name="chat")
        assert made.ask("/", "chat").status == 200
        listed = typed(made, "services").stdout.splitlines()
        assert listed[0].split() == ["NAME", "STATE", "ADDRESS", "REPLICAS", "REQ/S", "P99", "SLO"]
        assert "1 ready" in listed[1]
        shown = typed(made, "services", "show", "chat").stdout
        assert "500 ms for 99 of 100" in shown
        assert "1 replica because " in typed(made, "services", "why", "chat").stdout
        assert "2 to 3 replicas" in typed(made, "services", "scale", "chat", "2-3").stdout
        assert "==> replica 0 (job 1)" in typed(made, "services", "logs", "chat").stdout
        assert "is paused" in typed(made, "services", "pause", "chat").stdout
        assert "because it is paused." in typed(made, "services", "why", "chat").stdout
        assert "goes on" in typed(made, "services", "resume", "chat").stdout
        assert "has 2 replicas" in typed(made, "services", "scale", "chat", "2").stdout
        refused = typed(made, "services", "scale", "chat", "2-1")
        assert "the least number, 2, is above the greatest, 1" in refused.stderr
        none = typed(made, "services", "scale", "chat", "0").stderr
        assert "services scale chat 0-1 lets it sleep while nobody asks" in none
        assert "2 replicas end" in typed(made, "services", "stop", "chat").stdout
        gone = typed(made, "services", "show", "chat")
        assert gone.stderr == (
            "dovetail: there is no service 'chat'; `dovetail services` lists them\n"
        )


def test_down_that_cancels_stops_services_too() -> None:
    with service_daemon() as made:
        made.serve("chat")
        made.wait_for("ready", name="chat")
        said = typed(made, "down", "--cancel").stdout
        assert said.startswith("Stopped service chat.\n")
        assert said.endswith("Dovetail is down.\n")
        assert made.daemon.live_jobs() == []


def test_a_mistake_in_the_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text("name: chat\ncommand: [server]\nreplicas: 3-2\n")
    with service_daemon() as made:
        said = typed(made, "serve", str(file))
        assert said.returncode == 1
        assert said.stderr.startswith(
            f"dovetail: {file}, line 3: replicas: min 3 is more than max 2"
        )
        assert said.stderr.count("\n") == 1
