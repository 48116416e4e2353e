"""A fresh Debian with its own systemd becomes a shared box by the page for administrators.

Its lines are typed word for word. `make test-fresh-debian`: root, debootstrap, systemd-nspawn and
five minutes; else it is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools import fresh_debian
from tools.fresh_debian import FreshDebian

from waiting import until

HERE = Path(__file__).parents[2]
PAGE = HERE / "docs/howto/shared-box-for-admins.md"
CACHE = Path(os.environ.get("DOVETAIL_DEBIAN_CACHE", Path.home() / ".cache/dovetail"))

pytestmark = pytest.mark.skipif(
    not os.environ.get("DOVETAIL_TEST_FRESH_DEBIAN"), reason="make test-fresh-debian runs it"
)


def commands(heading: str) -> list[str]:
    """What stands behind the # of root's prompt in that part of the page."""
    part = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line[2:] for line in part.splitlines() if line.startswith("# ")]
    return [line.split("  #")[0].strip() for line in lines]


def wheel(folder: Path, version: str) -> None:
    """Dovetail as it is here, under that version."""
    source = folder / f"source-{version}"
    shutil.copytree(HERE / "src", source / "src")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(HERE / name, source)
    shutil.copytree(HERE / "tools", source / "tools")
    project = source / "pyproject.toml"
    text = project.read_text()
    assert 'version = "0.1.0"' in text
    project.write_text(text.replace('version = "0.1.0"', f'version = "{version}"'))
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder]
    subprocess.run(
        [sys.executable, *map(str, words), str(source)],
        check=True,
        env={**os.environ, "DOVETAIL_PURE": "1"},
    )


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshDebian]:
    if why_not := fresh_debian.trouble():
        pytest.fail(why_not)
    folder = tmp_path_factory.mktemp("fresh")
    wheels = folder / "wheels"
    wheels.mkdir()
    wheel(wheels, "0.1.0")
    made = FreshDebian(fresh_debian.base(CACHE), folder / "machine", wheels)
    made.boot()
    try:
        made.type("useradd --create-home --shell /bin/bash ann")
        made.type("useradd --create-home --shell /bin/bash bob")
        for heading in ("Install", "Let people in"):
            for line in commands(heading):
                made.type(line)
        yield made
    finally:
        made.off()


def job(machine: FreshDebian, number: str, user: str = "root") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(machine.type(f"dovetail show --json {number}", user))
    return found


def in_phase(machine: FreshDebian, number: str, phase: str) -> dict[str, Any]:
    return until(lambda: own if (own := job(machine, number))["phase"] == phase else {})


def submit(machine: FreshDebian, user: str, words: str) -> str:
    return machine.type(f"dovetail submit -q {words}", user).strip()


def page_of(machine: FreshDebian, user: str) -> str:
    """What a browser of that user shows first, by `dovetail dashboard`."""
    (machine.root / "srv/look.py").write_text(_LOOK)
    return machine.type("python3 /srv/look.py", user)


_LOOK = """
import subprocess, urllib.request, http.cookiejar
shown = subprocess.Popen(['dovetail', 'dashboard', '--no-open'], stdout=-1, text=True)
link = next(word for line in shown.stdout for word in line.split() if word.startswith('http'))
keeps = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
print(urllib.request.build_opener(keeps).open(link).read().decode())
shown.terminate()
"""


def test_two_users_share_it_and_see_nothing_of_each_other(machine: FreshDebian) -> None:
    assert machine.type("systemctl is-active dovetail").strip() == "active"
    assert machine.type("systemctl is-enabled dovetail").strip() == "enabled"
    mine = submit(machine, "ann", "--name secret -- sh -c 'id -un; id -Gn; echo $HOME'")
    his = submit(machine, "bob", "-- id -un")
    in_phase(machine, mine, "finished")
    in_phase(machine, his, "finished")
    assert machine.type(f"dovetail logs {mine}", "ann") == "ann\nann dovetail\n/home/ann\n"
    assert machine.type(f"dovetail logs {his}", "bob") == "bob\n"
    assert machine.try_to(f"dovetail logs {mine}", "bob").returncode == 1
    waits = submit(machine, "ann", "--hold -- true")
    assert "only" in machine.try_to(f"dovetail cancel {waits}", "bob").stdout
    machine.type(f"dovetail cancel {waits}", "ann")
    assert "<title>" in page_of(machine, "ann")


def test_who_was_not_let_in_is_told_so(machine: FreshDebian) -> None:
    machine.type("useradd --create-home --shell /bin/bash eve")
    said = machine.try_to("dovetail queue", "eve")
    assert said.returncode == 69
    assert "usermod -aG dovetail eve" in said.stdout
    assert said.stdout.count("\n") == 1


def test_what_the_page_types_and_writes_holds(machine: FreshDebian) -> None:
    table = PAGE.read_text().split("## Decide a few things")[1].split("\n## ")[0]
    for line in ("dovetail limit set '*' --gpus 4 --running 8", "dovetail policy set srtf"):
        assert f"`{line}`" in table
        machine.type(line)
    assert '`dovetail nodes close 2 --reason "its fan"`' in table
    machine.type('dovetail nodes close 0 --reason "its fan"')  # there are two slots and no GPU 2
    machine.type("dovetail nodes open")
    config = machine.root / "etc/dovetail/config.toml"
    config.write_text(f'{config.read_text()}keep = ["runs=90d"]\n')
    assert '`keep = ["runs=90d"]`' in table
    machine.type("dovetail config check --system")
    job_id = submit(machine, "ann", "-- sleep 600")
    before = in_phase(machine, job_id, "running")
    machine.type("systemctl restart dovetail")
    after = in_phase(machine, job_id, "running")
    assert (after["started_at"], after["attempts"]) == (before["started_at"], before["attempts"])
    assert "runs for 90 days" in machine.type("dovetail doctor")
    machine.type(f"dovetail cancel {job_id}", "ann")


def test_an_upgrade_keeps_jobs_running(machine: FreshDebian, tmp_path: Path) -> None:
    job_id = submit(machine, "ann", "-- sh -c 'echo $$; exec sleep 600'")
    in_phase(machine, job_id, "running")
    pid = machine.type(f"dovetail logs {job_id}", "ann").strip()
    wheel(machine.wheels, "0.1.1")
    for line in commands("Upgrade"):
        machine.type(line)
    assert "0.1.1" in machine.type("dovetail --version")
    assert "0.1.1" in machine.type("dovetail doctor")
    in_phase(machine, job_id, "running")
    assert machine.type(f"dovetail exec {job_id} -- cat /proc/{pid}/comm", "ann") == "sleep\n"
    machine.type(f"dovetail cancel {job_id}", "ann")


def test_after_a_power_cut_queue_studies_and_page_are_back(machine: FreshDebian) -> None:
    again = submit(machine, "ann", "--restartable --name again -- sleep 600")
    once = submit(machine, "bob", "--no-preemptible --name once -- sleep 600")
    waits = submit(machine, "bob", "--name waits --begin +1h -- true")
    in_phase(machine, again, "running")
    in_phase(machine, once, "running")
    (machine.root / "home/ann/study.yaml").write_text(_STUDY)
    machine.type("dovetail tune study.yaml --detach", "ann")
    machine.power_cut()
    machine.boot()
    until(lambda: machine.try_to("systemctl is-active dovetail").returncode == 0)
    in_phase(machine, again, "running")
    assert in_phase(machine, once, "failed")["user"] == "bob"
    assert job(machine, waits)["phase"] == "queued"
    assert "digits" in machine.type("dovetail study list", "ann")
    assert "srtf" in machine.type("dovetail policy")
    assert "<title>" in page_of(machine, "ann")
    machine.type(f"dovetail cancel {again}", "ann")
    machine.type("dovetail study cancel digits", "ann")


def test_a_backup_is_made_while_it_runs_and_put_back(machine: FreshDebian) -> None:
    kept = submit(machine, "ann", "--name kept -- true")
    in_phase(machine, kept, "finished")
    install, make, *put_back = commands("Back up")
    machine.type(install)
    machine.type(make)
    lost = submit(machine, "ann", "--name lost -- true")
    in_phase(machine, lost, "finished")
    for line in put_back:
        machine.type(line)
    assert job(machine, kept)["phase"] == "finished"
    later = submit(machine, "ann", "-- true")
    in_phase(machine, later, "finished")
    assert later not in (kept, lost)


def test_somebody_alone_has_a_unit_of_their_own(machine: FreshDebian) -> None:
    machine.type("useradd --create-home --shell /bin/bash carl")
    machine.type("loginctl enable-linger carl")
    machine.type("/opt/dovetail/bin/dovetail install", "carl")
    assert machine.type("systemctl --user is-active dovetail", "carl").strip() == "active"
    machine.type("dovetail submit -q -- true && dovetail wait 1", "carl")
    machine.type("dovetail uninstall", "carl")
    assert machine.try_to("systemctl --user is-active dovetail", "carl").returncode != 0


def test_what_it_wrote_is_taken_away_and_the_journal_stays(machine: FreshDebian) -> None:
    assert "`dovetail uninstall --system`" in PAGE.read_text()
    machine.type("dovetail uninstall --system")
    assert machine.try_to("systemctl cat dovetail").returncode != 0
    assert not (machine.root / "usr/local/bin/dovetail").is_symlink()
    assert (machine.root / "var/lib/dovetail/dovetail.db").exists()
    machine.type("/opt/dovetail/bin/dovetail install --system")
    assert "kept" in machine.type("dovetail history --name kept")


_STUDY = """
name: digits
run: sleep 600
metric: loss
steps: 1
trials: 2
space: {lr: {choice: [0.1, 0.2]}}
"""
