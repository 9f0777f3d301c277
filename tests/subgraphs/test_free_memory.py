"""The free memory of machines and containers, from files like those of Linux."""

import pytest
import torch

from gnnak.subgraphs import copy_limit
from gnnak.subgraphs.copy_limit import free_bytes
from tests.gpu import needs_gpu

CPU = torch.device("cpu")
GB = 2**30


@pytest.fixture
def linux(monkeypatch, tmp_path):
    """A folder in place of the root folder; 8 GB are available on the machine."""
    for name, path in (
        ("MEMINFO", "meminfo"),
        ("CGROUP", "cgroup"),
        ("CGROUPS", "cgroups"),
    ):
        monkeypatch.setattr(copy_limit, name, tmp_path / path)
    write(tmp_path / "meminfo", f"MemTotal: 99 kB\nMemAvailable: {8 * 2**20} kB\n")
    return tmp_path


def write(file, text) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(str(text))


def test_free_memory_is_what_the_machine_has_available(linux):
    assert free_bytes(CPU) == 8 * GB


@pytest.mark.parametrize("folder", ["", "box"])
def test_free_memory_is_what_a_container_has_left(linux, folder):
    write(linux / "cgroup", "0::/box\n")
    group = linux / "cgroups" / folder
    write(group / "memory.max", 4 * GB)
    write(group / "memory.current", 3 * GB)
    write(group / "memory.stat", f"anon 1\ninactive_file {GB}\n")
    assert free_bytes(CPU) == 2 * GB


def test_free_memory_of_an_older_container(linux):
    write(linux / "cgroup", "4:memory:/a:b\n0::/\n2:cpu:/\n")
    group = linux / "cgroups" / "memory" / "a:b"
    write(group / "memory.limit_in_bytes", 4 * GB)
    write(group / "memory.usage_in_bytes", 5 * GB)
    assert free_bytes(CPU) == 0


def test_a_container_without_a_limit_does_not_count(linux):
    write(linux / "cgroup", "0::/\n")
    write(linux / "cgroups" / "memory.max", "max\n")
    write(linux / "cgroups" / "memory.current", 5)
    assert free_bytes(CPU) == 8 * GB


def test_total_memory_counts_where_there_is_no_meminfo(linux, monkeypatch):
    (linux / "meminfo").unlink()
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(copy_limit.os, "sysconf", sizes.get)
    assert free_bytes(CPU) == 4_096_000


def test_unknown_memory_is_none(linux, monkeypatch):
    def fail(name):
        raise ValueError(name)

    (linux / "meminfo").unlink()
    monkeypatch.setattr(copy_limit.os, "sysconf", fail)
    assert free_bytes(CPU) is None
    assert free_bytes(torch.device("meta")) is None


@needs_gpu
def test_free_memory_of_a_gpu_includes_what_pytorch_has_reserved():
    device = torch.device("cuda")
    before = free_bytes(device)
    block = torch.empty(2**28, dtype=torch.uint8, device=device)
    assert free_bytes(device) <= before - 2**28 + 2**25
    del block
    assert free_bytes(device) >= before - 2**25
