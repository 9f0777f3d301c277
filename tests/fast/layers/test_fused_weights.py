"""Batched weight-only terms of several layers: equal to those of each layer."""

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gnnak.fast.layers import weights
from gnnak.fast.layers.parts import blocks_of
from gnnak.fast.layers.weights import call_of, weight_products
from tests.fast.layers.fused_layers import LAYERS, make_layer


def from_modules(layer):
    """Compute the weight-only terms of a layer with its modules, one by one."""
    parts = [blocks_of(part)[0].linear.weight for part in layer.transforms.values()]
    matrix, project = torch.cat(parts), layer.project
    gates = {name: gate(layer.hop_table.weight) for name, gate in layer.gates.items()}
    if not isinstance(project, nn.Linear):
        return {"matrix": matrix, **gates}
    row = gates.pop("centroid")[0] if "centroid" in gates else torch.ones(()).double()
    return {
        "matrix": matrix @ project.weight,
        "offset": matrix @ project.bias,
        "weight": project.weight * row.view(-1, 1),
        "bias": project.bias * row,
        **gates,
    }


def by_name(products):
    """Return the tensors of `WeightProducts`, named as by `from_modules`."""
    weight = bias = None
    if products.centroid is not None:
        weight, bias = products.centroid[:, :-4], products.centroid[:, -4]
    tensors = {"matrix": products.matrix, "offset": products.offset, **products.gates}
    tensors |= {"weight": weight, "bias": bias}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def gradients(layers, terms):
    """Return the gradients of all parameters for a weighted sum of all terms."""
    total = 0
    for tensors in terms:
        for tensor in tensors.values():
            factor = torch.linspace(-1, 2, tensor.numel()).double().view_as(tensor)
            total = total + (tensor * factor).sum()
    total.backward()
    return [[p.grad for p in layer.parameters()] for layer in layers]


@pytest.mark.parametrize("name", LAYERS)
def test_batched_products_match_those_of_the_modules(name):
    torch.manual_seed(0)
    layers = [make_layer(**LAYERS[name]) for _ in range(3)]
    others = copy.deepcopy(layers)
    with call_of(nn.ModuleList(layers)):
        # In reverse: the order of the calls need not be that of the layers.
        ours = [by_name(weight_products(layer)) for layer in reversed(layers)][::-1]
    theirs = [from_modules(layer) for layer in others]
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    found, wanted = gradients(layers, ours), gradients(others, theirs)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def test_products_are_batched_over_layers_of_equal_shapes(monkeypatch):
    layers = [make_layer(), make_layer(out=8), make_layer()]
    other, compute, batches = make_layer(), weights._compute, []

    def recorded(batch):
        batches.append(batch)
        return compute(batch)

    monkeypatch.setattr(weights, "_compute", recorded)
    with call_of(nn.ModuleList(layers)):
        for layer in (*layers, *layers, other):
            weight_products(layer)
    assert batches == [[layers[0], layers[2]], [layers[1]], [other]]
    weight_products(layers[0])
    assert batches[-1] == [layers[0]]


def test_products_require_gradients_only_where_gradients_are_enabled():
    layers = [make_layer(), make_layer()]
    with call_of(nn.ModuleList(layers)):
        with torch.no_grad():
            assert not weight_products(layers[0]).matrix.requires_grad
        assert weight_products(layers[1]).matrix.requires_grad
        assert weight_products(layers[0]).matrix.requires_grad


def test_products_in_a_checkpoint_have_the_right_gradient():
    layers = [make_layer(), make_layer()]

    def work():
        return weight_products(layers[0]).matrix.square().sum()

    with call_of(nn.ModuleList(layers)):
        weight_products(layers[1])
        out = checkpoint(work, use_reentrant=False)
    out.backward()
    (gradient,) = torch.autograd.grad(work(), [layers[0].project.weight])
    torch.testing.assert_close(layers[0].project.weight.grad, gradient)


def test_threads_do_not_share_cached_products():
    layers, barrier = [make_layer(), make_layer()], Barrier(2)

    def compute(index):
        with call_of(layers[index]):
            barrier.wait(10)
            products = weight_products(layers[index])
            barrier.wait(10)
        barrier.wait(10)
        return products.matrix

    with ThreadPoolExecutor(2) as pool:
        first = list(pool.map(compute, range(2)))
    with torch.no_grad():
        layers[0].project.weight.mul_(2)
    assert not torch.equal(weight_products(layers[0]).matrix, first[0])
