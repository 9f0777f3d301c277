"""Differences by padding are found, although new weights hide them."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, LayerNorm, PairNorm, global_add_pool

from gnnak import GraphLoader, TrainingStep
from tests.training.own_loop.models import assert_same_weights, mae, twins


class Mixes(nn.Module):
    """A model that mixes all nodes of a batch, behind weights of a given size."""

    def __init__(self, kind: str, size: float) -> None:
        super().__init__()
        self.conv, self.head = GINConv(nn.Linear(4, 8)), nn.Linear(8, 1)
        self.norm = {"pair": PairNorm(), "layer": LayerNorm(8)}.get(kind, nn.Identity())
        self.gate = nn.Parameter(torch.zeros(())) if kind == "gate" else None
        nn.init.zeros_(self.head.bias)
        if self.gate is None:
            nn.init.normal_(self.head.weight, std=size)

    def forward(self, x, edge_index, batch):
        h = self.norm(self.conv(x, edge_index))
        if self.gate is not None:
            h = h + self.gate * h.mean(dim=0)
        return self.head(global_add_pool(h, batch)).flatten()


def graphs(dtype=torch.double):
    draw = torch.Generator().manual_seed(0)
    return [
        Data(
            torch.rand(n, 4, generator=draw, dtype=dtype),
            torch.randint(n, (2, 2 * n), generator=draw),
            y=torch.rand(1, generator=draw, dtype=dtype),
        )
        for n in [5, 7, 9, 11] * 4
    ]


def sgd(model):
    return torch.optim.SGD(model.parameters(), 0.01)


@pytest.mark.parametrize("dtype", [torch.double, torch.float])
@pytest.mark.parametrize(
    ("kind", "size"), [("pair", 0.0), ("pair", 1e-3), ("layer", 1e-3), ("gate", 0.0)]
)
def test_padding_that_changes_values_is_found_behind_small_weights(kind, size, dtype):
    model = Mixes(kind, size).to(dtype)
    step = TrainingStep(model, mae, sgd(model))
    step(next(iter(GraphLoader(graphs(dtype), 8, pad=True))))
    assert "padding changes the output" in step.reason


def test_comparing_leaves_weights_and_random_numbers_as_they_are():
    one, other = twins(Mixes("none", 0.1))
    loader = GraphLoader(graphs(), 8, pad=True)
    versions = [weight._version for weight in one.parameters()]
    step = TrainingStep(one, mae, torch.optim.SGD(one.parameters(), 0.0))
    state = torch.get_rng_state()
    step(next(iter(loader)))
    assert step.reason is None
    assert torch.equal(torch.get_rng_state(), state)
    assert_same_weights(one, other, 0.0)
    # The step itself changes a version counter once, by the optimiser.
    assert [w._version for w in one.parameters()] == [v + 1 for v in versions]


def test_tables_among_the_outputs_keep_their_rows_for_all_shapes():
    class Codes(nn.Module):
        """Returns a table of weights beside the output."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.conv = GINConv(nn.Linear(4, 1))
            self.table = nn.Parameter(torch.ones(rows, 8))

        def forward(self, x, edge_index, batch):
            return global_add_pool(self.conv(x, edge_index), batch), self.table

    def total(outputs, batch):
        return outputs[0].sum() * 0 + outputs[1].sum()

    sizes = [4] * 16 + [12] * 16
    given = [Data(torch.rand(n, 4), torch.randint(n, (2, 2 * n))) for n in sizes]
    for rows in (64, 128, 192, 256):
        model = Codes(rows)
        step = TrainingStep(model, total, torch.optim.SGD(model.parameters(), 0.0))
        losses = [float(step(batch)) for batch in GraphLoader(given, 8, pad=True)]
        assert step.reason is None
        assert losses == [8.0 * rows] * 4


def test_a_model_that_draws_random_numbers_is_named_as_such():
    class Random(Mixes):
        """Adds noise to its output."""

        def forward(self, x, edge_index, batch):
            out = super().forward(x, edge_index, batch)
            return out + torch.randn_like(out)

    model = Random("none", 0.1).double()
    step = TrainingStep(model, mae, sgd(model))
    step(next(iter(GraphLoader(graphs(), 8, pad=True))))
    assert step.reason.startswith("two calls of the model with the same batch")
