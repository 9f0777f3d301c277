"""A wrong argument of an uplifted model is named in one sentence."""

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from gnnak import GNNAK, EgoNets, uplift
from gnnak.errors import (
    EdgeAttrError,
    GnnakError,
    GraphError,
    OptionError,
    SubgraphError,
    WidthError,
)

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
X, EDGES, WEIGHTS = torch.rand(3, 5), torch.rand(4, 3), torch.rand(4)
MODELS = {
    "gin": uplift(pyg.GIN(5, 5, 2)),
    "gat": uplift(pyg.GATConv(5, 5, edge_dim=3)),
    "gine": uplift(pyg.GINEConv(nn.Linear(5, 5))),
    "gcn": uplift(pyg.GCNConv(5, 5)),
    "double": uplift(pyg.GCNConv(5, 5).double(), hop_channels=0),
    "one gin": uplift(pyg.GINConv(nn.Linear(5, 5))),
    "rgcn": uplift(pyg.RGCNConv(5, 5, num_relations=2)),
}

# name: (model, arguments, type of the error, part of the message)
WRONG = {
    "wider x": ("gin", (X.double(), PATH), WidthError, "x is torch.float64, but"),
    "x elsewhere": ("gin", (X.to("meta"), PATH), GraphError, "x is on meta, but edge"),
    "edges elsewhere": ("gin", (X, PATH.to("meta")), GraphError, "move both to one"),
    "x of one number": ("gin", (torch.ones(()), PATH), WidthError, r"x has shape \[\]"),
    "sparse x": ("gin", (X.to_sparse(), PATH), GraphError, "a torch.sparse_coo tensor"),
    "double edges": (
        "gat",
        (X, PATH, EDGES.double()),
        EdgeAttrError,
        r"edge_attr is torch.float64, but the weights of GATConv are torch.float32",
    ),
    "complex edges": ("gat", (X, PATH, EDGES + 1j), EdgeAttrError, "torch.complex64"),
    "edge_attr elsewhere": (
        "gat",
        (X, PATH, EDGES.to("meta")),
        EdgeAttrError,
        "edge_attr is on meta, but x is on cpu",
    ),
    "sparse edges": ("gat", (X, PATH, EDGES.to_sparse()), EdgeAttrError, "to_dense"),
    "narrow edges": (
        "gat",
        (X, PATH, EDGES[:, :2]),
        EdgeAttrError,
        r"shape \[4, 2\], but GATConv was built with edge_dim=3; give .* \[e, 3\]",
    ),
    "one number an edge": ("gat", (X, PATH, WEIGHTS), EdgeAttrError, r"\[e, 3\], or"),
    "double weights": ("gcn", (X, PATH, WEIGHTS.double()), EdgeAttrError, "float64"),
    "wide weights": (
        "gcn",
        (X, PATH, EDGES),
        EdgeAttrError,
        r"GCNConv reads one weight per edge, but .* have shape \[4, 3\]; pass weights",
    ),
    "whole weights": (
        "gcn",
        (X, PATH, PATH[0]),
        EdgeAttrError,
        r"GCNConv failed on edge_weight of shape \[4\] and dtype torch.int64, but runs "
        r"on real numbers \[e\]; give",
    ),
    "attributes as size": (
        "one gin",
        (X, PATH, EDGES),
        OptionError,
        r"GINConv got a tensor of shape \[4, 3\] as its argument size; if these are",
    ),
    "no types": ("rgcn", (X, PATH), GraphError, "RGCNConv needs edge_type, but got no"),
    "dense matrix": ("gcn", (X, torch.eye(3)), GraphError, "dense_to_sparse, which"),
    "small matrix": (
        "gcn",
        (X, torch.eye(2).to_sparse()),
        GraphError,
        "of the edges has 2 rows and 2 columns, but x has 3 nodes; give one row and",
    ),
}


# name: (model, arguments); PyTorch or PyG say what is wrong
LEFT_TO_PYTORCH = {
    "narrower x": ("double", (X, PATH)),
    "half edges": ("gat", (X, PATH, EDGES.half())),
    "wide edges": ("gine", (X, PATH, torch.rand(4, 7))),
    "types of floats": ("rgcn", (X, PATH, WEIGHTS)),
    "too many types": ("rgcn", (X, PATH, torch.tensor([0, 1, 7, 0]))),
}


@pytest.mark.parametrize("name", WRONG)
def test_uplifted_model_names_a_wrong_argument(name):
    model, arguments, kind, message = WRONG[name]
    with pytest.raises(kind, match=message) as caught:
        MODELS[model](*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", LEFT_TO_PYTORCH)
def test_uplifted_model_leaves_errors_inside_the_base_gnn_alone(name):
    model, arguments = LEFT_TO_PYTORCH[name]
    with pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
        MODELS[model](*arguments)
    assert not isinstance(caught.value, GnnakError)


class OwnConv(pyg.MessagePassing):
    """A user's conv, which does not declare the width of its edge attributes."""

    def __init__(self, edge_encoder):
        super().__init__()
        self.lin, self.edge_encoder = nn.Linear(5, 5), edge_encoder

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(
            edge_index, x=self.lin(x), edge_attr=self.edge_encoder(edge_attr)
        )

    def message(self, x_j, edge_attr):
        return x_j + edge_attr


@pytest.mark.parametrize(
    "edges", [torch.rand(4, 2), torch.ones(4, 3).long(), WEIGHTS, torch.ones(4).long()]
)
@pytest.mark.parametrize("called_before", [True, False])
def test_edge_attributes_on_which_an_own_conv_fails_are_named(edges, called_before):
    net = uplift(OwnConv(nn.Linear(3, 5)), 1)
    if called_before:
        net(X, PATH, EDGES)
    shape, dtype = str(list(edges.shape)), edges.dtype
    wanted = f"OwnConv failed on edge_attr of shape {shape} and dtype {dtype}, but runs"
    with pytest.raises(EdgeAttrError) as caught:
        net(X, PATH, edges)
    assert str(caught.value).startswith(f"{wanted} on real numbers [e, 3]; give")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_real_edge_attributes_of_an_own_conv_with_embeddings_are_named():
    net = uplift(OwnConv(nn.Embedding(4, 5)), 1)
    with pytest.raises(EdgeAttrError, match=r"but runs on torch.int64 \[e\]; give"):
        net(X, PATH, WEIGHTS)


def test_layer_names_subgraphs_and_weights_on_another_device():
    subgraphs, layer = EgoNets(1)(PATH, 3), GNNAK(pyg.GCNConv(5, 5), 5, 5, hop="add")
    with pytest.raises(SubgraphError, match="the subgraphs are on meta, but x is on c"):
        layer(X, subgraphs.to("meta"))
    with pytest.raises(WidthError, match="x is on cpu, but the weights of GCNConv are"):
        layer.to("meta")(X, subgraphs)


def test_layer_leaves_errors_of_the_base_gnn_alone():
    class Failing(pyg.GCNConv):
        def forward(self, x, edge_index, edge_weight=None):
            if x.size(0) > 3:
                raise RuntimeError("this conv broke")
            return super().forward(x, edge_index, edge_weight)

    net = uplift(Failing(5, 5))
    for weights in (None, WEIGHTS):
        with pytest.raises(RuntimeError, match=r"^this conv broke$") as caught:
            net(X, PATH, weights)
        assert not isinstance(caught.value, GnnakError)


def test_layer_still_takes_dtypes_that_pytorch_promotes():
    assert MODELS["gin"](X.half(), PATH).dtype == torch.float
    assert uplift(pyg.GCN(5, 5, 2).double())(X, PATH).dtype == torch.double


@pytest.mark.parametrize("dtype", [torch.double, torch.half, torch.bfloat16])
@pytest.mark.parametrize("make", [pyg.GIN, pyg.GCN, pyg.GAT], ids=lambda m: m.__name__)
def test_uplift_takes_the_dtype_of_the_model(make, dtype):
    torch.manual_seed(0)
    model = make(5, 5, 2)
    torch.manual_seed(1)
    later = uplift(model).to(dtype)
    torch.manual_seed(1)
    net = uplift(model.to(dtype))
    assert {p.dtype for p in net.parameters()} == {dtype}
    torch.testing.assert_close(net.state_dict(), later.state_dict(), rtol=0, atol=0)
    out = net(X.to(dtype), PATH)
    assert out.dtype == dtype
    out.sum().backward()


class Mean(pyg.MessagePassing):
    """A conv without weights."""

    def __init__(self, channels: int):
        super().__init__(aggr="mean")
        self.in_channels = self.out_channels = channels

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)


def test_uplift_of_a_conv_without_weights_takes_the_dtype_of_the_model():
    layers = [(nn.Linear(5, 5), "x -> x"), (Mean(5), "x, edge_index -> x")]
    net = uplift(pyg.Sequential("x, edge_index", layers).double())
    assert {p.dtype for p in net.parameters()} == {torch.double}
    assert net(X.double(), PATH).dtype == torch.double


def test_uplift_takes_the_device_of_the_model():
    net = uplift(pyg.GIN(5, 5, 2).to("meta"))
    assert all(weight.is_meta for weight in net.state_dict().values())


class Forgetful(pyg.MessagePassing):
    """A conv whose `forward` does not pass `edge_attr` to `propagate`."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(5, 5)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j, edge_attr):
        return x_j + edge_attr


def test_edge_attr_that_forward_does_not_pass_on_is_advised():
    told = "check that forward passes edge_attr to propagate, if message needs it"
    with pytest.raises(WidthError, match=told):
        uplift(Forgetful())(X, PATH, torch.rand(4, 5))
