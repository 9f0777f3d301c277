import pytest
import torch

from gnnak import EgoNets, SubgraphDrop
from gnnak.backend import PLAIN, use_backend
from gnnak.fast.kernels import runs_kernels
from gnnak.sampling.drop import cache_plans
from gnnak.subgraphs.cached import cache_subgraphs
from tests.fast.sampling.test_greedy import RULES
from tests.gpu import needs_gpu
from tests.sampling.test_cached_plan import store_of


def some_graphs(count: int):
    generator = torch.Generator().manual_seed(0)
    for size in torch.randint(1, 60, (count,), generator=generator).tolist():
        once = torch.randint(size, (2, size), generator=generator)
        yield torch.cat([once, once.flip(0)], dim=1), size


@needs_gpu
@pytest.mark.parametrize("wanted", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_kernels_draw_what_pytorch_does(rule, wanted):
    fast = pytest.importorskip("gnnak.fast.sampling")
    store = store_of(list(some_graphs(500))).to("cuda")
    drop, positions = SubgraphDrop(**rule, min_coverage=wanted), torch.randperm(500)
    kept = cache_subgraphs(store, EgoNets(2))
    plan, subs = cache_plans(kept, drop)[positions], kept[positions]
    edge_index = store[positions].edge_index
    assert fast.can_sample(runs_kernels, plan)
    generator = torch.Generator("cuda")
    drawn = drop(subs, edge_index, generator.manual_seed(1), plan)
    with use_backend(PLAIN):
        slow = drop(subs, edge_index, generator.manual_seed(1))
    assert torch.equal(drawn.root, slow.root)
    assert torch.equal(drawn.covered, slow.covered)
    weights = []
    for filling in (drawn.filling, slow.filling):
        order = torch.argsort(filling.node * drawn.num_subgraphs + filling.subgraph)
        weights.append((filling.node[order], filling.weight[order]))
    assert torch.equal(weights[0][0], weights[1][0])
    torch.testing.assert_close(weights[0][1], weights[1][1], rtol=1e-12, atol=0)
