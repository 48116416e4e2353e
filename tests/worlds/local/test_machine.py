"""What a machine has. The tests that need a GPU are skipped where there is none."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dovetail.worlds.local import machine
from dovetail.worlds.local.machine import GpuFound, nodes_of, short_kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA H100 PCIe", "H100"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA GeForce GTX 1080 Ti", "GTX-1080-Ti"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "RTX-3080-Laptop"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
        ("NVIDIA Graphics Device", "Graphics-Device"),
        ("NVIDIA", "gpu"),
        ("", "gpu"),
    ],
)
def test_kinds_are_short(name: str, kind: str) -> None:
    assert short_kind(name) == kind


def gpu(index: int, kind: str = "H200", memory_gb: float = 140.4) -> GpuFound:
    return GpuFound(index, f"GPU-{index}", kind, memory_gb, power_limit_watts=700)


def test_a_machine_without_gpus_offers_a_slot_for_each_core() -> None:
    (node,) = nodes_of([], "box", cores=8, memory_gb=32)
    assert (node.id, node.kind, node.gpus, node.cpus, node.memory_gb) == ("box", "cpu", 8, 8, 32)
    assert node.labels == ()


def test_or_as_many_slots_as_asked_for() -> None:
    (node,) = nodes_of([], "box", cores=8, memory_gb=32, slots=2)
    assert (node.gpus, node.cpus) == (2, 8)


def test_gpus_of_one_kind_are_one_node_with_their_uuids_in_order() -> None:
    (node,) = nodes_of([gpu(1), gpu(0)], "box", cores=16, memory_gb=128)
    assert (node.id, node.kind, node.gpus) == ("box", "H200", 2)
    assert node.labels == (("gpu0", "GPU-0"), ("gpu1", "GPU-1"))
    assert (node.gpu_memory_gb, node.gpu_watts) == (140.4, 700)
    assert (node.cpus, node.memory_gb) == (16, 128)


def test_gpus_of_several_kinds_share_processors_and_memory() -> None:
    gpus = [gpu(0, "T4", 15), gpu(1), gpu(2), gpu(3)]
    small, large = nodes_of(gpus, "box", cores=16, memory_gb=128)
    assert (small.id, small.gpus, small.cpus, small.memory_gb) == ("box:T4", 1, 4, 32)
    assert (large.id, large.gpus, large.cpus, large.memory_gb) == ("box:H200", 3, 12, 96)
    assert large.labels == (("gpu0", "GPU-1"), ("gpu1", "GPU-2"), ("gpu2", "GPU-3"))


def test_slots_do_not_count_beside_gpus() -> None:
    assert [node.kind for node in nodes_of([gpu(0)], "box", 4, 8, slots=2)] == ["H200"]


def test_room_is_told_by_gpu() -> None:
    free = {"GPU-0": 10 * machine.GIB, "GPU-1": machine.GIB}
    assert machine.room_for({"GPU-0": 9 * machine.GIB}, free) == ""
    assert machine.room_for({}, {}) == ""
    assert (
        machine.room_for({"GPU-0": 1, "GPU-1": 2 * machine.GIB}, free)
        == "GPU-1 has 1.0 GB free of the 2.0 GB needed"
    )
    assert machine.room_for({"GPU-9": 1}, free) == "GPU-9 is not in this machine"


def test_room_that_fits_to_the_byte_is_not_relied_on() -> None:
    assert machine.room_for({"GPU-0": machine.GIB}, {"GPU-0": machine.GIB}) != ""


def test_this_machine_has_memory_and_cores() -> None:
    available, total = machine.host_memory_available_bytes(), machine.host_memory_bytes()
    assert 0 < available <= total
    assert sum(node.cpus for node in machine.machine_nodes()) == len(os.sched_getaffinity(0))


def control_group(folder: Path, limit: str, used: int, dropable: int) -> None:
    folder.mkdir(parents=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {dropable}\n")


def test_the_limits_of_control_groups_above_us_count(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/outer/inner\n")
    root = tmp_path / "root"
    control_group(root / "outer/inner", "max", 500, 0)
    (root / "outer/memory.max").write_text("1000\n")
    (root / "outer/memory.current").write_text("700\n")
    (root / "outer/memory.stat").write_text("inactive_file 50\n")
    assert machine._control_group_room(tmp_path, root) == [350]


def test_the_older_control_groups_count_too(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("3:cpu,cpuacct:/a\n2:memory:/a\n")
    folder = tmp_path / "root/memory/a"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text("1000\n")
    (folder / "memory.usage_in_bytes").write_text("1200\n")
    assert machine._control_group_room(tmp_path, tmp_path / "root") == [0]


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("NVMLError_LibRmVersionMismatch", "restart the machine"),
        ("NVMLError_DriverNotLoaded", "modprobe nvidia"),
        ("NVMLError_NoPermission", "/dev/nvidia"),
        ("NVMLError_LibraryNotFound", "install the NVIDIA driver"),
        ("NVMLError_Unknown", "cannot be used: told"),
    ],
)
def test_trouble_with_nvml_is_one_line_with_a_way_out(error: str, advice: str) -> None:
    line = machine.explain(error, "told")
    assert advice in line
    assert "\n" not in line


GPUS = machine.find_gpus()


@pytest.mark.skipif(bool(GPUS), reason="there is a GPU here")
def test_without_gpus_everything_answers_nothing() -> None:
    assert machine.foreign_use([]) == set()
    assert machine.gpu_memory_bytes([os.getpid()]) == {}
    assert machine.gpu_memory_by_gpu([os.getpid()]) == {}
    assert machine.free_gpu_memory_bytes() == {}
    assert machine.power_watts() == {}
    assert [node.kind for node in machine.machine_nodes(slots=3)] == ["cpu"]


needs_gpu = pytest.mark.skipif(not GPUS, reason="no GPU here")


@needs_gpu
def test_real_gpus_have_a_uuid_a_kind_memory_and_a_power_limit() -> None:
    assert [each.index for each in GPUS] == list(range(len(GPUS)))
    for each in GPUS:
        assert re.fullmatch(r"GPU-[0-9a-f-]{36}", each.uuid)
        assert each.memory_gb > 1
        assert each.power_limit_watts > 10
        assert " " not in each.kind
    assert machine.gpu_trouble() == ""


@needs_gpu
def test_real_gpus_tell_their_power_and_free_memory() -> None:
    uuids = {each.uuid for each in GPUS}
    assert set(machine.power_watts()) <= uuids
    assert set(machine.free_gpu_memory_bytes()) == uuids
    assert machine.room_for({GPUS[0].uuid: 2**60}) != ""


@needs_gpu
def test_sessions_nest_and_close() -> None:
    with machine.nvml() as library:
        assert machine.find_gpus() == GPUS
        assert library.nvmlDeviceGetCount() >= len(GPUS)
    with pytest.raises(library.NVMLError, match="Uninitialized"):
        library.nvmlDeviceGetCount()


@needs_gpu
def test_looking_at_the_gpus_is_no_use_of_them() -> None:
    machine.find_gpus()
    assert os.getpid() not in machine.gpu_memory_bytes([os.getpid()])
