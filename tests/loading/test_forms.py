import copy
import gc
import pickle
import weakref
from functools import partial

import pytest
import torch
from torch_geometric.data import Data

from gnnak import Budget, EgoNets, GraphLoader, SubgraphDrop
from gnnak.loading import graph_loader
from gnnak.loading.forms import FORM, TOO_SMALL, PaddedForm, Unpadded, padded_form
from gnnak.loading.items import tensors_of
from gnnak.loading.padder import Demand
from tests.loop.models import molecules

SUBGRAPHS = {
    "none": {},
    "egonets": {"subgraphs": EgoNets(1)},
    "drop": {"subgraphs": EgoNets(1), "drop": SubgraphDrop("random", 1)},
}


class Never(Demand):
    """Lets the loader pad no window."""

    def pads_next(self) -> bool:
        return False


@pytest.fixture
def late(monkeypatch):
    """Build loaders whose batches are padded only when a padded form is needed."""

    def build(*arguments: object, **options: object) -> GraphLoader:
        with monkeypatch.context() as patch:
            patch.setattr(graph_loader, "Demand", Never)
            return GraphLoader(*arguments, pad=True, **options)

    return build


@pytest.mark.parametrize("nodes", [False, True], ids=["graphs", "nodes"])
@pytest.mark.parametrize("options", SUBGRAPHS.values(), ids=SUBGRAPHS)
def test_a_batch_that_is_padded_late_equals_one_padded_at_once(late, options, nodes):
    graphs = molecules(29, nodes=nodes)
    for graph in graphs:
        graph.pos = torch.rand(graph.num_nodes, 3)
        graph.number = torch.rand(1)
    ours = late(graphs, 3, **options)
    theirs = GraphLoader(graphs, 3, pad=True, **options)
    for batch, other in zip(ours, theirs, strict=True):
        assert isinstance(batch.__dict__[FORM], Unpadded)
        found, wanted = padded_form(batch), padded_form(other)
        assert isinstance(found, PaddedForm)
        assert found.item.shape == wanted.item.shape
        assert found.item.sizes == wanted.item.sizes
        assert found.kinds() == wanted.kinds()
        pairs = zip(tensors_of(found.item), tensors_of(wanted.item), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
        assert batch.__dict__[FORM].item.batch is found.item.batch


@pytest.mark.parametrize("edges", [True, False], ids=["no edges", "no edge_index"])
def test_batches_without_edges_are_padded_late(late, edges):
    given = {"edge_index": torch.zeros(2, 0).long()} if edges else {}
    graphs = [Data(x=torch.ones(1 + n % 2, 1), **given) for n in range(4)]
    for batch in late(graphs, 2):
        form = padded_form(batch)
        assert form.item.sizes["edges"] == 0
        assert form.item.sizes["nodes"] == batch.num_nodes == 3


def test_present_values_of_changed_fields_are_padded_late(late):
    batch = next(iter(late(molecules(3), 3)))
    batch.x.mul_(2)
    batch.y = batch.y.float() + 1
    batch.noise = torch.rand(batch.num_nodes)
    item = padded_form(batch).item
    n = item.sizes["nodes"]
    assert torch.equal(item.batch.x[:n], batch.x)
    assert torch.equal(item.batch.y[:3], batch.y)
    assert torch.equal(item.extra["noise"][:n], batch.noise)
    assert not item.batch.x[n:].any()


def test_writes_that_pytorch_does_not_count_are_padded_late(late):
    batch = next(iter(late(molecules(3), 3)))
    batch.pos = torch.rand(batch.num_nodes, 2)
    for _ in range(2):
        item = padded_form(batch).item
        fields = vars(item.batch) | item.extra
        for name in ("x", "y", "edge_attr", "pos", "batch", "ptr"):
            rows = batch[name].size(0)
            assert torch.equal(fields[name][:rows], batch[name]), name
            batch[name].numpy()[:] = batch[name].flip(0).numpy()
        edges = item.sizes["edges"]
        assert torch.equal(item.batch.edge_index[:, :edges], batch.edge_index)
        batch.edge_index.data.copy_(batch.edge_index.flip(0))


def test_targets_of_edges_and_features_of_graphs_are_padded_late(late):
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graphs = [
        Data(edge_index=edges, x=torch.rand(1, 2), y=torch.rand(4), num_nodes=3)
        for _ in range(2)
    ]
    for loader in (late(graphs, 2), GraphLoader(graphs, 2, pad=True)):
        (batch,) = loader
        for _ in range(2):
            form = padded_form(batch)
            padded = form.build(form.item)
            assert torch.equal(padded.x[:2], batch.x)
            assert torch.equal(padded.y[:8], batch.y)
            assert padded.x.size(0) == 3
            assert padded.y.size(0) == form.item.shape.edges
            batch.x, batch.y = batch.x + 1, batch.y + 1


CHANGED = "the field {!r} of the batch was added, replaced or changed"


CHANGES = {
    "edges": lambda b: setattr(b, "edge_index", b.edge_index.clone()),
    "edges in place": lambda b: b.edge_index.copy_(b.edge_index.flip(0)),
    "graphs": lambda b: setattr(b, "batch", b.batch.clone()),
    "a row less": lambda b: setattr(b, "x", b.x[1:]),
    "a gradient": lambda b: b.x.requires_grad_(),
    "a field less": lambda b: delattr(b, "edge_attr"),
}
REASONS = {
    "edges": CHANGED.format("edge_index"),
    "edges in place": CHANGED.format("edge_index"),
    "graphs": CHANGED.format("batch"),
    "a row less": CHANGED.format("x"),
    "a gradient": "the field 'x' of the batch requires a gradient",
    "a field less": "the field 'edge_attr' of the batch was removed",
}


@pytest.mark.parametrize("pad", ["late", "at once"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_prevents_padding_is_named(late, name, pad):
    # Two graphs: `edge_index` has as many rows as there are graphs.
    build = late if pad == "late" else partial(GraphLoader, pad=True)
    batch = next(iter(build(molecules(2), 2)))
    CHANGES[name](batch)
    assert padded_form(batch) == REASONS[name]


def test_a_last_batch_of_one_graph_is_not_padded_late(late):
    forms = [padded_form(batch) for batch in late(molecules(7), 3)]
    assert forms[2] == TOO_SMALL
    assert not {TOO_SMALL} & {*map(str, forms[:2])}


def test_copies_of_a_batch_leave_the_data_set_behind(late):
    batch = next(iter(late(molecules(6), 3)))
    form = batch.__dict__[FORM]
    assert pickle.loads(pickle.dumps(form)) is None
    assert "no padded form" in padded_form(copy.deepcopy(batch))
    assert isinstance(padded_form(copy.copy(batch)), PaddedForm)
    assert batch.__dict__[FORM] is form


def test_copies_of_a_padded_batch_leave_the_data_set_behind():
    batch = next(iter(GraphLoader(molecules(6), 3, pad=True)))
    form = batch.__dict__[FORM]
    assert isinstance(form, PaddedForm)
    assert copy.deepcopy(form) is None
    assert "no padded form" in padded_form(copy.deepcopy(batch))


def test_an_unpadded_batch_that_is_moved_frees_its_tensors(late):
    batch = next(iter(late(molecules(3), 3)))
    edges = weakref.ref(batch.edge_index)
    batch = batch.apply(torch.clone)
    gc.collect()
    assert edges() is None


def test_a_field_that_cannot_be_padded_is_named():
    graphs = molecules(6)
    for graph in graphs:
        graph.edge_attr = graph.edge_attr[1:]  # no longer one row per edge
    batch = next(iter(GraphLoader(graphs, 3, pad=True)))
    assert padded_form(batch).startswith("the field 'edge_attr' has neither one row")
    assert padded_form(copy.deepcopy(batch)) == padded_form(batch)
    other = next(iter(GraphLoader(graphs, Budget(nodes=20), pad=True)))
    assert "without a Budget" in padded_form(other)
