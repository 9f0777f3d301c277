import pytest
import torch
from torch.nn import functional as F

from gnnak import GraphLoader
from gnnak.errors import GraphError
from gnnak.loading.items import Item
from gnnak.loop.padding import IgnorePadding, axes_of, disturbed, real_rows_of
from tests.loop.models import molecules


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
        wanted = F.batch_norm(x[:rows], *stored[0], weight, bias)
        torch.testing.assert_close(plain, wanted)


def test_ignore_padding_replaces_indices_of_rows_that_are_padding_in_a_replay():
    item = padded_item()
    table = torch.rand(3, 2)
    index = torch.zeros(item.shape.nodes, 1, dtype=torch.long)
    # A replay copies another batch, here one with a single node, into the buffers.
    item.batch.real.counts[1] = 1
    index[1:] = 9
    with IgnorePadding(item):
        found = F.embedding(index, table)
    torch.testing.assert_close(found[:, 0], table[index.clamp(max=2)[:, 0]])
    index[0] = 9
    with IgnorePadding(item), pytest.raises(IndexError):
        F.embedding(index, table)


def test_disturbed_rows_are_random_numbers_and_copies_of_real_rows():
    torch.manual_seed(0)
    rows = {9: ("nodes", 3)}
    value = torch.arange(18.0).view(9, 2) / 18
    found = disturbed(value, rows)
    assert torch.equal(found[:3], value[:3])
    assert (found[3::2].abs().amax(dim=1) > 1).all()
    assert all(row in value[:3].tolist() for row in found[4::2].tolist())
    assert disturbed(value, {9: ("nodes", 0)}).shape == (9, 2)
    whole = torch.arange(9)
    assert disturbed(whole, rows) is whole


def test_real_rows_of_outputs_leave_other_values_alone():
    item = padded_item()
    real = item.sizes["nodes"], item.sizes["graphs"]
    sizes = item.shape.nodes, item.shape.graphs
    plain, padded = (
        {"nodes": torch.rand(n, 2), "more": (torch.rand(g), torch.rand(()), "text")}
        for n, g in (real, sizes)
    )
    axes = axes_of(plain, padded, item)
    assert axes == ["nodes", "graphs", None, None]
    found = real_rows_of(padded, item, axes)
    assert found["nodes"].size(0) == item.sizes["nodes"]
    assert found["more"][0].size(0) == 4
    assert found["more"][1:] == padded["more"][1:]


def test_tables_with_as_many_rows_as_padded_nodes_keep_all_rows():
    item = padded_item()
    table = torch.rand(item.shape.nodes, 2)
    axes = axes_of(table, table, item)
    assert real_rows_of(table, item, axes) is table


def test_outputs_whose_rows_are_no_axis_are_refused():
    item = padded_item()
    with pytest.raises(GraphError, match="an output has 3 rows, and with padding 5"):
        axes_of(torch.rand(3), torch.rand(5), item)
    with pytest.raises(GraphError, match="an output has 1 row, and with padding 5"):
        axes_of(torch.rand(1), torch.rand(5), item)
    with pytest.raises(GraphError, match="padding changes the number of outputs"):
        axes_of((torch.rand(3),), (torch.rand(3), None), item)
    with pytest.raises(GraphError, match="the model returned 2 values, but 1 on"):
        real_rows_of((torch.rand(3), torch.rand(3)), item, [None])


def test_ignore_padding_replaces_indices_that_a_table_does_not_have():
    item = padded_item()
    real, size = item.sizes["nodes"], item.shape.nodes
    table = torch.rand(3, 2)
    index = torch.zeros(size, dtype=torch.long)
    index[real:] = 9
    index[-1] = -1
    wanted = index.clamp(0, 2)
    with IgnorePadding(item):
        torch.testing.assert_close(F.embedding(index, table), table[wanted])
        torch.testing.assert_close(table[index], table[wanted])
        torch.testing.assert_close(F.one_hot(index, 3), F.one_hot(wanted, 3))
