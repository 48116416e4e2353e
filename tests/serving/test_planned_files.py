"""Variants, steps and neighbours in the file of services."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.core.errors import BadInput
from dovetail.jobfiles.served_models import read_services
from dovetail.serving.rules import BUILTIN

FILE = """
services:
  - name: chat
    slo_ms: 200
    max_batch: 8
    accuracy: 0.95
    least_accuracy: 0.8
    rate_per_s: 40
    memory_gb: 16
    interference: {pressure: 0.4, sensitivity: 0.5}
    latency: [{batch: 1, ms: 20, kind: T4}, {batch: 1, ms: 4, kind: A100}]
    variants:
      - {name: small, accuracy: 0.85, latency: {fixed_ms: 2, per_item_ms: 3}, kind: T4, start_s: 2}
  - name: video
    slo_ms: 400
    steps:
      - {name: detect, latency: {fixed_ms: 10, per_item_ms: 10}}
      - {name: read, latency: {fixed_ms: 20, per_item_ms: 20}, after: [detect], part: 0.3}
"""


def written(folder: Path, text: str = FILE) -> str:
    path = folder / "services.yaml"
    path.write_text(text)
    return str(path)


def test_a_file_says_variants_steps_and_what_neighbours_do(tmp_path: Path) -> None:
    found = read_services(written(tmp_path))
    chat, video = found["chat"], found["video"]
    assert (chat.rate_per_s, chat.memory_gb, chat.least_accuracy) == (40.0, 16.0, 0.8)
    assert (chat.pressure, chat.sensitivity) == (0.4, 0.5)
    (small,) = chat.variants
    assert (small.name, small.accuracy, small.kind, small.max_batch) == ("small", 0.85, "T4", 8)
    assert [(step.model.name, step.after, step.part) for step in video.steps] == [
        ("detect", (), 1.0),
        ("read", ("detect",), 0.3),
    ]
    assert video.seconds()[1] == pytest.approx(0.02 + 0.04)  # all steps on one server


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("after: [detect]", "after: [detct]", "wait for each other, or for one that there is not"),
        ("name: read", "name: detect", "two of its variants and steps are 'detect'"),
        ("part: 0.3", "part: 30", "part"),
        ("accuracy: 0.85", "accuracy: 85", "accuracy"),
        ("pressure: 0.4", "presure: 0.4", "presure"),
        ("    latency: [{batch: 1, ms: 20, kind: T4}, {batch: 1, ms: 4, kind: A100}]\n", "",
         "latency is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in FILE
    with pytest.raises(BadInput, match=told) as caught:
        read_services(written(tmp_path, FILE.replace(old, new, 1)))
    assert "services.yaml" in str(caught.value)


def test_every_policy_can_be_named_and_stands_in_one_table(tmp_path: Path) -> None:
    names = [name for name in BUILTIN if name != "continuous"]  # of language models
    out = CliRunner().invoke(
        cli,
        ["serve", "simulate", "poisson:rate=20:seconds=20", "--services", written(tmp_path),
         "--cluster", "1x3:T4+1x2:A100", "--policies", ",".join(names), "--json"],
    )  # fmt: skip
    assert out.exit_code == 0, out.output
    rows = json.loads(out.output)
    assert [row["policy"] for row in rows] == names
    assert len({row["requests"] for row in rows}) == 1
    for row in rows:
        assert row["served"] + row["dropped"] == row["requests"]
        assert row["slo_attainment"] > 0.5, row
