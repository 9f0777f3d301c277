import math

import pytest
import torch

from gnnak.errors import EdgeAttrError, OptionError
from gnnak.nn import PNAStarConv
from gnnak.nn.base.pna import _extreme
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)

GRAPHS = small_graphs(channels=4, edge_channels=3)
PLAIN = [name for name in GRAPHS if name != "empty"]


def make_conv(edge_channels=3, max_degree=63):
    torch.manual_seed(0)
    return PNAStarConv(4, edge_channels, max_degree).double()


def node_by_node(conv, data, edge_attr):
    """The equations of the docstring, one node at a time (in evaluation mode)."""
    rows = []
    for i in range(data.x.size(0)):
        messages = []
        for number, (source, target) in enumerate(data.edge_index.t().tolist()):
            if target == i:
                ends = [data.x[i], data.x[source]]
                ends += [] if edge_attr is None else [edge_attr[number]]
                messages.append(conv.message(torch.cat(ends)[None])[0])
        blocks = [data.x[i]]
        if messages:
            m = torch.stack(messages)
            mean = m.mean(dim=0)
            variance = (m**2).mean(dim=0) - mean**2
            blocks += [mean, m.min(dim=0).values, m.max(dim=0).values]
            blocks += [(variance.clamp(min=0) + 1e-5).sqrt()]
        else:
            zero = torch.zeros(4, dtype=torch.double)
            blocks += [zero, zero, zero, zero + math.sqrt(1e-5)]
        degree = min(len(messages), conv.degree.num_embeddings - 1)
        blocks += [conv.degree.weight[degree]]
        rows.append(conv.update(torch.cat(blocks)[None])[0])
    return torch.stack(rows) if rows else torch.zeros(0, 4, dtype=torch.double)


@pytest.mark.parametrize("with_edges", [True, False], ids=["edges", "no edges"])
@pytest.mark.parametrize("name", GRAPHS)
def test_pna_star_equals_its_equations_node_by_node(name, with_edges):
    data = GRAPHS[name]
    edge_attr = data.edge_attr if with_edges else None
    conv = make_conv(edge_channels=3 if with_edges else 0).eval()
    got = conv(data.x, data.edge_index, edge_attr)
    wanted = node_by_node(conv, data, edge_attr)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


def test_pna_star_with_a_degree_beyond_its_table_takes_the_last_row():
    """The published code has degree tables of 200 rows, and crashes beyond."""
    data = GRAPHS["star"]
    conv = make_conv(max_degree=2).eval()
    got = conv(data.x, data.edge_index, data.edge_attr)
    wanted = node_by_node(conv, data, data.edge_attr)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", PLAIN)
def test_pna_star_gives_every_parameter_a_gradient(name):
    data = GRAPHS[name]
    conv = make_conv()
    conv(data.x, data.edge_index, data.edge_attr).square().sum().backward()
    assert all(p.grad is not None for p in conv.parameters())
    assert all(p.grad.isfinite().all() for p in conv.parameters())


def test_pna_star_has_the_gradient_of_its_equations():
    data = GRAPHS["two components"]
    conv = make_conv().eval()

    def function(x):
        return conv(x, data.edge_index, data.edge_attr)

    assert torch.autograd.gradcheck(function, data.x.clone().requires_grad_())


@pytest.mark.parametrize("name", GRAPHS)
def test_pna_star_is_permutation_equivariant(name):
    conv = make_conv().eval()
    assert_permutation_equivariant(
        lambda d: conv(d.x, d.edge_index, d.edge_attr), GRAPHS[name]
    )


def test_pna_star_is_batching_consistent():
    conv = make_conv().eval()
    assert_batching_consistent(
        lambda d: conv(d.x, d.edge_index, d.edge_attr), list(GRAPHS.values())
    )


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed:UserWarning")
def test_pna_star_runs_in_bfloat16_autocast():
    data = small_graphs(channels=4, edge_channels=3, dtype=torch.float)["star"]
    conv = make_conv().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = conv(data.x, data.edge_index, data.edge_attr)
    out.float().sum().backward()
    assert out.isfinite().all()


@pytest.mark.parametrize(
    ("edge_channels", "given", "wanted"),
    [
        (3, None, r"edge_attr is None, .* edge_channels=3; give \[e, 3\]"),
        (3, torch.zeros(10, 2), r"of shape \[10, 2\], .* give \[e, 3\]"),
        (3, torch.zeros(10), r"of shape \[10\], .* give \[e, 3\]"),
        (0, torch.zeros(10, 3), r"of shape \[10, 3\], .* give None"),
        (0, torch.zeros(10, 0), r"of shape \[10, 0\], .* give None"),
    ],
)
def test_pna_star_refuses_wrong_edge_attributes_in_a_sentence(
    edge_channels, given, wanted
):
    data = GRAPHS["star"]
    conv = make_conv(edge_channels)
    with pytest.raises(EdgeAttrError, match=wanted):
        conv(data.x, data.edge_index, given)


@pytest.mark.parametrize("sizes", [(0,), (4, -1), (4, 0, -1)])
def test_pna_star_refuses_impossible_sizes(sizes):
    with pytest.raises(OptionError, match="give a whole number"):
        PNAStarConv(*sizes)


@pytest.mark.parametrize("which", ["amin", "amax"])
def test_gradient_of_an_extreme_of_zero_is_shared_among_its_rows(which):
    values = torch.zeros(2, 1, requires_grad=True)
    found = _extreme(values, torch.tensor([1, 1]), 3, which)
    assert found.tolist() == [[0], [0], [0]]
    found[1].sum().backward()
    assert values.grad.tolist() == [[0.5], [0.5]]
