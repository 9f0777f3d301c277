"""Differences by padding are found, although new weights hide them."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_sequence
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, GPSConv, LayerNorm, PairNorm, global_add_pool
from torch_geometric.utils import degree, to_dense_batch

from gnnak import GraphLoader
from gnnak.loop.verification import NoDropout, _is_close
from tests.loop.models import (
    Gine,
    assert_same_weights,
    molecules,
    ring_graphs,
    sgd_step,
    stepped,
    twins,
)


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


def first_batch(dtype=torch.double):
    return next(iter(GraphLoader(graphs(dtype), 8, pad=True)))


@pytest.mark.parametrize("dtype", [torch.double, torch.float])
@pytest.mark.parametrize(
    ("kind", "size"), [("pair", 0.0), ("pair", 1e-3), ("layer", 1e-3), ("gate", 0.0)]
)
def test_padding_that_changes_values_is_found_behind_small_weights(kind, size, dtype):
    model = Mixes(kind, size).to(dtype)
    step = stepped(model, [first_batch(dtype)])
    assert "padding changes the output" in step.reason


class GraphMean(Mixes):
    def forward(self, x, edge_index, batch):
        h = global_add_pool(self.conv(x, edge_index).relu(), batch)
        return self.head(h - h.mean(dim=0)).flatten()


class OneLarge(Mixes):
    large = 1e9

    def forward(self, x, edge_index, batch):
        h = self.conv(x, edge_index)
        small = self.head(global_add_pool(h - h.mean(dim=0), batch))
        return torch.cat([small, torch.full_like(small, self.large)], dim=1)


class OneInfinite(OneLarge):
    large = float("-inf")


class NumNodes(Mixes):
    def forward(self, x, edge_index, batch):
        return super().forward(x, edge_index, batch), x.size(0)


class ChangesWeights(Mixes):
    def forward(self, x, edge_index, batch):
        self.head.weight.data.mul_(0.9)
        return super().forward(x, edge_index, batch)


class NeedsGradients(Mixes):
    """Computes a gradient in its forward pass, as models of forces do."""

    def forward(self, x, edge_index, batch):
        x = x.clone().requires_grad_()
        energy = super().forward(x, edge_index, batch)
        (force,) = torch.autograd.grad(energy.sum(), x, create_graph=True)
        return energy + global_add_pool(force.square().sum(1), batch)


class StoresTensor(Mixes):
    def forward(self, x, edge_index, batch):
        self.size = self.conv(x, edge_index).square().mean()
        return super().forward(x, edge_index, batch)


class StoresList(StoresTensor):
    """Stores tensors for the loss in a list that grows in each call."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.sizes = []

    def forward(self, x, edge_index, batch):
        self.sizes.append(self.conv(x, edge_index).square().mean())
        return Mixes.forward(self, x, edge_index, batch)


class StoresDict(StoresTensor):
    def forward(self, x, edge_index, batch):
        self.terms = {"size": [self.conv(x, edge_index).square().mean()]}
        return Mixes.forward(self, x, edge_index, batch)


class Closed(Mixes):
    """Has a gate in a buffer, which the user opens later."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.register_buffer("open", torch.zeros(()))

    def forward(self, x, edge_index, batch):
        h = self.conv(x, edge_index)
        return self.head(global_add_pool(h - self.open * h.mean(0), batch)).flatten()


REFUSED = {
    "stored tensor": (StoresTensor, "padding changes the tensor size that Stores"),
    "list": (StoresList, "padding changes the tensor sizes that StoresList"),
    "dict": (StoresDict, "padding changes the tensor terms['size'] that StoresDict"),
    "closed gate": (Closed, "padding changes the output"),
    "mean of graphs": (GraphMean, "padding changes the output"),
    "large beside small": (OneLarge, "padding changes the output"),
    "infinite beside small": (OneInfinite, "padding changes the output"),
    "number of nodes": (NumNodes, "padding changes the output"),
    "changed weights": (ChangesWeights, "a call of the model changes its weights"),
    "gradients": (NeedsGradients, "a call without gradients raised RuntimeError"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_models_that_cannot_be_padded_are_refused_and_train_as_by_hand(name, autocast):
    make, reason = REFUSED[name]
    model = make("none", 0.1)
    other, losses = copy.deepcopy(model), []

    def loss(output, batch):
        first = output[0] if isinstance(output, tuple) else output
        return first.float().nan_to_num(0.0, 0.0, 0.0).abs().mean()

    for net, pad in ((model, True), (other, False)):
        step = sgd_step(net, loss, 0.01, autocast=autocast)
        loader = GraphLoader(graphs(torch.float), 8, pad=pad)
        losses.append([float(step(batch)) for batch in loader])
    assert losses[0] == losses[1]
    step = sgd_step(model, loss, 0.01, autocast=autocast)
    step(first_batch(torch.float))
    assert step.reason.startswith(reason)


def test_stored_tensors_that_padding_does_not_change_are_captured():
    class Stores(Mixes):
        """Stores tensors of its weights, in a dict and once for all calls."""

        cached = None

        def forward(self, x, edge_index, batch):
            self.terms = {"decay": self.head.weight.square().sum(), "count": 3}
            self.terms["itself"] = self.terms
            if self.cached is None:
                self.cached = [torch.ones(2)]
            return super().forward(x, edge_index, batch)

    model = Stores("none", 0.1).double()
    assert stepped(model, [first_batch()]).reason is None


def test_a_model_that_replaces_fields_of_the_batch_gets_a_copy_to_compare():
    class Encodes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.conv = nn.Linear(4, 6), GINConv(nn.Linear(6, 1))

        def forward(self, data):
            data.x.mul_(0.5)
            data.x = self.encode(data.x)
            return global_add_pool(self.conv(data.x, data.edge_index), data.batch)[:, 0]

    losses = []
    for net, pad in zip(twins(Encodes()), (True, False), strict=True):
        step = sgd_step(net, rate=0.01)
        losses.append([float(step(b)) for b in GraphLoader(graphs(), 8, pad=pad)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


@pytest.mark.parametrize("pad", [False, True])
def test_integer_features_that_a_model_changes_in_place_are_changed_once(pad):
    class Shifts(nn.Module):
        """Adds one to the categories of the batch, in place."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(3, 1)

        def forward(self, x, batch):
            return global_add_pool(self.table(x.flatten().add_(1)), batch).flatten()

    given = [Data(torch.tensor([[0], [1]]), y=torch.ones(1)) for _ in range(8)]
    model = Shifts()
    step = sgd_step(model, rate=0.0)
    batch = next(iter(GraphLoader(given, 8, pad=pad)))
    wanted = (model.table.weight.detach()[1:].sum() - 1).abs()
    assert float(step(batch)) == pytest.approx(float(wanted))


def test_lookups_by_degree_are_valid_in_padding_rows():
    class Degrees(nn.Module):
        """Looks up embeddings of degrees; the graphs have degrees up to 2."""

        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(3, 8), nn.Linear(8, 1)

        def forward(self, x, edge_index, batch):
            found = degree(edge_index[1], x.size(0), dtype=torch.long)
            return self.head(global_add_pool(self.table(found), batch)).flatten()

    loader = GraphLoader(ring_graphs(6), 8, shuffle=True, pad=True)
    assert stepped(Degrees(), loader).reason is None


def test_comparing_restores_the_random_numbers_of_python_and_numpy():
    class Host(Mixes):
        """Draws random numbers on the host."""

        def forward(self, x, edge_index, batch):
            noise = random.random() + np.random.rand()  # noqa: NPY002
            return super().forward(x, edge_index, batch) * noise

    model, losses = Host("none", 0.1).double(), []
    for pad in (False, True):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        net = copy.deepcopy(model)
        step = sgd_step(net, rate=0.01)
        losses.append([float(step(b)) for b in GraphLoader(graphs(), 8, pad=pad)])
    assert losses[0] == losses[1]


def test_comparing_leaves_weights_and_random_numbers_as_they_are():
    one, other = twins(Mixes("none", 0.1))
    loader = GraphLoader(graphs(), 8, pad=True)
    versions = [weight._version for weight in one.parameters()]
    step = sgd_step(one, rate=0.0)
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
        step = sgd_step(model, total, 0.0)
        losses = [float(step(batch)) for batch in GraphLoader(given, 8, pad=True)]
        assert step.reason is None
        assert losses == [8.0 * rows] * 4


@pytest.mark.parametrize("dtype", [torch.cdouble, torch.cfloat])
def test_complex_outputs_are_compared_up_to_rounding(dtype):
    wanted = torch.tensor([[1 + 2j, 3], [0, -1j]], dtype=dtype)
    off = 1e-11 if dtype == torch.cdouble else 1e-5
    for direction in (1, 1j):
        assert _is_close(wanted, wanted + direction * off)
        assert not _is_close(wanted, wanted + direction * 1e-2)
    assert not _is_close(wanted, wanted.conj())
    missing = torch.full_like(wanted, complex("nan"))
    assert _is_close(missing, missing.clone())
    assert not _is_close(wanted, missing)


@pytest.mark.parametrize("mixes", [False, True])
def test_models_of_complex_numbers_are_compared(mixes):
    given = graphs()
    for graph in given:
        graph.z = torch.complex(graph.x, graph.x.flip(1))

    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wave = nn.Parameter(torch.zeros(4, 3, dtype=torch.cdouble))

        def forward(self, z, batch):
            h = z @ self.wave
            return global_add_pool(h - h.mean(dim=0) if mixes else h, batch)

    def loss(output, batch):
        return (output.sum(dim=1) - batch.y).abs().mean()

    step = stepped(Waves(), GraphLoader(given, 8, pad=True), loss)
    assert (step.reason is not None) == mixes


def test_a_model_that_draws_random_numbers_is_named_as_such():
    class Random(Mixes):
        """Adds noise to its output."""

        def forward(self, x, edge_index, batch):
            out = super().forward(x, edge_index, batch)
            return out + torch.randn_like(out)

    model = Random("none", 0.1).double()
    assert stepped(model, [first_batch()]).reason.startswith(
        "two calls of the model with the same batch"
    )


def test_models_may_cache_tensors_by_the_number_of_nodes():
    class Caches(Mixes):
        """Caches a tensor for each number of nodes."""

        def __init__(self) -> None:
            super().__init__("none", 0.1)
            self.cache = {}

        def forward(self, x, edge_index, batch):
            if len(x) not in self.cache:
                self.cache[len(x)] = x.new_ones(len(x), 1)
            return super().forward(x * self.cache[len(x)], edge_index, batch)

    model = Caches().double()
    assert stepped(model, [first_batch()]).reason is None


X = torch.rand(3, 5, 8, dtype=torch.double)
PACKED = pack_sequence([X[0], X[1, :4], X[2, :2]])
ATTENTION = nn.MultiheadAttention(8, 2, dropout=0.5, dtype=torch.double)
RNN = {"num_layers": 2, "dropout": 0.5, "dtype": torch.double}
CALLS = {
    "dropout": lambda: F.dropout(X),
    "function of torch": lambda: torch.dropout(X, 0.5, True),
    "attention": lambda: ATTENTION(X, X, X)[0],
    "attention without weights": lambda: ATTENTION(X, X, X, need_weights=False)[0],
    "dot products": lambda: F.scaled_dot_product_attention(X, X, X, None, 0.5),
    "named": lambda: F.scaled_dot_product_attention(X, X, X, dropout_p=0.5),
    "transformer": nn.TransformerEncoderLayer(8, 2, 16, 0.5, dtype=X.dtype),
    "lstm": nn.LSTM(8, 8, **RNN),
    "gru": nn.GRU(8, 8, bidirectional=True, **RNN),
    "rnn": nn.RNN(8, 8, batch_first=True, **RNN),
    "relu rnn": nn.RNN(8, 8, nonlinearity="relu", **RNN),
    "packed lstm": nn.LSTM(8, 8, **RNN),
    "packed gru": nn.GRU(8, 8, **RNN),
}


def called(name):
    """Return the output of a call as a tensor; modules get `X` or `PACKED`."""
    call = CALLS[name]
    if not isinstance(call, nn.Module):
        return call()
    found = call(PACKED if "packed" in name else X)
    return (found[0] if isinstance(found, tuple) else found).data


@pytest.mark.parametrize("name", CALLS)
def test_no_dropout_returns_what_is_returned_without_dropout(name):
    assert not torch.equal(called(name), called(name)), "there is dropout"
    with NoDropout():
        found = called(name)
    if name in ("dropout", "function of torch"):
        wanted = X
    elif name in ("dot products", "named"):
        wanted = F.scaled_dot_product_attention(X, X, X)
    else:
        module = CALLS[name] if isinstance(CALLS[name], nn.Module) else ATTENTION
        module.eval()
        wanted = called(name)
        module.train()
    torch.testing.assert_close(found, wanted)


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.start, self.head = nn.Linear(4, 8), nn.Linear(8, 1)
        attention = {"dropout": 0.5}
        self.conv = GPSConv(8, None, heads=2, norm=None, attn_kwargs=attention)

    def forward(self, x, edge_index, batch):
        h = self.conv(self.start(x), edge_index, batch)
        return self.head(global_add_pool(h, batch)).flatten()


class Remembers(Attends):
    """An LSTM over the nodes of each graph, with dropout between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.LSTM(8, 8, 2, batch_first=True, dropout=0.5)

    def forward(self, x, edge_index, batch):
        h, mask = to_dense_batch(self.start(x), batch)
        h = self.conv(h)[0] * mask[:, :, None]
        return self.head(h.sum(dim=1)).flatten()


@pytest.mark.parametrize("build", [Attends, Remembers])
def test_dropout_inside_attention_and_rnns_does_not_end_the_capture(build):
    model = build().double().train()
    step = stepped(model, GraphLoader(molecules(12), 4, pad=True))
    assert step.reason is None


MATMUL = torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def _precision_restored():
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def settings_seen(name: str) -> list:
    """Return this setting of matrix products in each call; the last is the step's."""
    seen = []

    class Notes(Gine):
        def forward(self, x, edge_index, edge_attr, batch):
            seen.append(getattr(MATMUL, name))
            return super().forward(x, edge_index, edge_attr, batch)

    model = Notes().double()
    batch = next(iter(GraphLoader(molecules(16), 8, pad=True)))
    assert stepped(model, [batch]).reason is None
    return seen


@pytest.mark.parametrize("name", ["highest", "high", "medium"])
def test_models_are_compared_without_tf32(name):
    torch.set_float32_matmul_precision(name)
    before = MATMUL.fp32_precision
    *compared, trained = settings_seen("fp32_precision")
    assert set(compared) == {"ieee"}
    assert trained == before == MATMUL.fp32_precision
    assert torch.get_float32_matmul_precision() == name


def test_models_may_read_the_old_setting_while_they_are_compared():
    torch.set_float32_matmul_precision("high")
    *compared, trained = settings_seen("allow_tf32")
    assert set(compared) == {False}
    assert trained is True
