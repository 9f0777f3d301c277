import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch_geometric.nn import GIN

from gnnak import EgoNets, RandomWalks, uplift
from gnnak.errors import OptionError, SizeError, SubgraphError
from gnnak.models.options import SubgraphOptions
from gnnak.sampling import SubgraphDrop
from gnnak.sampling.drop import sample_egonets
from gnnak.subgraphs import copy_limit, egonets, induce, reach
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY, UNCHECKED, free_bytes
from gnnak.subgraphs.walks import walk_subgraphs
from tests.gpu import needs_gpu
from tests.strategies import graphs


def star(num_nodes: int) -> torch.Tensor:
    leaf = torch.arange(1, num_nodes)
    once = torch.stack([leaf, torch.zeros_like(leaf)])
    return torch.cat([once, once.flip(0)], dim=1)


def complete(num_nodes: int) -> torch.Tensor:
    return (1 - torch.eye(num_nodes)).nonzero().t().contiguous()


@pytest.fixture
def memory(monkeypatch):
    """Pretend that enough memory for a number of copies is free."""

    def free(copies: int) -> None:
        monkeypatch.setattr(copy_limit, "UNCHECKED", 0)
        monkeypatch.setattr(copy_limit, "free_bytes", lambda _: copies * BYTES_PER_COPY)

    return free


STAR = star(100_000), 100_000
EXTRACTIONS = {
    "egonets": lambda: EgoNets(2)(*STAR),
    "sampled": lambda: sample_egonets(SubgraphDrop("random"), EgoNets(2), *STAR),
    "model": lambda: uplift(GIN(4, 8, 1), 2)(torch.rand(100_000, 4), STAR[0]),
}


@pytest.mark.parametrize("name", EXTRACTIONS)
def test_egonets_of_a_large_star_are_refused_with_their_number(name, memory):
    memory(10**8)
    message = (
        r"about [\d,]+ node copies .* GB, more than the 8.0 GB of "
        r"free memory allows; lower num_hops or .* raise copy_limit"
    )
    with pytest.raises(SizeError, match=message) as raised:
        EXTRACTIONS[name]()
    assert isinstance(raised.value, SubgraphError)


def test_options_of_a_network_set_the_copy_limit():
    egonets = SubgraphOptions(num_hops=1, copy_limit=7).build()
    for kind in ("walks", "pagerank"):
        assert SubgraphOptions(kind=kind, copy_limit=7).build().copy_limit == 7
    assert egonets.copy_limit == 7


def test_edges_of_a_dense_graph_are_refused_from_an_estimate(memory, monkeypatch):
    monkeypatch.setattr(induce, "CHUNK", 1000)
    memory(50_000)
    # A complete graph has 100 * 100 node copies and 100 * 100 * 99 edge copies.
    with pytest.raises(SizeError, match="about 1,000,000 node copies and edge"):
        EgoNets(1)(complete(100), 100)


@settings(max_examples=100, deadline=None)
@given(graph=graphs(), num_hops=st.integers(0, 3))
def test_egonets_obey_copy_limit_exactly(graph, num_hops):
    subs = egonets(*graph, num_hops)
    copies = subs.num_copies + subs.num_edge_copies
    assume(copies > 1)
    limited = EgoNets(num_hops, copy_limit=copies)(*graph)
    assert torch.equal(limited.edge_index, subs.edge_index)
    message = rf"at least \d+ node copies .* more than copy_limit={copies - 1} allows"
    with pytest.raises(SizeError, match=message):
        EgoNets(num_hops, copy_limit=copies - 1)(*graph)


@settings(max_examples=100, deadline=None)
@given(graph=graphs(), seed=st.integers(0, 99))
def test_walk_subgraphs_obey_copy_limit(graph, seed):
    def sample(limit):
        generator = torch.Generator().manual_seed(seed)
        walks = RandomWalks(length=1, repeats=1, copy_limit=limit)
        return walks(*graph, generator)

    subs = sample(None)
    copies = subs.num_copies + subs.num_edge_copies
    assume(copies > 1)
    assert torch.equal(sample(copies).edge_index, subs.edge_index)
    with pytest.raises(SizeError, match="lower length, repeats or"):
        sample(copies - 1)


def test_too_many_steps_of_walks_are_refused_before_walking(memory):
    memory(10**8)
    with pytest.raises(SizeError, match="up to 50,000,000,000 node copies"):
        walk_subgraphs(star(10), 10, length=10**9, repeats=5)


def test_few_copies_are_extracted_without_reading_the_free_memory(monkeypatch):
    def fail(device):
        raise AssertionError("the free memory was read")

    monkeypatch.setattr(copy_limit, "free_bytes", fail)
    EgoNets(2)(star(500), 500)
    RandomWalks(3, 2)(star(500), 500)
    assert UNCHECKED > 3 * 500**2


def test_a_device_of_unknown_memory_has_a_fixed_limit(monkeypatch):
    monkeypatch.setattr(copy_limit, "free_bytes", lambda device: None)
    limit = copy_limit.CopyLimit(None, torch.device("meta"))
    assert limit.count == copy_limit.UNKNOWN_MEMORY // BYTES_PER_COPY


def test_copy_limit_overrides_the_free_memory(memory):
    memory(10)
    assert EgoNets(2, copy_limit=10**6)(star(50), 50).num_copies == 2500


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "many"])
def test_a_wrong_copy_limit_is_named(limit):
    for make in (
        lambda: EgoNets(1, copy_limit=limit),
        lambda: RandomWalks(copy_limit=limit),
        lambda: egonets(star(3), 3, 1, copy_limit=limit),
    ):
        with pytest.raises(OptionError, match=r"copy_limit is .* at least 1"):
            make()


def test_an_estimate_near_the_limit_is_not_refused(memory, monkeypatch):
    """The hubs of a graph can mislead the sample, so near the limit copies count."""
    monkeypatch.setattr(reach, "CHUNK", 100)
    edge_index = star(40)
    copies = 40 * 40 + 40 * 2 * 39
    memory(copies)
    assert EgoNets(2)(edge_index, 40).num_copies == 1600
    memory(copies - 1)
    with pytest.raises(SizeError, match="at least"):
        EgoNets(2)(edge_index, 40)


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
