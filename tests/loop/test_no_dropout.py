"""Dropout has no effect while outputs are compared, also inside attention and RNNs."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_sequence
from torch_geometric.nn import GPSConv, global_add_pool
from torch_geometric.utils import to_dense_batch

from gnnak import GraphLoader, TrainingStep
from gnnak.loop.verification import NoDropout
from tests.loop.models import mae, molecules

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
    """Attention over the nodes of each graph."""

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
    step = TrainingStep(model, mae, torch.optim.SGD(model.parameters(), 0.1))
    for batch in GraphLoader(molecules(12), 4, pad=True):
        step(batch)
    assert step.reason is None
