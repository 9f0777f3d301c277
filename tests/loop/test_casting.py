"""Weights of Linears that are cast together, as autocast casts them one by one."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.nn import Linear

from gnnak import EgoNets, GraphLoader, uplift
from gnnak.loop.calling import CastTogether
from tests.loop.models import Gine, molecules


def gradients(model, call):
    """Return the output of `call(model)`, and the gradients of all weights."""
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        out = call(model)
    out.float().sum().backward()
    return out, [weight.grad for weight in model.parameters()]


def assert_same(model, call):
    other = deepcopy(model)

    def together(model):
        with CastTogether(model):
            return call(model)

    found, wanted = gradients(model, together), gradients(other, call)
    assert found[0].dtype == wanted[0].dtype
    assert torch.equal(found[0], wanted[0])
    for one, two in zip(found[1], wanted[1], strict=True):
        assert (one is None) == (two is None)
        assert one is None or (one.dtype == two.dtype and torch.equal(one, two))


def test_values_and_gradients_are_those_of_autocast():
    mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3, bias=False))
    x = torch.rand(5, 4)
    assert_same(mlp, lambda model: model(x))


def test_an_uplifted_model_has_the_values_of_autocast():
    (batch,) = GraphLoader(molecules(6), 6, subgraphs=EgoNets(1))
    model = uplift(Gine().float(), num_hops=1).train()
    fields = (batch.x.float(), batch.edge_index, batch.edge_attr.float(), batch.batch)
    assert_same(model, lambda model: model(*fields))


def test_frozen_weights_and_linears_of_pyg():
    mlp = nn.Sequential(Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    mlp[0].requires_grad_(False)
    x = torch.rand(5, 4)
    assert_same(mlp, lambda model: model(x))
    with torch.autocast("cpu", torch.bfloat16), CastTogether(mlp):
        assert not mlp[0](x).requires_grad
    mlp[0].requires_grad_(True)
    assert_same(mlp, lambda model: model(x))


def test_a_weight_that_the_forward_pass_changes():
    class Clamped(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            with torch.no_grad():
                self.linear.weight.clamp_(-0.1, 0.1)
            return self.linear(x)

    x = torch.rand(5, 4)
    assert_same(Clamped(), lambda model: model(x))


@pytest.mark.parametrize("inner", [None, torch.float16])
def test_autocast_that_the_model_changes(inner):
    linear, x = nn.Linear(4, 4), torch.rand(5, 4)

    def call(model):
        with torch.autocast("cpu", inner or torch.bfloat16, enabled=inner is not None):
            return model(x)

    assert_same(linear, call)


def test_gradients_of_weights_can_be_differentiated_again():
    linear, x = nn.Linear(4, 4), torch.rand(5, 4)
    with torch.autocast("cpu", torch.bfloat16), CastTogether(linear):
        loss = linear(x).float().square().sum()
    (grad,) = torch.autograd.grad(loss, linear.weight, create_graph=True)
    grad.sum().backward()
    assert linear.weight.grad is not None


def test_a_weight_that_is_used_twice_or_not_at_all():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return self.used(self.used(x))

    x = torch.rand(5, 4)
    assert_same(Twice(), lambda model: model(x))


def test_other_functions_get_the_weights_in_full_precision():
    linear = nn.Linear(3, 3)
    seen = []
    with torch.autocast("cpu", torch.bfloat16), CastTogether(linear):
        seen = [linear.weight.exp().dtype, linear(torch.rand(2, 3)).dtype]
        tied = F.linear(input=torch.rand(2, 3), weight=linear.weight)
    assert seen == [torch.float32, torch.bfloat16]
    assert tied.dtype == torch.bfloat16


def test_without_autocast_nothing_is_cast():
    linear = nn.Linear(3, 3)
    with CastTogether(linear):
        assert linear(torch.rand(2, 3)).dtype == torch.float32
