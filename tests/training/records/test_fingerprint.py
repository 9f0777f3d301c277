from dataclasses import replace

import pytest
import torch

from gnnak.datasets.record import Dataset
from gnnak.training.records import results as module
from gnnak.training.records.results import fingerprint
from tests.training.small import edge_counts, triangles


def with_store(data: Dataset, **changes) -> Dataset:
    return replace(data, store=replace(data.store, **changes))


def test_fingerprint_is_the_same_for_equal_data():
    assert fingerprint(triangles()) == fingerprint(triangles())
    renamed = replace(triangles(), info=replace(triangles().info, name="other"))
    assert fingerprint(renamed) == fingerprint(triangles())
    assert len(fingerprint(triangles())) == 16


def test_fingerprint_depends_on_every_field():
    data = edge_counts()
    store = data.store
    assert store.y is not None
    assert store.x is not None
    assert data.split is not None
    edges = store.edge_index.clone()
    edges[0, 0], edges[0, 1] = store.edge_index[0, 1], store.edge_index[0, 0]
    others = [
        with_store(data, y=store.y + 100),
        with_store(data, y=store.y.double()),
        with_store(data, y=store.y[:, None]),
        with_store(data, x=store.x.flip(0)),
        with_store(data, edge_index=edges.flip(0)),
        with_store(data, num_nodes=store.num_nodes.flip(0)),
        with_store(data, num_edges=store.num_edges.flip(0)),
        with_store(data, edge_attr=torch.zeros(edges.size(1), 1)),
        replace(data, split=data.split.roll(1)),
        replace(data, folds=torch.zeros(2, len(store), dtype=torch.long)),
        edge_counts(20),
    ]
    assert len({fingerprint(each) for each in [data, *others]}) == 1 + len(others)


@pytest.mark.parametrize("chunk", [8, 1 << 24])
def test_fingerprint_sees_one_changed_byte_in_any_chunk(chunk, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", chunk)
    data = triangles(2)
    y = data.store.y
    assert y is not None
    found = {fingerprint(data)}
    for place in range(len(y)):
        changed = y.clone()
        changed[place] += 1
        found.add(fingerprint(with_store(data, y=changed)))
    assert len(found) == 1 + len(y)


def test_fingerprint_of_a_data_set_without_graphs():
    assert fingerprint(triangles().subset(torch.arange(0)))
