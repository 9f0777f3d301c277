"""Encodings of pairs (root, node) in GNN-AK+ layers, networks and uplifted models."""

from dataclasses import replace
from itertools import chain, combinations

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GIN

import gnnak
from gnnak import PUBLISHED, EgoNets, LayerOptions, SubgraphDrop
from gnnak.errors import OptionError, SubgraphError
from gnnak.models import build_model
from gnnak.models.options import FamilyOptions, ModelOptions, SubgraphOptions
from gnnak.nn.features import Continuous
from gnnak.subgraphs import WithEncodings, extract, structural_encodings
from gnnak.subgraphs.encodings import extracted_encodings
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)
from gnnak.typing import LAYER_PAIRS
from tests.models.zoo import continuous_network, molecule_batch, small_network
from tests.nn.literal import by_the_equations
from tests.nn.test_uplift import graph, make_layer

GRAPHS = small_graphs(channels=4, edge_channels=3)
SUBSETS = [
    pairs
    for pairs in chain.from_iterable(combinations(LAYER_PAIRS, r) for r in (1, 2, 4))
    if pairs != ("distance",)
]
ALL = ("distance", "rrwp", "resistance", "distance-counts")
TWO_HOPS = SubgraphOptions(num_hops=2)


def encoded(layer, edge_index, num_nodes, num_hops=2, roots=None):
    extractor = WithEncodings(EgoNets(num_hops), layer.pair_encodings)
    return extract(extractor, edge_index, num_nodes, roots=roots)


@pytest.mark.parametrize("hop", ["concat", "add"])
@pytest.mark.parametrize("pairs", SUBSETS, ids="+".join)
def test_gnnak_with_pairs_equals_the_equations_in_loops(pairs, hop):
    layer = make_layer(hop=hop, pairs=pairs, options=PUBLISHED)
    assert (layer.hop_table is None) == ("distance" not in pairs)
    x, edges, attr = graph(num_nodes=5, num_edges=9)
    wanted = by_the_equations(layer, x, edges, attr, 2)
    found = layer(x, encoded(layer, edges, 5), attr)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_gnnak_with_pairs_of_corner_cases_equals_the_equations(corner_case):
    layer = make_layer(pairs=ALL)
    x, edges, attr = (corner_case[k] for k in ("x", "edge_index", "edge_attr"))
    found = layer(x, encoded(layer, edges, x.size(0)), attr)
    wanted = by_the_equations(layer, x, edges, attr, 2)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_gnnak_with_pairs_of_some_roots_and_in_slices():
    layer = make_layer(pairs=ALL, encodings=("centroid", "subgraph")).train()
    x, edges, attr = graph()
    subgraphs = encoded(layer, edges, 7)
    wanted = layer(x, subgraphs, attr)
    roots = torch.tensor([5, 1])
    some = layer(x, encoded(layer, edges, 7, roots=roots), attr)
    torch.testing.assert_close(some, wanted[roots])
    layer.max_copies = 3
    torch.testing.assert_close(layer(x, subgraphs, attr), wanted)


def test_gnnak_with_only_the_distance_is_the_default():
    states, layers = [], []
    for options in ({}, {"pairs": ("distance",)}, {"pairs": ["distance"]}):
        torch.manual_seed(0)
        layers.append(make_layer(**options))
        states.append(layers[-1].state_dict())
    names = ["gnn.eps", "gnn.nn.0.weight", "gnn.nn.0.bias", "gnn.lin.weight"]
    names += ["gnn.lin.bias", "project.weight", "project.bias", "hop_table.weight"]
    gates = ("gates.subgraph.linear.", "gates.context.linear.")
    names += [f"{gate}{kind}" for gate in gates for kind in ("weight", "bias")]
    assert set(states[0]) == {*names, "fuse.mlp.0.weight"}
    for state in states[1:]:
        torch.testing.assert_close(state, states[0], rtol=0, atol=0)
    assert layers[0].options == layers[2].options == LayerOptions(hop_channels=5)
    assert "pairs=('distance',)" in repr(layers[0])


def test_layer_options_answer_wrong_pairs_in_one_sentence():
    with pytest.raises(OptionError, match="in pairs is 'x'; use one of: distance, rr"):
        LayerOptions(pairs=("x",))
    with pytest.raises(OptionError, match=r"pairs is \(\); name at least one"):
        LayerOptions(pairs=())
    with pytest.raises(OptionError, match="but hop_channels is 0, so that the layer"):
        LayerOptions(pairs=("rrwp",), hop_channels=0)
    with pytest.raises(OptionError, match="but hop_channels is 0, so that the layer"):
        small_network("gin-ak", pairs=("rrwp",))


def test_gnnak_says_which_encodings_the_subgraphs_lack():
    layer, (x, edges, attr) = make_layer(pairs=("rrwp",)), graph()
    with pytest.raises(SubgraphError, match=r"encoding 'rrwp' .*\.WithEncodings\("):
        layer(x, EgoNets(2)(edges, 7), attr)


@pytest.mark.parametrize("name", ["gin-ak+", "ppgn-ak+", "gcn-ak+"])
def test_networks_with_pairs_are_invariant_and_batching_consistent(name):
    net = continuous_network(name, subgraphs=TWO_HOPS, pairs=ALL).eval()
    for key in ("directed", "two components"):
        assert_permutation_equivariant(net, GRAPHS[key])
    assert_batching_consistent(net, list(GRAPHS.values()))


def test_networks_read_the_encodings_of_the_extractor():
    """Given encodings, or none, a network computes the same outputs."""
    net = small_network("gin-ak+", subgraphs=TWO_HOPS, pairs=ALL).eval()
    assert net.extractor == WithEncodings(EgoNets(2), structural_encodings(ALL))
    data = molecule_batch()
    given = (data.edge_index, data.num_nodes)
    found = extract(net.extractor, *given, batch=data.batch)
    assert len(extracted_encodings(found)) == 3
    wanted = net(data)
    for subgraphs in (found, EgoNets(2)(*given)):
        torch.testing.assert_close(net(data, subgraphs=subgraphs), wanted)


def test_networks_with_pairs_train_with_subgraph_drop():
    """Sampled copies have the encodings that they have among all copies."""
    drop = SubgraphDrop("random", 1)
    net = small_network("gin-ak+-s", subgraphs=TWO_HOPS, pairs=ALL, drop=drop)
    data = molecule_batch()
    given = (data.edge_index, data.num_nodes)
    whole = extract(net.extractor, *given, batch=data.batch)
    sampled = drop(whole, data.edge_index, torch.Generator().manual_seed(0))
    assert sampled.num_subgraphs < data.num_nodes
    for encoding, found in extracted_encodings(sampled).items():
        fresh = drop(EgoNets(2)(*given), given[0], torch.Generator().manual_seed(0))
        wanted = encoding(fresh, data.edge_index, data.batch)
        torch.testing.assert_close(found.rows, wanted)
    net(data).sum().backward()
    assert all(weight.grad is not None for weight in net.parameters())


def rings(*sizes):
    """Disjoint cycles, with node features 1."""
    edges, first = [], 0
    for size in sizes:
        nodes = torch.arange(size)
        edges.append(first + torch.stack([nodes, (nodes + 1) % size]))
        first += size
    forth = torch.cat(edges, dim=1)
    return torch.ones(first, 4).double(), torch.cat([forth, forth.flip(0)], dim=1)


@pytest.mark.parametrize("pairs", [("distance",), ("rrwp",), ("distance-counts",)])
def test_uplifted_models_with_pairs_see_beyond_their_subgraphs(pairs):
    """All 1-hop egonets of these cycles are paths of three nodes."""
    torch.manual_seed(0)
    net = gnnak.uplift(GIN(4, 8, 1).double(), 1, pairs=pairs).eval()
    one, two = (net(*rings(*sizes)).sum(0) for sizes in ((8,), (4, 4)))
    assert torch.allclose(one, two) == (pairs == ("distance",))


def test_uplifted_models_with_pairs_are_consistent_and_drop():
    model = GIN(4, 8, 2).double()
    net = gnnak.uplift(model, 2, pairs=ALL, drop=SubgraphDrop("random", 1)).eval()
    batch = Batch.from_data_list([GRAPHS[name] for name in ("path", "directed")])
    batch.x = batch.x.double()
    wanted = net(batch.x, batch.edge_index)
    alone = [net(data.x.double(), data.edge_index) for data in batch.to_data_list()]
    torch.testing.assert_close(wanted, torch.cat(alone))
    given = WithEncodings(EgoNets(2), structural_encodings(ALL))
    subgraphs = extract(given, batch.edge_index, batch.num_nodes, batch=batch.batch)
    torch.testing.assert_close(
        net(batch.x, batch.edge_index, subgraphs=subgraphs), wanted
    )
    bare = EgoNets(2)(batch.edge_index, batch.num_nodes)
    torch.testing.assert_close(net(batch.x, batch.edge_index, subgraphs=bare), wanted)
    net.train()(batch.x, batch.edge_index).sum().backward()


def test_infer_streams_subgraphs_with_pairs():
    edges = rings(9)[1]
    net = gnnak.uplift(GIN(4, 8, 2).double(), 2, pairs=ALL).eval()
    data = Data(torch.rand(9, 4).double(), edges)
    found = gnnak.infer(net, data, max_copies=12)
    torch.testing.assert_close(found, net(data.x, edges))


@pytest.mark.parametrize(("mode", "seeds"), [("shared", [0]), ("scope", [0, 4])])
@pytest.mark.parametrize("model", ["uplifted", "gin-ak+", "nested-gin"])
def test_batches_of_root_loaders_are_refused_with_pairs(model, mode, seeds):
    """A batch is a part of the graph, even if it has as many edges as the graph."""
    data = Data(torch.rand(8, 4).double(), rings(8)[1])
    if model == "uplifted":
        net = gnnak.uplift(GIN(4, 8, 1), 1, pairs=("rrwp",))
    else:
        options = ModelOptions(num_layers=1, channels=8)
        if model == "gin-ak+":
            options = replace(options, pairs=("distance", "rrwp"))
        else:
            options = replace(options, family=FamilyOptions(pairs=("rrwp",)))
        net = build_model(model, Continuous(4), None, 1, options, node_task=True)
    net = net.double().eval()
    (batch, *_) = gnnak.RootLoader(
        data, seeds, batch_size=2, num_layers=1, mode=mode, subgraphs=EgoNets(1)
    )
    with pytest.raises(SubgraphError, match="rrwp depends on the whole graph, but a"):
        net(batch.x, batch.edge_index)
