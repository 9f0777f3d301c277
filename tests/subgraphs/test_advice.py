import re

import pytest
import torch

from gnnak import EgoNets, RandomWalks
from gnnak.errors import SizeError
from gnnak.graphs.adjacency import incoming
from gnnak.subgraphs import advice as advice_module
from gnnak.subgraphs import copy_limit
from gnnak.subgraphs.advice import (
    Sizes,
    advice,
    egonet_sizes,
    estimated_sizes,
    extraction_bytes,
)
from gnnak.subgraphs.copy_limit import BYTES_PER_COPY


def complete(num_nodes: int) -> torch.Tensor:
    return (1 - torch.eye(num_nodes)).nonzero().t().contiguous()


def random_graph(num_nodes=400, num_edges=4000):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(num_nodes, (2, num_edges), generator=generator)


@pytest.mark.parametrize("num_hops", [0, 1, 2])
def test_egonet_sizes_of_all_roots_are_exact(num_hops):
    edge_index = random_graph(60, 200)
    found = egonet_sizes(incoming(edge_index, 60), num_hops)
    whole = EgoNets(num_hops)(edge_index, 60)
    assert found == Sizes(whole.num_copies, whole.num_edge_copies, 60)
    assert estimated_sizes(EgoNets(num_hops), edge_index, 60) == found


def test_estimated_sizes_of_some_roots_are_near_the_whole():
    edge_index = random_graph()
    for extractor in (EgoNets(2), EgoNets(1, max_neighbors=3), RandomWalks(4, 3)):
        found = estimated_sizes(extractor, edge_index, 400, most=100)
        generator = torch.Generator().manual_seed(0)
        whole = extractor(edge_index, 400, generator)
        assert found.roots == 100
        assert found.copies == pytest.approx(whole.num_copies, rel=0.1)
        assert found.edge_copies == pytest.approx(whole.num_edge_copies, rel=0.3)


def test_estimated_sizes_of_an_empty_graph_are_zero():
    assert estimated_sizes(EgoNets(2), torch.empty(2, 0).long(), 0).total == 0


@pytest.fixture
def memory(monkeypatch):
    """Pretend that enough memory for a number of copies is free."""

    def free(copies: int) -> None:
        monkeypatch.setattr(copy_limit, "UNCHECKED", 0)
        monkeypatch.setattr(advice_module, "LEAST_EDGES", 0)
        monkeypatch.setattr(
            copy_limit, "free_bytes", lambda device: copies * BYTES_PER_COPY
        )

    return free


def test_egonets_that_do_not_fit_are_refused_with_alternatives(memory):
    memory(60_000)
    with pytest.raises(SizeError, match="about 1,000,000 node copies") as raised:
        EgoNets(1)(complete(100), 100)
    told = str(raised.value)
    # A capped egonet has 21 nodes and 420 edges, 44 100 copies in all.
    assert "EgoNets(1, max_neighbors=20) (4 MB)" in told
    assert "max_copies" not in told  # there are 10 000 node copies


def test_every_alternative_in_the_advice_fits(memory):
    edge_index, free = random_graph(), 200_000 * BYTES_PER_COPY
    neighbors = incoming(edge_index, 400)
    whole = egonet_sizes(neighbors, 2)
    told = advice(neighbors, 2, whole, free, extraction_bytes, drop=True)
    cap = re.search(r"EgoNets\(2, max_neighbors=(\d+)\)", told)
    assert cap is not None
    capped = EgoNets(2, max_neighbors=int(cap[1]))(edge_index, 400)
    assert capped.num_copies + capped.num_edge_copies <= 200_000
    walks = re.search(r"RandomWalks\((\d+), (\d+)\)", told)
    assert walks is not None
    found = RandomWalks(int(walks[1]), int(walks[2]))(edge_index, 400)
    assert found.num_copies + found.num_edge_copies <= 200_000
    assert "SubgraphDrop" in told


def test_advice_without_alternatives_asks_for_memory():
    neighbors = incoming(complete(30), 30)
    told = advice(neighbors, 1, egonet_sizes(neighbors, 1), 100, extraction_bytes)
    assert told.startswith("add memory")


def test_egonets_that_fit_are_not_refused(memory):
    memory(1_100_000)
    assert EgoNets(1)(complete(100), 100).num_edge_copies == 990_000


def test_free_bytes_obey_the_limits_of_the_process(monkeypatch, tmp_path):
    status = tmp_path / "status"
    status.write_text("VmSize:   1000 kB\nVmData:    100 kB\n")
    monkeypatch.setattr(copy_limit, "STATUS", status)
    limits = {"RLIMIT_AS": 3000 * 1024, "RLIMIT_DATA": None}
    monkeypatch.setattr(copy_limit, "getrlimit", limits.get)
    assert copy_limit.free_bytes(torch.device("cpu")) == 2000 * 1024
    limits["RLIMIT_DATA"] = 50 * 1024
    assert copy_limit.free_bytes(torch.device("cpu")) == 0
