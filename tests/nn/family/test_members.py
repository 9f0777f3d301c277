import copy
from itertools import cycle

import pytest
import torch

from gnnak import SubgraphDrop
from gnnak.errors import OptionError, SubgraphError
from gnnak.loading.padder import Shapes
from gnnak.loading.windows import make_window, split, split_padded
from gnnak.nn.family import SubgraphGNN
from gnnak.nn.family.khop import find_rings
from gnnak.subgraphs import EgoNets, RandomWalks, WholeGraphs
from gnnak.subgraphs.cached import cache_subgraphs
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)
from tests.nn.family.literal import World
from tests.nn.family.members import (
    BUILDERS,
    HOPS,
    ON_NODES,
    WIDTH,
    by_the_equations,
    member,
)
from tests.training.small import triangles

GRAPHS = small_graphs(WIDTH, edge_channels=WIDTH)
POLICIES = {"egonets": EgoNets(HOPS), "whole": WholeGraphs()}


def run(gnn, data, policy="egonets"):
    batch = getattr(data, "batch", None)
    given = (data.edge_index, data.num_nodes)
    if policy == "whole":
        subgraphs = WholeGraphs()(*given, batch=batch)
    else:
        subgraphs = POLICIES[policy](*given)
    return gnn(data.x, data.edge_index, data.edge_attr, batch, subgraphs)


@pytest.mark.parametrize("graph", [name for name in GRAPHS if name != "empty"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BUILDERS)
def test_members_equal_their_equations(name, policy, graph):
    gnn, data = member(name), GRAPHS[graph]
    world = World(data, None if policy == "whole" else HOPS)
    with torch.no_grad():
        wanted, out = by_the_equations(name, gnn, world), run(gnn, data, policy)
    torch.testing.assert_close(out, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", BUILDERS)
def test_members_are_permutation_equivariant(name):
    gnn = member(name)
    policies = ("whole", "egonets") if "sswl" in name else ("egonets", "whole")
    for data, policy in zip(GRAPHS.values(), cycle(policies), strict=False):
        assert_permutation_equivariant(lambda d, p=policy: run(gnn, d, p), data)


@pytest.mark.parametrize("name", BUILDERS)
def test_members_are_batching_consistent(name):
    gnn, policy = member(name), "egonets" if name in ON_NODES else "whole"
    assert_batching_consistent(lambda d: run(gnn, d, policy), list(GRAPHS.values()))


@pytest.mark.parametrize("name", BUILDERS)
def test_members_have_gradients_everywhere(name):
    """Of the states, the edges and every weight; in training, with recomputation."""
    gnn, data = copy.deepcopy(member(name)).train(), GRAPHS["star"].clone()
    data.x.requires_grad_()
    data.edge_attr.requires_grad_()
    run(gnn, data).sin().sum().backward()
    grads = {key: weight.grad for key, weight in gnn.named_parameters()}
    assert [key for key, grad in grads.items() if grad is None] == []
    assert data.x.grad.ne(0).any(dim=1).all()
    if name != "khop":
        assert data.edge_attr.grad.ne(0).any(dim=1).all()
    again = copy.deepcopy(member(name)).train()
    again.recompute = True
    run(again, data).sin().sum().backward()
    for key, weight in again.named_parameters():
        torch.testing.assert_close(weight.grad, grads[key], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", BUILDERS)
def test_members_take_random_walks(name):
    gnn, data = member(name), GRAPHS["star"]
    walks = RandomWalks(3, 2, max_hops=HOPS)
    generator = torch.Generator().manual_seed(0)
    subgraphs = walks(data.edge_index, data.num_nodes, generator)
    out = gnn(data.x, data.edge_index, data.edge_attr, None, subgraphs)
    assert out.isfinite().all()


def test_subgraph_gnn_without_subgraphs_or_layers_says_so():
    gnn, data = member("ds"), GRAPHS["path"]
    with pytest.raises(SubgraphError, match="got no rooted subgraphs"):
        gnn(data.x, data.edge_index, data.edge_attr)
    star, subgraphs = GRAPHS["star"], EgoNets(1)(data.edge_index, 3)
    with pytest.raises(SubgraphError, match="3 rooted subgraphs for 6 nodes"):
        gnn(star.x, star.edge_index, star.edge_attr, None, subgraphs)
    everything = EgoNets(1)(star.edge_index, 6)
    sample = SubgraphDrop("random", min_coverage=1)(everything, star.edge_index)
    some = EgoNets(1)(star.edge_index, 6, roots=torch.tensor([0, 2]))
    for subgraphs in (sample, some):
        with pytest.raises(SubgraphError, match="leave SubgraphDrop and roots out, or"):
            gnn(star.x, star.edge_index, star.edge_attr, None, subgraphs)
    with pytest.raises(OptionError, match="no layers"):
        SubgraphGNN(gnn.start, [], gnn.readout, 4)


PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_rings_of_a_path_by_hand():
    """Root 0 has the rings {0}, {1}, {2}; root 1 has {1}, {0, 2}; root 2 as root 0."""
    rings = find_rings(EgoNets(2)(PATH, 3), 2)
    assert [ring.tolist() for ring in rings.node] == [[0, 1, 2], [1, 0, 2, 1], [2, 0]]
    assert rings.num_rows == (None, None, None)
    edges = {key: ends.t().tolist() for key, ends in rings.edges.items()}
    assert edges[1, 0] == [[0, 0], [1, 1], [2, 1], [3, 2]]
    assert edges[2, 1] == [[0, 0], [1, 3]]
    assert edges[1, 1] == edges[2, 2] == []


@pytest.mark.parametrize("extractor", [EgoNets(2), WholeGraphs()], ids=str)
def test_padded_rings_are_the_rings_with_padding_after_them(extractor):
    """Nodes of whole graphs that are too far from the root are in no ring."""
    store = triangles(4).store
    subgraphs = cache_subgraphs(store, extractor)[:6]
    window = make_window(store[:6], subgraphs, [3, 3])
    shapes = Shapes().of(window, 2, 2)
    items = zip(split(window), split_padded(window, shapes), strict=True)
    for plain, padded in items:
        exact, found = (find_rings(each.subgraphs, 2) for each in (plain, padded))
        for node, wanted, count in zip(
            found.node, exact.node, found.num_rows, strict=True
        ):
            assert int(count) == wanted.numel() < node.numel()
            assert torch.equal(node[: wanted.numel()], wanted)
        for (source, target), ends in found.edges.items():
            rows = torch.stack([found.num_rows[source], found.num_rows[target]])
            real = (ends < rows[:, None]).all(dim=0)
            assert ((ends >= rows[:, None]).all(dim=0) | real).all()
            assert torch.equal(ends[:, real], exact.edges[source, target])
            assert ends[0].max() < found.node[source].numel()
            assert ends[1].max() < found.node[target].numel()
