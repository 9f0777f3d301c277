"""What the fused path keeps, makes again and lets go, on plain kernels."""

import gc
import weakref
from collections import Counter

import pytest
import torch

from gnnak import LayerOptions
from gnnak.fast.kernels import plain as plain_kernels
from gnnak.fast.layers.lift import lift
from gnnak.fast.layers.norm import norm_relu_linears
from gnnak.fast.layers.rows import Rows, can_overwrite
from gnnak.nn.norm import BatchNorm
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.layers.fused_layers import (
    LAYERS,
    hops_of,
    inputs,
    make_layer,
    random_graph,
)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("gin-ak+", 2), ("gin-ak", 2), ("two convs", 5), ("two products", 2)],
)
def test_fused_layer_keeps_few_tensors_with_a_row_for_every_copy(fuses, name, wanted):
    options, (edge_index, nodes) = LAYERS[name], random_graph()
    layer = make_layer(**options).train()
    x, subgraphs, edge_attr = inputs(edge_index, nodes, **hops_of(options))
    kept = set()

    def note(tensor):
        if tensor.is_floating_point() and len(tensor) == subgraphs.num_copies:
            kept.add(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = layer(x.requires_grad_(), subgraphs, edge_attr)
    gc.collect()
    for tensor in [each for each in gc.get_objects() if type(each) is torch.Tensor]:
        if tensor.dim() == 2:
            note(tensor)
    assert len(kept) == wanted
    out.sum().backward()


def test_fused_layer_says_that_what_it_makes_rows_of_was_changed(fuses):
    edge_index, nodes = random_graph()
    layer = make_layer().train()
    out = layer(*inputs(edge_index, nodes))
    with torch.no_grad():
        layer.hop_table.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_gradients_are_not_written_over_copies_that_others_read():
    edge_index, nodes = random_graph()
    x, subgraphs, _ = inputs(edge_index, nodes)
    lifted = lift(x, None, subgraphs.hop, subgraphs)
    assert not can_overwrite(lifted.again)
    assert not can_overwrite(None)


@pytest.mark.parametrize("name", ["gin-ak+", "two products", "two convs"])
def test_fused_layer_gives_its_gradients_twice(fuses, name):
    layer, (edge_index, nodes) = make_layer(**LAYERS[name]), random_graph()
    x, subgraphs, edge_attr = inputs(edge_index, nodes)
    out, found = layer(x, subgraphs, edge_attr).square().sum(), []
    for _ in range(2):
        layer.zero_grad()
        out.backward(retain_graph=True)
        found.append({name: p.grad.clone() for name, p in layer.named_parameters()})
    assert_same(*found)


def test_products_are_made_once_more_for_all_products_of_them(fuses, monkeypatch):
    made = []
    for name in ("norm_linear", "norm_act"):
        kernel = getattr(plain_kernels, name)

        def noted(*given, kernel=kernel, name=name):
            adds = name == "norm_act" and given[-1] is not None
            made.append((name, adds))
            return kernel(*given)

        monkeypatch.setattr(plain_kernels, name, noted)
    layer = make_layer(options=LayerOptions(mlp_layers=2, gate_centroid=True))
    x, subgraphs, edge_attr = inputs(*random_graph(12, 30))
    out = layer(x, subgraphs, edge_attr)
    before = Counter(made)
    out.sum().backward()
    again = Counter(made) - before
    # States once for products, which are held, and once for gradients.
    assert again["norm_act", True] == 2
    # Those of both transforms once more; of the conv's, one reads states made anew.
    assert again["norm_linear", False] == 2


@pytest.mark.parametrize("blocks", [1, 2])
def test_states_that_are_made_once_more_are_then_let_go(fuses, blocks, monkeypatch):
    seen, norm_act = [], plain_kernels.norm_act

    def noted(h, k, relu, residual):
        made = norm_act(h, k, relu, residual)
        if residual is not None:
            # Beside products that are held for long, none are.
            assert blocks == 1 or not any(one() is not None for one in seen)
            seen.append(weakref.ref(made))
        return made

    layer = make_layer(options=LayerOptions(mlp_layers=blocks, gate_centroid=True))
    out = layer(*inputs(*random_graph(12, 30)))
    monkeypatch.setattr(plain_kernels, "norm_act", noted)
    out.sum().backward()
    assert len(seen) == blocks
    assert all(one() is None for one in seen)


def test_gradients_are_written_over_products_that_are_made_again():
    norms, linears = [BatchNorm(3)], [torch.nn.Linear(3, 2)]
    kept, again = (
        norm_relu_linears(norms, Rows(torch.randn(5, 3)), linears, True, remade)[0]
        for remade in (False, True)
    )
    assert not can_overwrite(kept.again)
    assert can_overwrite(again.again)
    assert torch.equal(again.again.make(*again.again.tensors), again.values)


def test_copies_are_lifted_once_more_for_all_gradients_and_then_let_go(
    fuses, monkeypatch
):
    seen, lift_plainly = [], plain_kernels.lift

    def noted(*given):
        lifted = lift_plainly(*given)
        seen.append(weakref.ref(lifted))
        return lifted

    monkeypatch.setattr(plain_kernels, "lift", noted)
    layer = make_layer(options=LayerOptions(mlp_layers=2, gate_centroid=True))
    x, subgraphs, edge_attr = inputs(*random_graph(12, 30))
    for wanted in (True, False):
        seen.clear()
        layer.hop_table.requires_grad_(wanted)
        out = layer(x.requires_grad_(wanted), subgraphs, edge_attr)
        out.sum().backward()
        assert (len(seen) == 2) == wanted
        assert all(one() is None for one in seen)
