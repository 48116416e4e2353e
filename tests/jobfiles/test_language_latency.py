"""The latency of a language model in a file of services."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.core.errors import BadInput
from dovetail.jobfiles.served_models import read_services
from dovetail.serving.language.kv_memory import KvSize
from dovetail.serving.language.settings import LanguageModel

STEPS = "prefill: {fixed_ms: 10, per_token_ms: 0.05}, decode: {fixed_ms: 15, per_sequence_ms: 0.1}"
KV = "kv: {gb: 40, per_token_bytes: 131072, swap_gb_per_s: 25}"


def read(folder: Path, latency: str) -> LanguageModel:
    file = folder / "services.yaml"
    file.write_text(f"services:\n- name: chat\n  max_batch: 64\n  latency: {{{latency}}}\n")
    model = read_services(str(file))["chat"].latency
    assert isinstance(model, LanguageModel)
    return model


def test_steps_and_memory_are_read_in_the_units_of_their_names(tmp_path: Path) -> None:
    model = read(tmp_path, f"{STEPS}, {KV}")
    assert model.costs.prefill.of(1000) == pytest.approx(0.060)
    assert model.costs.decode.of(10) == pytest.approx(0.016)
    assert model.kv == KvSize(19073, 16, 0.01)
    assert model.swap_block_s == pytest.approx(16 * 131072 / 25e9)


def test_measured_times_are_joined_by_straight_lines(tmp_path: Path) -> None:
    tables = (
        "prefill: {tokens: [100, 200], ms: [10, 30]}, decode: {sequences: [1, 8], ms: [15, 22]}"
    )
    model = read(tmp_path, f"{tables}, kv: {{blocks: 100}}")
    assert [model.costs.prefill.of(n) for n in (50, 150, 300)] == pytest.approx([0.01, 0.02, 0.05])
    assert model.costs.decode.of(4) == pytest.approx(0.018)


def test_a_profile_is_a_file_beside_that_of_the_services(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "\n".join((STEPS + ", " + KV).split("}, ")).replace("\n", "}\n")
    )
    assert read(tmp_path, "profile: own.yaml") == read(tmp_path, f"{STEPS}, {KV}")


@pytest.mark.parametrize(
    ("latency", "said"),
    [
        (STEPS, "latency.kv: this field is needed"),
        (f"{STEPS}, kv: {{}}", "give blocks, or gb and per_token_bytes"),
        (f"{STEPS}, kv: {{blocks: 0}}", "latency.kv.blocks: '0' is refused"),
        (f"{STEPS}, kv: {{block: 5}}", "latency.kv.block: there is no such field; did you mean"),
        (f"{STEPS}, kv: {{blocks: 9, swap_gb_per_s: 9}}", "needs per_token_bytes"),
        ("prefill: {}, decode: {fixed_ms: 1}, kv: {blocks: 1}", "a step takes time"),
        ("prefill: {tokens: [1, 2], ms: [1]}, decode: {fixed_ms: 1}, kv: {blocks: 1}", "together"),
        ("prefill: {tokens: [2, 1], ms: [1, 2]}, decode: {fixed_ms: 1}, kv: {blocks: 1}", "rise"),
        (
            "prefil: {fixed_ms: 1}, decode: {fixed_ms: 1}, kv: {blocks: 1}",
            "latency.prefill: this field is needed",
        ),
        ("profile: none.yaml", "none.yaml"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, latency: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        read(tmp_path, latency)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
