"""What follows from weights, computed for all layers at once: the same for each."""

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gnnak.fast.layers import weights
from gnnak.fast.layers.parts import blocks_of
from gnnak.fast.layers.weights import batched_weight_products, weight_products
from tests.fast.layers.fused_layers import LAYERS, make_layer


def by_hand(layer):
    """The same from the layer's modules, one after the other."""
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


def named(found):
    """The tensors of what was found, by name."""
    weight = bias = None
    if found.centroid is not None:
        weight, bias = found.centroid[:, :-4], found.centroid[:, -4]
    tensors = {"matrix": found.matrix, "offset": found.offset, **found.gates}
    tensors |= {"weight": weight, "bias": bias}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def gradients(layers, found):
    """Of a weighted sum of all that was found for these layers."""
    total = 0
    for tensors in found:
        for tensor in tensors.values():
            factor = torch.linspace(-1, 2, tensor.numel()).double().view_as(tensor)
            total = total + (tensor * factor).sum()
    total.backward()
    return [[p.grad for p in layer.parameters()] for layer in layers]


@pytest.mark.parametrize("name", LAYERS)
def test_weights_of_layers_together_are_those_by_hand(name):
    torch.manual_seed(0)
    layers = [make_layer(**LAYERS[name]) for _ in range(3)]
    others = copy.deepcopy(layers)
    with batched_weight_products(layers):
        ours = [named(weight_products(layer)) for layer in reversed(layers)][::-1]
    theirs = [by_hand(layer) for layer in others]
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    pairs = zip(gradients(layers, ours), gradients(others, theirs), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_only_layers_that_are_alike_are_computed_together(monkeypatch):
    layers = [make_layer(), make_layer(out=8), make_layer()]
    alone, compute, asked = make_layer(), weights._compute, []

    def noted(some):
        asked.append(some)
        return compute(some)

    monkeypatch.setattr(weights, "_compute", noted)
    with batched_weight_products(layers):
        for layer in (*layers, *layers, alone):
            weight_products(layer)
    assert asked == [[layers[0], layers[2]], [layers[1]], [alone]]
    weight_products(layers[0])
    assert asked[-1] == [layers[0]]


def test_weights_have_gradients_where_they_are_asked_for():
    layers = [make_layer(), make_layer()]
    with batched_weight_products(layers):
        with torch.no_grad():
            assert not weight_products(layers[0]).matrix.requires_grad
        assert weight_products(layers[1]).matrix.requires_grad
        assert weight_products(layers[0]).matrix.requires_grad


def test_a_layer_in_a_checkpoint_is_computed_alone():
    layers = [make_layer(), make_layer()]

    def work():
        found = weight_products(layers[0])
        return found.matrix.square().sum()

    with batched_weight_products(layers):
        weight_products(layers[1])
        out = checkpoint(work, use_reentrant=False)
    out.backward()
    (gradient,) = torch.autograd.grad(work(), [layers[0].project.weight])
    torch.testing.assert_close(layers[0].project.weight.grad, gradient)


def test_weights_together_of_two_threads_do_not_meet():
    layers, met = [make_layer(), make_layer()], Barrier(2)

    def entered_and_left(number):
        with batched_weight_products([layers[number]]):
            met.wait(10)
            found = weight_products(layers[number])
            met.wait(10)
        met.wait(10)
        return found.matrix

    with ThreadPoolExecutor(2) as pool:
        first = list(pool.map(entered_and_left, range(2)))
    with torch.no_grad():
        layers[0].project.weight.mul_(2)
    assert not torch.equal(weight_products(layers[0]).matrix, first[0])
