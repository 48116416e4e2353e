"""Names of images: what is one, and what would be something else to an engine."""

from __future__ import annotations

import pytest

from dovetail.core.errors import BadInput
from dovetail.core.model import JobId
from dovetail.jobfiles.job_model import read
from dovetail.worlds.images import image_trouble
from dovetail.worlds.world import Order

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "name",
    [
        "busybox",
        "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime",
        "localhost/mine:1",
        "registry.example.org:5000/team/a_b/c__d:latest",
        f"nvcr.io/nvidia/pytorch@{DIGEST}",
        f"ghcr.io/x/y:tag@{DIGEST}",
    ],
)
def test_the_names_that_registries_use_are_taken(name: str) -> None:
    assert read({"run": "true", "image": name}).image == name
    assert image_trouble(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "--privileged",
        "-v=/:/host",
        "busybox --privileged",
        "busybox\n--privileged",
        "oci:/root/image",
        "dir:/etc",
        "docker-archive:/tmp/a.tar",
        "docker://busybox",
        "/etc/passwd",
        "../image",
        "a//b",
        "UPPER/Case",
        "busybox:",
        "busybox@sha256:12",
        "$(id)",
        "x" * 600,
    ],
)
def test_options_paths_and_transports_are_no_images(name: str) -> None:
    with pytest.raises(BadInput, match="image: "):
        read({"run": "true", "image": name})
    with pytest.raises(BadInput, match="image: "):
        Order(JobId("1"), ("true",), {}, "/", "ann", image=name)


def test_a_slurm_script_has_no_image() -> None:
    with pytest.raises(BadInput, match="image: a Slurm script runs without one"):
        read({"run": "true", "image": "busybox", "slurm": True})


def test_a_script_in_an_image_is_run_by_the_shell_that_every_image_has() -> None:
    from dovetail.jobfiles.launch import argv

    assert argv(read({"run": "true", "image": "busybox"}))[0] == "/bin/sh"
