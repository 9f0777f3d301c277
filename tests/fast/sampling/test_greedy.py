"""The Triton draw against the PyTorch loop, run by Triton's interpreter."""

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak import EgoNets, RandomWalks, SubgraphDrop
from gnnak.backend import PLAIN, use_backend
from gnnak.fast.kernels import runs_kernels
from gnnak.sampling import is_cover
from gnnak.sampling.plan import LARGE
from gnnak.subgraphs import egonets
from tests.strategies import graphs

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="set TRITON_INTERPRET=1"
)
fast = pytest.importorskip("gnnak.fast.sampling")
RULES = [
    {"strategy": "random"},
    {"strategy": "random", "share": 0.3},
    {"strategy": "farthest"},
    {"strategy": "farthest", "ties": "lowest"},
    {"strategy": "min-set-cover"},
    {"strategy": "min-set-cover", "ties": "lowest"},
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def joined(parts) -> tuple[torch.Tensor, int]:
    """A few graphs as one."""
    edges, size = [], 0
    for edge_index, num_nodes in parts:
        edges.append(edge_index + size)
        size += num_nodes
    return torch.cat(edges, dim=1), size


def entries(filling):
    """A filling, node by node."""
    node, subgraph, weight = filling.node, filling.subgraph, filling.weight
    return sorted(zip(node.tolist(), subgraph.tolist(), weight.tolist(), strict=True))


def assert_same(drop, subs, edge_index, seed=0):
    plan = drop.plan(subs, edge_index)
    assert fast.can_sample(runs_kernels, plan)
    drawn = drop(subs, edge_index, seeded(seed), plan)
    with use_backend(PLAIN):
        slow = drop(subs, edge_index, seeded(seed), plan)
    assert drawn.root.tolist() == slow.root.tolist()
    assert entries(drawn.filling) == entries(slow.filling)
    assert drawn.filling.to("cpu").in_order
    assert (plan.component[drawn.filling.node].diff() >= 0).all()
    kept = torch.isin(subs.root, drawn.root)
    assert is_cover(subs, plan.num_nodes, kept, drop.min_coverage)


some = st.lists(graphs(max_nodes=7), min_size=1, max_size=3).map(joined)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=6, deadline=None)
@given(some, st.integers(0, 3), st.integers(1, 5), st.integers(0, 99))
def test_fast_draw_of_egonets_is_the_same(rule, graph, num_hops, wanted, seed):
    drop = SubgraphDrop(**rule, min_coverage=wanted)
    assert_same(drop, EgoNets(num_hops)(*graph), graph[0], seed)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=6, deadline=None)
@given(some, st.integers(1, 5), st.integers(0, 99))
def test_fast_draw_of_walks_is_the_same(rule, graph, wanted, seed):
    """Membership of walk subgraphs is not symmetric: j in Sub[i], i not in Sub[j]."""
    walks = RandomWalks(length=2, repeats=1)(*graph, seeded(seed))
    assert_same(SubgraphDrop(**rule, min_coverage=wanted), walks, graph[0], seed)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("size", "wanted"), [(40, 2), pytest.param(256, 1, marks=pytest.mark.slow)]
)
def test_fast_draw_of_large_components_is_the_same(rule, size, wanted):
    once = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
    path = torch.cat([once, once.flip(0)], dim=1)
    assert_same(SubgraphDrop(**rule, min_coverage=wanted), EgoNets(9)(path, size), path)


@pytest.mark.parametrize("rule", RULES)
def test_fast_draw_of_roots_in_any_order_is_the_same(rule):
    edge_index = torch.randint(20, (2, 30), generator=seeded())
    roots = torch.randperm(20, generator=seeded())
    subs = egonets(edge_index, 20, 2, roots)
    for seed in range(2):
        assert_same(SubgraphDrop(**rule, min_coverage=2), subs, edge_index, seed)


def test_fast_draw_is_not_for_components_that_are_too_large(monkeypatch):
    monkeypatch.setattr(fast, "FAST_NODES", 2)
    path = torch.tensor([[0, 1, 3], [1, 2, 4]])
    drop = SubgraphDrop("farthest")
    plan = drop.plan(EgoNets(1)(path, 5), path)
    assert plan.largest == 3
    assert not fast.can_sample(runs_kernels, plan)


def test_plans_of_all_batches_that_the_kernel_samples_have_distances():
    """The kernel reads a table of distances, which plans of large components lack."""
    assert fast.FAST_NODES <= LARGE
