"""A real container engine for tests, and an image made of this machine's files.

It is podman, with a store of its own; or, where DOVETAIL_TEST_DOCKER is set, the docker that answers.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from tools.kubernetes.images import make_small

from dovetail.worlds.local.containers import engine

IMAGE = "localhost/dovetail-test:1"
ENGINE = engine.DOCKER if os.environ.get("DOVETAIL_TEST_DOCKER") else engine.PODMAN
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def prepare_engine(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Skips where it cannot run a container at all. Its settings come by the environment, as a user's
    do."""
    patch.setattr(engine, "ENGINES", (ENGINE,))
    if ENGINE == engine.PODMAN:
        for name, text in _settings(folder).items():
            (folder / f"{name}.conf").write_text(text)
            patch.setenv(f"CONTAINERS_{name}", str(folder / f"{name}.conf"))
    try:
        engine.find_engine()
        image = make_small(folder / "image", IMAGE)
    except (engine.NoEngine, StopIteration) as error:
        pytest.skip(f"no images here: {error or 'busybox is not installed'}")
    asked("load", "--quiet", "--input", str(image))
    tried = _run("run", "--rm", "--network=host", IMAGE, "/bin/sh", "-c", "exit 7")
    if tried.returncode != 7:
        pytest.skip(f"{ENGINE} runs no container here: {tried.stderr.strip()}")


def containers(*options: str) -> list[str]:
    """Those of the tests that are there."""
    return asked("ps", "--quiet", "--filter=name=dovetail-", *options).split()


def asked(*words: str) -> str:
    done = _run(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ENGINE, *words], capture_output=True, text=True, check=False)


def _settings(folder: Path) -> dict[str, str]:
    """Small limits, as not everybody may raise them; runc where it is, as crun knows no mixed control
    groups."""
    files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 4096)
    runtime = 'runtime = "runc"\n' if shutil.which("runc", path=_PATH) else ""
    return {
        "CONF": '[containers]\ndefault_ulimits = ["nproc=4096:4096", '
        f'"nofile={files}:{files}"]\n[engine]\ncgroup_manager = "cgroupfs"\n{runtime}',
        "STORAGE_CONF": '[storage]\ndriver = "overlay"\n'
        f'graphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
        f'rootless_storage_path = "{folder}/store"\n'
        '[storage.options.overlay]\nskip_mount_home = "true"\n',  # else it stays mounted
    }
