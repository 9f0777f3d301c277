"""Memory of fused layers: tensors saved for backward, recomputed there, and freed.

Recomputation must be rare and its results short-lived, which values cannot show: some
tests replace a plain kernel in order to record its results.
"""

import gc
import weakref

import pytest
import torch

from gnnak import LayerOptions
from gnnak.fast.kernels import plain as plain_kernels
from gnnak.fast.layers.norm import Pool, gate_pools, norm_relu_linears
from gnnak.fast.layers.parts import Rows, can_overwrite, lift
from gnnak.nn.norm import BatchNorm
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.layers.fused_layers import (
    CHANNELS,
    LAYERS,
    PAIR_LAYERS,
    hops_of,
    inputs,
    make_layer,
    random_graph,
)


def record_results(monkeypatch, name, wanted=lambda *arguments: True):
    """Return weak references to the results of a plain kernel in `wanted` calls."""
    kernel, results = getattr(plain_kernels, name), []

    def recorded(*arguments):
        result = kernel(*arguments)
        if wanted(*arguments):
            tensor = result[0] if isinstance(result, tuple) else result
            results.append(weakref.ref(tensor))
        return result

    monkeypatch.setattr(plain_kernels, name, recorded)
    return results


def has_residual(h, k, relu, residual):
    return residual is not None


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("gin-ak+", 2),
        ("gin-ak", 2),
        ("two convs", 5),
        ("two blocks", 2),
        ("rrwp", 3),
        ("pairs, two blocks", 3),
    ],
)
def test_fused_layer_saves_few_tensors_of_node_copies(fused_operations, name, wanted):
    """Further encodings of pairs need one matrix, which all layers share."""
    options, (edge_index, nodes) = (LAYERS | PAIR_LAYERS)[name], random_graph()
    layer = make_layer(**options).train()
    x, subgraphs, edge_attr = inputs(edge_index, nodes, **hops_of(options))
    saved = set()
    known = {
        found.rows.untyped_storage().data_ptr()
        for found in subgraphs.derived.encodings.values()
    }

    def note(tensor):
        if tensor.is_floating_point() and len(tensor) == subgraphs.num_copies:
            saved.add(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = layer(x.requires_grad_(), subgraphs, edge_attr)
    # Attributes of autograd contexts can hold tensors, too: look at all that exist.
    gc.collect()
    for tensor in [each for each in gc.get_objects() if type(each) is torch.Tensor]:
        if tensor.dim() == 2:
            note(tensor)
    assert len(saved - known) == wanted
    out.sum().backward()


def test_changing_a_weight_before_the_backward_pass_raises(fused_operations):
    edge_index, nodes = random_graph()
    layer = make_layer().train()
    out = layer(*inputs(edge_index, nodes))
    with torch.no_grad():
        layer.hop_table.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_gradients_do_not_overwrite_lifted_copies_that_others_read():
    """Two poolings read the same copies, which the backward pass recomputes once."""
    x, subgraphs, _ = inputs(*random_graph())
    key, gradients = subgraphs.subgraph, []
    norms = [BatchNorm(CHANNELS).double() for _ in range(2)]
    for fused in (True, False):
        nodes, total = x.clone().requires_grad_(), 0
        lifted = lift(nodes, None, subgraphs.hop, subgraphs)
        for norm in norms:
            if fused:
                pool = Pool(norm, subgraphs.by("subgraph"), key)
                (pooled,) = gate_pools(lifted, [None], subgraphs.hop, [pool])
            else:
                states = torch.relu(norm(nodes[subgraphs.node]))
                pooled = torch.zeros_like(x).index_add(0, key, states)
            total = total + pooled.square().sum()
        total.backward()
        gradients.append(nodes.grad)
    assert_same(*gradients)


@pytest.mark.parametrize("name", ["gin-ak+", "two blocks", "two convs"])
def test_second_backward_pass_gives_the_same_gradients(fused_operations, name):
    layer, (edge_index, nodes) = make_layer(**LAYERS[name]), random_graph()
    x, subgraphs, edge_attr = inputs(edge_index, nodes)
    out, found = layer(x, subgraphs, edge_attr).square().sum(), []
    for _ in range(2):
        layer.zero_grad()
        out.backward(retain_graph=True)
        found.append({name: p.grad.clone() for name, p in layer.named_parameters()})
    assert_same(*found)


def test_backward_pass_recomputes_each_product_once(fused_operations, monkeypatch):
    layer = make_layer(options=LayerOptions(mlp_layers=2, gate_centroid=True))
    out = layer(*inputs(*random_graph(12, 30)))
    states = record_results(monkeypatch, "norm_act", has_residual)
    products = record_results(monkeypatch, "norm_linear")
    out.sum().backward()
    # Once for the first Linears' output, which is then cached, and once for gradients.
    assert len(states) == 2
    # The second Linear of both transforms.
    assert len(products) == 2


@pytest.mark.parametrize("blocks", [1, 2])
def test_recomputed_states_are_freed(fused_operations, blocks, monkeypatch):
    """With two blocks states are recomputed twice, but never in memory twice."""
    layer = make_layer(options=LayerOptions(mlp_layers=blocks, gate_centroid=True))
    out = layer(*inputs(*random_graph(12, 30)))

    def are_states(*arguments):
        if has_residual(*arguments) and blocks == 2:
            assert all(result() is None for result in results)
        return has_residual(*arguments)

    results = record_results(monkeypatch, "norm_act", are_states)
    out.sum().backward()
    assert len(results) == blocks
    assert all(result() is None for result in results)


def test_gradients_may_overwrite_recomputed_products_only():
    norms, linears = [BatchNorm(3)], [torch.nn.Linear(3, 2)]
    saved, recomputed = (
        norm_relu_linears(norms, Rows(torch.randn(5, 3)), linears, True, recompute)[0]
        for recompute in (False, True)
    )
    assert not can_overwrite(saved.recompute)
    assert can_overwrite(recomputed.recompute)
    function, inputs = recomputed.recompute.function, recomputed.recompute.saved
    assert torch.equal(function(*inputs), recomputed.values)


def test_backward_pass_lifts_copies_once_and_frees_them(fused_operations, monkeypatch):
    lifted = record_results(monkeypatch, "lift")
    layer = make_layer(options=LayerOptions(mlp_layers=2, gate_centroid=True))
    x, subgraphs, edge_attr = inputs(*random_graph(12, 30))
    for requires_grad in (True, False):
        lifted.clear()
        layer.hop_table.requires_grad_(requires_grad)
        out = layer(x.requires_grad_(requires_grad), subgraphs, edge_attr)
        out.sum().backward()
        # Forward and backward. Without gradients of the copies nothing would clear a
        # cache, so that every reader in the backward pass lifts them.
        assert (len(lifted) == 2) == requires_grad
        assert all(result() is None for result in lifted)
