"""Edges in every form, tuples, explainers, heterogeneous graphs."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric import EdgeIndex
from torch_geometric import nn as pyg
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.utils import to_torch_coo_tensor, to_torch_csr_tensor

from gnnak import GNNAK, EgoNets, uplift
from gnnak.errors import EdgeAttrError, GraphError, OptionError, WidthError
from gnnak.nn import Inputs

PATH = torch.tensor([[0, 1, 1, 2, 3, 2], [1, 0, 2, 1, 2, 3]])
ONE_WAY = torch.tensor([[0, 1, 1], [1, 2, 3]])
X = torch.rand(4, 5)


def sparse(make):
    """The transposed adjacency matrix, as PyG's convs read it."""
    return lambda edges: make(edges.flip(0), size=(4, 4))


FORMS = {
    "int32": lambda edges: edges.int(),
    "coo": sparse(to_torch_coo_tensor),
    "csr": sparse(to_torch_csr_tensor),
    "EdgeIndex": lambda edges: EdgeIndex(edges, sparse_size=(4, 4)),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("edges", [PATH, ONE_WAY], ids=["path", "directed"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_edges_of_every_form_give_the_same_states(form, edges):
    for model in (pyg.GCN(5, 5, 2), pyg.GraphSAGE(5, 5, 2)):
        net = uplift(model, num_hops=1).eval()
        wanted = net(X, edges)
        for _ in range(2):
            torch.testing.assert_close(net(X, form(edges)), wanted)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_converted_edges_are_extracted_once_and_not_kept(form, monkeypatch):
    calls = []
    original = EgoNets.__call__
    monkeypatch.setattr(
        EgoNets, "__call__", lambda self, *a: (calls.append(1), original(self, *a))[1]
    )
    net, edges = uplift(pyg.GraphSAGE(5, 5, 3), num_hops=1), form(PATH)
    for _ in range(2):
        net(X, edges)
    assert len(calls) == 1
    del edges
    assert getattr(net.convs[0].shared.edges._of_thread, "edge_index", None) is None


@pytest.mark.filterwarnings("ignore:Sparse")
def test_values_of_a_sparse_matrix_are_weights():
    net, weight = uplift(pyg.GCNConv(5, 5), 1).eval(), torch.tensor([0.5, 2.0, 3.0])
    matrix = torch.sparse_coo_tensor(ONE_WAY.flip(0), weight, (4, 4))
    torch.testing.assert_close(net(X, matrix), net(X, ONE_WAY, weight))
    assert not matrix.is_coalesced()


class Edges(MessagePassing):
    """Returns new node states and new edge states, as GatedGCN layers do."""

    def __init__(self):
        super().__init__(aggr="add")
        self.lin = nn.Linear(5, 5)

    def forward(self, x, edge_index, edge_attr):
        new = edge_attr + self.lin(x)[edge_index[0]]
        return self.propagate(edge_index, x=x, edge_attr=new), new

    def message(self, x_j, edge_attr):
        return x_j * edge_attr


def test_uplift_of_a_conv_that_returns_a_tuple():
    conv, edge_attr = Edges(), torch.rand(6, 5)
    states, edges = uplift(conv, 1)(X, PATH, edge_attr)
    assert states.shape == (4, 5)
    torch.testing.assert_close(edges, conv(X, PATH, edge_attr)[1])


def test_gnnak_takes_further_arguments_as_inputs():
    layer = GNNAK(pyg.RGCNConv(5 + 16, 8, 3), 5, 8).eval()
    subgraphs, types = EgoNets(1)(PATH, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    out = layer(X, subgraphs, Inputs(edge={"edge_type": types}))
    other = layer(X, subgraphs, Inputs(edge={"edge_type": types * 0}))
    assert not torch.equal(out, other)
    with pytest.raises(GraphError, match="RGCNConv needs edge_type, but got none"):
        layer(X, subgraphs)
    with pytest.raises(EdgeAttrError, match=r"has shape \[5\]; give \[6, ...\]"):
        layer(X, subgraphs, Inputs(edge={"edge_type": types[:5]}))
    with pytest.raises(GraphError, match=r"pos has shape \[3, 2\]; give \[4, ...\]"):
        layer(X, subgraphs, Inputs(node={"pos": torch.rand(3, 2)}))


def test_argument_that_could_belong_to_nodes_or_edges_is_refused():
    class What(MessagePassing):
        def forward(self, x, edge_index, what):
            return self.propagate(edge_index, x=x * what)

    square = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    net = uplift(What()).eval()
    assert net(X, PATH, torch.rand(4, 1)).shape == X.shape
    with pytest.raises(OptionError, match=r"cannot tell whether this has a row per"):
        net(X, square, torch.rand(4, 1))


CONFIG = {"mode": "regression", "task_level": "node", "return_type": "raw"}


@pytest.mark.parametrize("conv", [pyg.GCNConv, pyg.SAGEConv, pyg.GATConv])
def test_gnn_explainer_finds_the_edges_that_matter(conv):
    """The output of node 0 depends on its own component only."""
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    net = uplift(conv(5, 2), num_hops=1)
    explainer = Explainer(
        net,
        GNNExplainer(epochs=5),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=CONFIG,
    )
    found = explainer(torch.rand(5, 5), edges, index=0)
    assert found.edge_mask.shape == (6,)
    assert found.edge_mask[:2].gt(0).all()
    assert found.edge_mask[4:].eq(0).all()
    again = net(torch.rand(5, 5), edges)
    assert again.shape == (5, 2)


@pytest.mark.parametrize("conv", [pyg.GCNConv, pyg.SAGEConv])
def test_edge_mask_equals_a_weight_of_every_copy_of_the_edge(conv):
    """With masks of 0 and 1, a masked message of SAGE or GCN is not sent."""
    net = uplift(conv(5, 2, normalize=False, aggr="add"), num_hops=2).eval()
    mask = torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    conv = net.layer.gnn
    conv.explain, conv._edge_mask, conv._apply_sigmoid = True, mask, False
    conv._loop_mask = torch.ones(6, dtype=torch.bool)
    got = net(X, PATH)
    assert conv._edge_mask is mask
    conv.explain, conv._edge_mask = None, None
    whole = EgoNets(2)(PATH, 4)
    sent = mask[whole.edge].bool()
    ends = whole.edge_index[:, sent]
    masked = replace(whole, edge_index=ends, edge=whole.edge[sent])
    torch.testing.assert_close(got, net.layer(X, masked))


def test_heterogeneous_inputs_are_refused_by_that_word():
    net = uplift(pyg.SAGEConv(5, 5))
    with pytest.raises(GraphError, match="heterogeneous graphs, but rooted"):
        net({"a": X}, {("a", "to", "a"): PATH})
    with pytest.raises(GraphError, match=r"x is a tuple: SAGEConv is .*hetero.*skip=S"):
        net((X, X), PATH)
    hetero = pyg.to_hetero(pyg.GraphSAGE(5, 5, 2), (["a"], [("a", "to", "a")]))
    with pytest.raises(OptionError, match="heterogeneous"):
        uplift(hetero)


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        (torch.tensor([0, 1]), r"shape \[2\]; give \[2, e\], one column per edge"),
        (torch.tensor(1), r"shape \[\]; give \[2, e\]"),
        (torch.zeros(2, 3, dtype=torch.long, device="meta"), "device meta, which"),
    ],
)
def test_edges_without_two_rows_or_values_are_refused(edge_index, message):
    net = uplift(pyg.GIN(4, 8, 2), num_hops=1)
    with pytest.raises(GraphError, match=message):
        net(torch.rand(3, 4, device=edge_index.device), edge_index)


class Blocks(MessagePassing):
    """Edge attributes are four blocks of width 5; no attribute or weight says so."""

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_attr=edge_attr)

    def message(self, x_j, edge_attr):
        return x_j * edge_attr.unflatten(1, (4, 5)).mean(dim=1)


@torch.no_grad()
def test_an_own_conv_is_tried_with_the_edge_attributes_of_the_call():
    net, edge_attr = uplift(Blocks(), 1).eval(), torch.rand(6, 20)
    assert not torch.equal(net(X, PATH, edge_attr), net(X, PATH, 0 * edge_attr))
    with pytest.raises(WidthError, match=r"edge_dim of Blocks.*call="):
        uplift(Blocks(), 1)(X, PATH, torch.rand(6, 3))
