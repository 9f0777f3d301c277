"""Captured steps on a GPU, compared with steps that are not captured."""

import re
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.transforms import AddSelfLoops
from torch_geometric.utils import degree

from gnnak import EgoNets, GraphLoader, SubgraphDrop, TrainingStep, uplift
from gnnak.errors import SubgraphError
from gnnak.subgraphs import WithEncodings, structural_encodings
from tests.gpu import needs_gpu
from tests.loop.models import Gine, in_float32, mae, molecules, ring_graphs, twins
from tests.loop.test_buffers import CAPTURED, NOT_CAPTURED
from tests.loop.test_padded_loss import padded_mae

SUBGRAPHS = {
    "none": {},
    "egonets": {"subgraphs": EgoNets(1)},
    "drop": {"subgraphs": EgoNets(1), "drop": SubgraphDrop("random", 1)},
}


def losses(model: nn.Module, capture: bool, graphs: list, **options: object):
    model = model.cuda().train()
    loader = GraphLoader(graphs, 16, True, device="cuda", **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    step = TrainingStep(model, mae, optimizer, 0.5, capture=capture)
    found = []
    for _ in range(4):
        for batch in loader:
            found.append(step(batch))
            rates.step()
    return torch.stack(found).cpu(), step


def replayed(step: TrainingStep) -> bool:
    found = [captured for captured, _ in step._captured.values()]
    buffers = [each for captured in found for each in captured._buffers.values()]
    gave_up = any(captured.gave_up for captured in found)
    return not gave_up and any(each.replay is not None for each in buffers)


@needs_gpu
@pytest.mark.parametrize("nodes", [False, True], ids=["graphs", "nodes"])
@pytest.mark.parametrize("options", SUBGRAPHS.values(), ids=SUBGRAPHS)
def test_captured_steps_equal_uncaptured_ones(options, nodes):
    model = Gine(nodes=nodes)
    model = uplift(model, num_hops=1) if options else model
    assert_captured(model, molecules(136, nodes=nodes), **options)


@needs_gpu
def test_captured_steps_with_encodings_of_pairs_equal_uncaptured_ones():
    pairs = ("distance", "rrwp", "distance-counts")
    encoded = WithEncodings(EgoNets(1), structural_encodings(pairs))
    model = uplift(Gine(), num_hops=1, pairs=pairs)
    assert_captured(model, molecules(136), subgraphs=encoded)


@needs_gpu
@pytest.mark.parametrize("name", ["batch_norm", "counter", "spectral_norm"])
def test_buffers_of_captured_steps_equal_those_of_uncaptured_ones(name):
    assert_captured(CAPTURED[name](), molecules(136), buffers=True)


@needs_gpu
@pytest.mark.parametrize("name", NOT_CAPTURED)
def test_buffers_that_padding_changes_equal_those_of_uncaptured_steps(name):
    make, reason = NOT_CAPTURED[name]
    step = assert_captured(make(), molecules(136), captured=False, buffers=True)
    assert re.search(reason, step.reason)


@needs_gpu
@pytest.mark.parametrize("write", ["data", "dlpack"])
def test_overwritten_edges_are_noticed_by_calls_and_captured_steps(write):
    model, _ = twins(uplift(Gine(), num_hops=1))
    _, step = losses(model, True, molecules(136), **SUBGRAPHS["egonets"])
    assert replayed(step)
    loader = GraphLoader(molecules(16), 16, device="cuda", **SUBGRAPHS["egonets"])
    (batch,) = loader
    target = batch.edge_index.data
    if write == "dlpack":
        target = torch.from_dlpack(batch.edge_index)
    target.copy_(batch.edge_index[:1].repeat(2, 1))
    edges = batch.edge_index.clone()
    with torch.no_grad():
        found, wanted = (
            model.eval()(batch.x, each, batch.edge_attr, batch.batch)
            for each in (batch.edge_index, edges)
        )
    torch.testing.assert_close(found, wanted)
    # Steps on another loader are captured anew, which compares edges on the host.
    model.train()
    assert step(batch).isfinite()
    (batch,) = loader
    for _ in range(8):
        assert step(batch).isfinite()
    batch.edge_index.data.copy_(edges)
    assert step(batch).isnan()
    with pytest.raises(SubgraphError, match="edge_index of an earlier batch"):
        step(batch)


@needs_gpu
@pytest.mark.parametrize("options", SUBGRAPHS.values(), ids=SUBGRAPHS)
def test_steps_on_a_list_of_batches_are_captured(options):
    one, other = twins(uplift(Gine(), num_hops=1) if options else Gine())
    loader = GraphLoader(molecules(400), 8, True, device="cuda", **options)
    list(loader)
    batches = list(loader)
    results = []
    for model, capture in ((one, True), (other, False)):
        model.cuda().train()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        step = TrainingStep(model, mae, optimizer, capture=capture)
        results.append(torch.stack([step(batch) for batch in batches * 3]))
        assert not capture or replayed(step)
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@needs_gpu
def test_captured_losses_equal_uncaptured_ones():
    results = []
    for model, capture in zip(twins(Gine()), (True, False), strict=True):
        optimizer = torch.optim.Adam(model.cuda().parameters(), lr=0.01)
        options = {"capture": capture, "padded_loss": True}
        step = TrainingStep(model, padded_mae, optimizer, 0.5, **options)
        loader = GraphLoader(molecules(136), 16, True, device="cuda")
        found = [step(batch) for _ in range(4) for batch in loader]
        results.append(torch.stack(found))
        assert not capture or replayed(step)
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@needs_gpu
def test_captured_steps_are_right_however_many_streams_were_taken_before():
    for _ in range(31):  # PyTorch has 32 streams, which it returns in turn
        torch.cuda.Stream()
    model = uplift(Gine(), num_hops=1)
    assert_captured(model, molecules(136), subgraphs=EgoNets(1))


@needs_gpu
def test_updates_use_a_state_that_was_loaded_meanwhile():
    results = []
    for model, capture in zip(twins(Gine()), (True, False), strict=True):
        model.cuda().train()
        loader = GraphLoader(molecules(136), 16, True, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        step = TrainingStep(model, mae, optimizer, capture=capture)
        start = None
        for _ in range(4):
            for batch in loader:
                value = step(batch)
            start = start or deepcopy(optimizer.state_dict())
            optimizer.load_state_dict(deepcopy(start))
            torch.cuda.empty_cache()
        results.append(value)
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


@needs_gpu
@pytest.mark.parametrize(
    "build", [torch.optim.NAdam, torch.optim.RMSprop, torch.optim.Adamax]
)
def test_optimisers_of_pytorch_update_captured_models(build):
    results = []
    for model, capture in zip(twins(Gine()), (True, False), strict=True):
        model.cuda().train()
        loader = GraphLoader(molecules(136), 16, True, device="cuda")
        optimizer = build(model.parameters(), lr=1e-3)
        step = TrainingStep(model, mae, optimizer, capture=capture)
        results.append([step(batch) for _ in range(4) for batch in loader][-1])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


class Reads(Gine):
    def forward(self, x, edge_index, edge_attr, batch):
        scale = 1 + float(edge_index[0, 0] >= 0)
        return super().forward(x / scale, edge_index, edge_attr, batch)


@needs_gpu
def test_a_step_that_synchronises_is_named_and_runs_uncaptured(caplog):
    assert_captured(Reads(), molecules(136), captured=False)
    assert "test_training_step_gpu.py, line" in caplog.text


def assert_captured(
    model: nn.Module, graphs: list, captured=True, buffers=False, **options: object
) -> TrainingStep:
    """Check that losses, or also buffers, are those of steps without a capture."""
    one, other = twins(model)
    found, step = losses(one, True, graphs, **options)
    wanted, _ = losses(other, False, graphs, **options)
    assert replayed(step) == captured
    assert not captured or step.reason is None
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)
    if buffers:
        states = [*one.buffers()], [*other.buffers()]
        torch.testing.assert_close(*states, rtol=1e-6, atol=1e-6)
    return step


class Pooled(nn.Module):
    """A conv that reads node features and edges, a sum over the nodes, and a head."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv, self.head = conv, nn.Linear(8, 1)

    def forward(self, x, edge_index, batch):
        h = self.conv(x, edge_index)
        return self.head(pyg.global_add_pool(h, batch)).flatten()


@needs_gpu
@pytest.mark.parametrize("name", ["GCNConv", "GATConv", "GATv2Conv", "SGConv"])
def test_convs_are_captured_if_the_data_have_the_self_loops(name):
    conv = getattr(pyg, name)(4, 8, add_self_loops=False).double()
    graphs = [AddSelfLoops("edge_attr", 1.0)(graph) for graph in molecules(136)]
    assert_captured(Pooled(conv).double(), graphs)


class DegreeTable(nn.Module):
    """Embeddings of degrees, for degrees below 3."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3, 8)

    def forward(self, x, edge_index):
        return self.table(degree(edge_index[1], x.size(0), dtype=torch.long))


@needs_gpu
def test_replays_look_up_only_degrees_that_the_table_has():
    assert_captured(Pooled(DegreeTable()).double(), ring_graphs(27))


class LayerLstm(nn.Module):
    """An LSTM over two states of each node, with dropout between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 8, 2, batch_first=True, dropout=0.5)

    def forward(self, x, edge_index):
        return self.lstm(torch.stack([x, x.flip(1)], dim=1))[0][:, -1]


class LayerAttention(nn.Module):
    """Attention over four states of each node, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(4, 8)
        self.attention = nn.MultiheadAttention(8, 2, 0.5, batch_first=True)

    def forward(self, x, edge_index):
        h = torch.stack([self.start(x * factor) for factor in range(4)], dim=1)
        return self.attention(h, h, h)[0].sum(dim=1)


@needs_gpu
@pytest.mark.parametrize("build", [LayerLstm, LayerAttention])
def test_replays_draw_new_dropout_inside_attention_and_rnns(build):
    model = Pooled(build()).double().cuda().train()
    step = TrainingStep(model, mae, torch.optim.SGD(model.parameters(), 0.0))
    loader = GraphLoader(molecules(16), 16, device="cuda")
    found = [float(step(batch)) for _ in range(12) for batch in loader]
    assert step.reason is None
    assert replayed(step)
    assert len({*found[-4:]}) == 4


@needs_gpu
def test_bf16_steps_are_captured():
    model, graphs = (
        uplift(Gine(), num_hops=1).cuda().train(),
        in_float32(molecules(136)),
    )
    optimizer = torch.optim.Adam(model.parameters())
    step = TrainingStep(model, mae, optimizer, autocast=torch.bfloat16)
    loader = GraphLoader(graphs, 16, True, device="cuda", subgraphs=EgoNets(1))
    assert all(step(batch).isfinite() for _ in range(3) for batch in loader)
    assert replayed(step)


MODELS = {
    "GIN": lambda: pyg.GIN(4, 16, 2, 1),
    "GraphSAGE": lambda: pyg.GraphSAGE(4, 16, 2, 1),
    "GCN": lambda: pyg.GCN(4, 16, 2, 1),
    "GAT": lambda: pyg.GAT(4, 16, 2, 1),
    "EdgeCNN": lambda: pyg.EdgeCNN(4, 16, 2, 1),
    "GIN of BatchNorm": lambda: pyg.GIN(4, 16, 2, 1, norm="BatchNorm"),
}


@needs_gpu
@pytest.mark.filterwarnings("ignore:The usage of `scatter:UserWarning")
@pytest.mark.parametrize("uplifted", [False, True], ids=["plain", "uplifted"])
@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_models_of_pyg_train_on_the_gpu(build, uplifted):
    model = build()
    model = (uplift(model, num_hops=1) if uplifted else model).double().cuda().train()

    def loss(output, batch):
        return (output[:, 0] - batch.x[:, 0]).square().mean()

    def call(model, batch):
        return model(batch.x, batch.edge_index)

    optimizer = torch.optim.Adam(model.parameters())
    step = TrainingStep(model, loss, optimizer, call=call)
    loader = GraphLoader(molecules(96), 8, device="cuda", subgraphs=EgoNets(1))
    assert all(step(batch).isfinite() for batch in loader)
