import re
from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from gnnak.errors import GraphError
from gnnak.graphs import GraphBatch
from tests.graphs.graph_strategies import assert_same, int_tensor


@pytest.fixture
def batch() -> GraphBatch:
    """One edge both ways, a single node, and an empty graph at the end."""
    return GraphBatch(
        x=torch.ones(3, 2),
        edge_index=int_tensor([[0, 1], [1, 0]]),
        edge_attr=torch.ones(2, 1),
        y=int_tensor([0, 1, 0]),
        batch=int_tensor([0, 0, 1]),
        ptr=int_tensor([0, 2, 3, 3]),
    ).check()


def test_counts_keep_the_empty_graph_at_the_end(batch):
    assert (batch.num_graphs, batch.num_nodes, batch.num_edges) == (3, 3, 2)


def test_repr_tells(batch):
    assert repr(replace(batch, edge_attr=None)) == (
        "GraphBatch(graphs=3, nodes=3, edges=2, x=[3, 2], edge_attr=None, y=[3], "
        "device='cpu')"
    )


def test_to_moves_every_field(batch):
    assert_same(batch.to("cpu", non_blocking=True), batch)
    moved = replace(batch, x=None).to("meta")
    assert moved.x is None
    assert moved.device == moved.edge_index.device == moved.y.device


def test_fields_cannot_be_set(batch):
    with pytest.raises(FrozenInstanceError):
        batch.x = None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ptr": int_tensor([])}, "ptr must start with 0"),
        ({"ptr": int_tensor([1, 2, 3, 3])}, "ptr must start with 0"),
        ({"ptr": int_tensor([0, 3, 2, 3])}, "ptr must not decrease"),
        ({"ptr": int_tensor([0, 2, 3, 4])}, "must end at 3, the number of nodes"),
        ({"batch": int_tensor([0, 1, 1])}, "batch does not match ptr"),
        ({"batch": torch.zeros(3)}, "batch is torch.float32 of shape [3]"),
        ({"edge_index": int_tensor([[0], [3]])}, "names node 3"),
        ({"edge_index": int_tensor([[1], [2]])}, "an edge connects two graphs"),
        ({"x": torch.ones(2, 2)}, "x has 2 rows; give 3, one for every node."),
        ({"edge_attr": torch.ones(3, 1)}, "edge_attr has 3 rows; give 2"),
        ({"y": int_tensor([1, 2])}, "y has 2 rows; give 3"),
        ({"x": torch.ones(3, 2, device="meta")}, "x is on meta"),
        ({"edge_index": int_tensor([[0], [0]]).to("meta")}, "edge_index is on"),
    ],
)
def test_check_raises_a_clear_error(batch, change, message):
    with pytest.raises(GraphError, match=re.escape(message)):
        replace(batch, **change).check()


def test_check_takes_node_targets(batch):
    two = replace(batch, ptr=int_tensor([0, 2, 3]), y=int_tensor([1, 2, 3]))
    assert two.check().num_graphs == 2
