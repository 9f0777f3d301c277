"""Fields of the user in batches of a `GraphLoader`, whatever their names and values."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gnnak import EgoNets, GraphLoader
from gnnak.errors import GraphError
from gnnak.graphs import from_pyg
from gnnak.graphs.real import real_counts_of
from gnnak.loading.forms import padded_form
from gnnak.models import build_model
from gnnak.nn.features import Categorical
from tests.loading.test_graph_loader import assert_same_batch


def graph(num_nodes: int = 3, **fields: object) -> Data:
    nodes = torch.arange(num_nodes)
    edge_index = torch.stack([nodes, nodes.roll(1)])
    return Data(x=torch.rand(num_nodes, 2), edge_index=edge_index, **fields)


NAMED = {
    "graphs": lambda n: torch.rand(1),
    "nodes": lambda n: torch.rand(n),
    "ragged": lambda n: torch.rand(n + 1),
    "number": lambda n: n,
    "text": lambda n: f"graph {n}",
}
"""Values of a field, by kind, for a graph with n nodes."""


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("name", ["real", "subgraphs"])
def test_graph_loader_keeps_fields_with_names_of_its_own(name, kind, pad):
    graphs = [graph(n, **{name: NAMED[kind](n)}) for n in (3, 4, 5, 3)]
    loader, theirs = GraphLoader(graphs, 2, pad=pad), DataLoader(graphs, 2)
    for one, other in zip(loader, theirs, strict=True):
        assert name in one
        assert_same_batch(one, other)
        parts = zip(one.to_data_list(), other.to_data_list(), strict=True)
        assert all(str(part[name]) == str(wanted[name]) for part, wanted in parts)


@pytest.mark.parametrize("extractor", [None, EgoNets(1)])
def test_padded_batches_have_a_field_named_real_and_their_real_counts(extractor):
    graphs = [graph(n, real=torch.rand(n)) for n in (3, 4, 5, 3)]
    for batch in GraphLoader(graphs, 2, subgraphs=extractor, pad=True):
        form = padded_form(batch)
        padded = form.build(form.item)
        assert torch.equal(padded.real[: batch.num_nodes], batch.real)
        assert padded.real.numel() > batch.num_nodes
        assert int(real_counts_of(padded).nodes) == batch.num_nodes
        assert real_counts_of(batch) is None


def test_a_changed_field_named_subgraphs_is_padded():
    graphs = [graph(n, subgraphs=torch.rand(n)) for n in (3, 4, 5, 3)]
    batch = next(iter(GraphLoader(graphs, 2, pad=True)))
    batch.subgraphs = batch.subgraphs + 1
    form = padded_form(batch)
    padded = form.build(form.item)
    assert torch.equal(padded.subgraphs[: batch.num_nodes], batch.subgraphs)


def test_networks_ignore_padding_of_a_pyg_batch_with_a_field_named_real():
    graphs = [graph(n, real=torch.rand(n)) for n in (3, 4, 5, 3)]
    for each in graphs:
        each.x = torch.zeros(each.num_nodes, 1, dtype=torch.long)
    network = build_model("gin", Categorical((1,)), None, 2)
    batch = next(iter(GraphLoader(graphs, 2, pad=True)))
    form = padded_form(batch)
    padded = network(form.build(form.item))[: batch.num_graphs]
    torch.testing.assert_close(padded, network(batch))


MIXED = {
    "int, text": (1, "a", "f is an int in graph 0 but a str in graph 1; make them eq"),
    "int, tensor": (1, torch.ones(2), r"an int in graph 0 but a tensor of shape \[2\]"),
    "scalar, float": (torch.tensor(1.0), 2.0, r"a tensor of shape \[\] .* but a float"),
    "scalar, vector": (torch.tensor(1.0), torch.ones(1), r"shape \[\] .*shape \[1\] i"),
    "vector, scalar": (torch.ones(1), torch.tensor(1.0), r"shape \[1\] .*shape \[\] i"),
    "scalars": (torch.tensor(1.0), torch.tensor(1), r"float32 \[\] on .*int64 \[\] on"),
    "too large": (1, 10**30, "whole number that does not fit into 64 bits; give fl"),
    "sparse": (torch.eye(2), torch.eye(2).to_sparse(), "graph 1 is a sparse_coo ten"),
}
"""Two values of a field, and the message about them, by kind."""


@pytest.mark.parametrize("kind", MIXED)
def test_graph_loader_says_how_values_of_a_field_differ(kind):
    one, other, message = MIXED[kind]
    with pytest.raises(GraphError, match=message):
        GraphLoader([graph(f=one), graph(f=other)], 2)


def test_graph_loader_takes_a_float_and_a_scalar_as_pyg_does():
    graphs = [graph(f=2.0), graph(f=torch.tensor(1.0))]
    assert_same_batch(next(iter(GraphLoader(graphs, 2))), Batch.from_data_list(graphs))


REFUSED = {
    "replaced by subgraphs": (
        [graph(subgraphs=torch.rand(1))] * 2,
        r"have a field 'subgraphs', .*; rename",
    ),
    "empty, and PyG takes the maximum": (
        [graph(n, my_batch=torch.zeros(n, dtype=torch.long)) for n in (2, 0, 3)],
        r"'my_batch' of graph 1 is empty, .*; rename",
    ),
    "sparse adjacency": (
        [graph(n, adj_t=torch.eye(n).to_sparse()) for n in (3, 4)],
        r"'adj_t' of graph 0 .*leave out .* DataLoad",
    ),
    "list of edges": (
        [Data(x=torch.rand(2, 1), edge_index=[[0], [1]])],
        "edge_index of graph 0 is a list; give an int",
    ),
}
"""Graphs with a field that is refused, and the message."""


@pytest.mark.parametrize("kind", REFUSED)
def test_graph_loader_refuses_fields(kind):
    graphs, message = REFUSED[kind]
    with pytest.raises(GraphError, match=message):
        GraphLoader(graphs, 2, subgraphs=EgoNets(1))


class Bipartite(Data):
    """A graph with two kinds of nodes, as in PyG's documentation."""

    def __inc__(self, key, value, *args):
        if key == "edge_index":
            return torch.tensor([[self.x.size(0)], [self.other.size(0)]])
        return super().__inc__(key, value, *args)


class Fixed(Data):
    """A graph whose edges have space for 7 nodes."""

    def __inc__(self, key, value, *args):
        return 7 if key == "edge_index" else super().__inc__(key, value, *args)


class Usual(Data):
    """A graph with PyG's rules, in other words."""

    def __inc__(self, key, value, *args):
        return torch.tensor(self.num_nodes) if "index" in key else 0


def test_graph_loader_refuses_other_shifts_of_edges():
    edges = torch.tensor([[0, 1], [2, 0]])
    pair = Bipartite(x=torch.rand(2, 1), other=torch.rand(3, 1), edge_index=edges)
    with pytest.raises(GraphError, match=r"'edge_index' of graph 0 is \[\[2\], \[3\]"):
        GraphLoader([pair] * 2, 2)
    graphs = [Fixed(x=torch.rand(n, 1), edge_index=edges) for n in (7, 3)]
    with pytest.raises(GraphError, match=r"'edge_index' of graph 1 is 7, .*3 nodes"):
        GraphLoader(graphs, 2)
    GraphLoader(graphs[:1] * 2, 2)
    usual = [Usual(x=torch.rand(n, 1), edge_index=edges) for n in (7, 3)]
    assert_same_batch(next(iter(GraphLoader(usual, 2))), Batch.from_data_list(usual))


@pytest.mark.parametrize("read", [GraphLoader, from_pyg])
def test_a_batch_is_not_taken_for_a_graph(read):
    batch = Batch.from_data_list([graph()] * 4)
    with pytest.raises(GraphError, match=r"graph 0 is a Batch of 4 graphs; .*_data_li"):
        read([batch])
    with pytest.raises(GraphError, match=r"one Batch; .* batch\.to_data_list\(\)"):
        read(batch)
    with pytest.raises(GraphError, match="graph 1 is a Batch; give the graphs"):
        read([graph(), Batch(x=torch.ones(1, 2))])


@pytest.mark.parametrize("name", ["edge_index", "x", "pos"])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_graph_loader_refuses_fields_without_values(name, device):
    graphs = [graph(pos=torch.rand(3, 1)) for _ in range(2)]
    for each in graphs:
        each[name] = each[name].to("meta")
    message = f"^{name} of the graphs is on the meta device, so it has no values; give"
    with pytest.raises(GraphError, match=message):
        GraphLoader(graphs, 2, device=device)
    if name == "pos":
        assert len(from_pyg(graphs)) == 2  # a store has no such field
    else:
        with pytest.raises(GraphError, match=message):
            from_pyg(graphs)


def test_graph_loader_refuses_a_store_without_values():
    store = from_pyg([graph()] * 2).to("meta")
    with pytest.raises(GraphError, match="num_nodes of the graphs is on the meta devi"):
        GraphLoader(store, 2)


@pytest.mark.parametrize("marked", [[0], [1], [0, 1]])
def test_graph_loader_ignores_what_pyg_notes_of_the_parts_of_a_batch(marked):
    graphs = [Data(x=torch.rand(2, 1), num_nodes=2) for _ in range(2)]
    wanted = Batch.from_data_list(graphs)
    for number in marked:
        fields = Batch.from_data_list(graphs[number : number + 1]).to_dict()
        assert "_num_nodes" in fields
        graphs[number].update({k: fields[k] for k in ("x", "num_nodes", "_num_nodes")})
        assert "_num_nodes" in graphs[number]
    assert_same_batch(next(iter(GraphLoader(graphs, 2))), wanted)
    del graphs[1].num_nodes
    with pytest.raises(GraphError, match="graph 0 has a field 'num_nodes', but graph"):
        GraphLoader(graphs, 2)


COUNTS = {
    "float": (3.7, "3.7"),
    "whole float": (3.0, "3.0"),
    "negative": (-1, "-1"),
    "bool": (True, "True"),
    "text": ("3", "'3'"),
    "list": ([3], "a list"),
    "float tensor": (torch.tensor(3.5), "3.5"),
    "two": (torch.tensor([3, 4]), "a Tensor"),
}
"""Wrong numbers of nodes, and how the message shows them."""


@pytest.mark.parametrize("kind", COUNTS)
def test_a_number_of_nodes_that_is_no_count_is_refused(kind):
    value, shown = COUNTS[kind]
    graphs = [Data(num_nodes=count, x=torch.rand(3, 1)) for count in (3, value)]
    wanted = f"is {shown}; give a whole number of at least 0"
    with pytest.raises(GraphError, match=f"^num_nodes of graph 1 {wanted}"):
        GraphLoader(graphs, 2)
    with pytest.raises(GraphError, match=f"^graph 1: num_nodes {wanted}"):
        from_pyg(graphs)


@pytest.mark.parametrize("count", [np.int32(3), torch.tensor(3), torch.tensor([3])])
def test_a_number_of_nodes_of_numpy_or_a_tensor_is_taken(count):
    graphs = [Data(num_nodes=count)] * 2
    assert next(iter(GraphLoader(graphs, 2))).num_nodes == 6
    assert from_pyg(graphs).num_nodes.tolist() == [3, 3]
