"""Which program runs container images here, and what it can give them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dovetail.core.errors import DovetailError
from dovetail.worlds.local.machine import find_gpus

PODMAN, DOCKER = "podman", "docker"
ENGINES: Final = (PODMAN, DOCKER)  # the first that is there

_INITS: Final = ("/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit")
_CDI_FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
_ANSWER_WITHIN_S: Final = 10.0


class NoEngine(DovetailError):
    """Nothing here can run an image; the message says what would."""


@dataclass(frozen=True, slots=True)
class Engine:
    name: str
    program: str

    def gpu_options(self, gpus: Sequence[str]) -> list[str]:
        """How a container is given these GPUs, by UUID. NoEngine: it cannot be."""
        if trouble := self.gpu_trouble():
            raise NoEngine(trouble)
        if self.name == DOCKER:
            return ["--gpus", '"device=' + ",".join(gpus) + '"'] if gpus else []
        known = "".join(_cdi_specs())
        return [word for gpu in gpus for word in ("--device", _cdi_name(gpu, known))]

    def gpu_trouble(self) -> str:
        """Why no container can have GPUs; "" if it can."""
        if self.name == DOCKER:
            found = shutil.which("nvidia-container-runtime-hook") or shutil.which("nvidia-ctk")
            return "" if found else "docker needs the NVIDIA container toolkit for GPUs; install it"
        if any("nvidia.com/gpu" in spec for spec in _cdi_specs()):
            return ""
        return (
            "podman needs a CDI description of the GPUs; install the NVIDIA container toolkit and "
            "run: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        )


def find_engine(environment: Mapping[str, str] = os.environ) -> Engine:
    """The first engine that works; NoEngine if none does."""
    path = environment.get("PATH", os.defpath)
    troubles = []
    for name in ENGINES:
        program = shutil.which(name, path=path)
        if program is None:
            continue
        trouble = _trouble_with(name, program, path)
        if not trouble:
            return Engine(name, os.path.abspath(program))
        troubles.append(trouble)
    raise NoEngine("; ".join(troubles) or "neither podman nor docker is installed here")


def _trouble_with(name: str, program: str, path: str) -> str:
    if name == PODMAN:
        if any(map(os.path.exists, _INITS)) or shutil.which("catatonit", path=path):
            return ""
        return "podman lacks catatonit, which reaps processes and hands on signals; install it"
    words = [program, "version", "--format", "{{.Server.Version}}"]
    try:
        asked = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=_ANSWER_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"docker does not answer: {error}"
    if asked.returncode:
        return f"docker cannot be used: {asked.stderr.strip().rpartition(chr(10))[2]}"
    return ""


def _cdi_specs() -> Iterator[str]:
    for folder in _CDI_FOLDERS:
        for path in sorted(Path(folder).glob("*.*")):
            if path.suffix in (".yaml", ".yml", ".json"):
                yield path.read_text(errors="replace")


def _cdi_name(uuid: str, known: str) -> str:
    """By UUID where the description has it, else by number: both name one GPU."""
    index = next((str(gpu.index) for gpu in find_gpus() if gpu.uuid == uuid), uuid)
    return f"nvidia.com/gpu={uuid if uuid in known else index}"
