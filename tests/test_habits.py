"""What a contributor is told runs, and the lists that are kept twice agree."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
_NAME = re.compile(r"[\w.-]+")


def names(lines: list[str]) -> set[str]:
    """Of packages, as `pip` compares them."""
    found = (_NAME.match(line) for line in lines)
    return {name.group().lower().replace("_", "-") for name in found if name}


def listed(file: str) -> set[str]:
    """In a list of requirements or a lock, where hashes and comments begin with something else."""
    return names((ROOT / file).read_text().splitlines())


def test_the_hooks_run_what_make_check_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    makefile = (ROOT / "Makefile").read_text()
    rule = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert rule
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in rule[1].splitlines()]
    assert [hook["entry"] for hook in hooks] == commands


def test_make_help_names_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)", makefile, re.MULTILINE)
    assert phony
    said = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[1] for line in said.stdout.splitlines()] == phony[1].split()


def test_the_demo_installs_what_runs_and_builds_dovetail_and_no_test_tool() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    needed = names([*PROJECT["project"]["dependencies"], *extras["live"]])
    assert listed("requirements.in") == needed | names(PROJECT["build-system"]["requires"])
    assert listed("requirements.lock") >= listed("requirements.in")
    tools = names(PROJECT["dependency-groups"]["dev"]) - listed("requirements.in")
    assert listed("requirements-dev.in") == tools
    assert listed("requirements-dev.lock") >= tools
    assert not listed("requirements.lock") & tools


def test_two_locks_never_name_two_versions() -> None:
    pins: dict[str, set[str]] = {}
    for lock in ("requirements.lock", "requirements-dev.lock", "requirements-extras.lock"):
        found = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE)
        for name in {name for name, _ in found}:
            versions = " ".join(sorted(version for other, version in found if other == name))
            pins.setdefault(name, set()).add(versions)
    assert {name: versions for name, versions in pins.items() if len(versions) > 1} == {}


def test_the_licence_is_the_one_that_the_package_names() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert (ROOT / "LICENSE").read_text().split()[:4] == ["Apache", "License", "Version", "2.0,"]
