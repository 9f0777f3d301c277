import torch
from torch.nn import functional as F

from gnnak import GraphLoader
from gnnak.loading.items import Item
from gnnak.training.own_loop.padding import IgnorePadding, real_rows_of
from tests.training.own_loop.models import molecules


def padded_item() -> Item:
    batch = next(iter(GraphLoader(molecules(4), 4, pad=True)))
    return batch.__dict__["_padded"].item


def test_ignore_padding_knows_the_maximum_of_the_batch_vector():
    item = padded_item()
    vector = item.batch.batch
    most = int(vector.max())
    vector.zero_()
    with IgnorePadding(item):
        assert int(vector.max()) == int(torch.max(vector)) == most
        assert int(vector.clone().max()) == 0
    assert int(vector.max()) == 0


def test_ignore_padding_normalises_rows_of_each_axis():
    item = padded_item()
    for axis in ("graphs", "nodes", "edges"):
        size, rows = getattr(item.shape, axis), item.sizes[axis]
        x = torch.rand(size, 3, dtype=torch.double)
        weight, bias = torch.rand(2, 3, dtype=torch.double)
        stored = [torch.rand(2, 3, dtype=torch.double) for _ in range(2)]
        stored[1].copy_(stored[0])
        wanted = F.batch_norm(x[:rows], *stored[0], weight, bias, True, 0.3, 1e-5)
        with IgnorePadding(item):
            found = F.batch_norm(x, *stored[1], weight, bias, True, 0.3, 1e-5)
            plain = F.batch_norm(x[:rows], *stored[1], weight, bias)
        torch.testing.assert_close(found[:rows], wanted)
        torch.testing.assert_close(stored[1], stored[0])
        torch.testing.assert_close(
            plain, F.batch_norm(x[:rows], *stored[0], weight, bias)
        )


def test_real_rows_of_outputs_leave_other_values_alone():
    item = padded_item()
    nodes = torch.rand(item.shape.nodes, 2)
    graphs = torch.rand(item.shape.graphs)
    outputs = {"nodes": nodes, "more": (graphs, torch.rand(()), "text", None)}
    found = real_rows_of(outputs, item)
    assert found["nodes"].size(0) == item.sizes["nodes"]
    assert found["more"][0].size(0) == 4
    assert found["more"][1:] == outputs["more"][1:]
