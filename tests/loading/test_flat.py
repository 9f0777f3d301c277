from dataclasses import replace

import torch

from gnnak import EgoNets
from gnnak.graphs.real import RealCounts
from gnnak.loading.items import Item, Shape, like, tensors_of
from gnnak.subgraphs.induce import AcrossEdges
from tests.training.small import triangles


def item() -> Item:
    batch = triangles(2).store[torch.arange(3)]
    subgraphs = EgoNets(1)(batch.edge_index, batch.num_nodes)
    shape = Shape(3, batch.num_nodes, batch.num_edges)
    real = RealCounts(torch.arange(6))
    return Item(replace(batch, real=real), subgraphs, shape)


def test_tensors_of_an_item_include_cached_tensors():
    plain = item()
    # x, edge_index, y, batch, ptr; six of the subgraphs, and the centroids that the
    # extraction finds; one of the real rows.
    assert len(tensors_of(plain)) == 5 + 7 + 1
    groups = plain.subgraphs.by("node")
    cached = [plain.subgraphs.centroid, groups.ptr, groups.order]
    found = tensors_of(plain)
    assert len(found) == 15
    assert {id(tensor) for tensor in cached} <= {id(tensor) for tensor in found}


def test_like_is_the_same_item_with_other_tensors():
    before = item()
    before.subgraphs.by("node"), before.subgraphs.max_hop  # cached from now on
    others = [tensor + 1 for tensor in tensors_of(before)]
    after = like(before, others)
    assert all(a is b for a, b in zip(tensors_of(after), others, strict=True))
    cached = after.subgraphs.derived
    assert cached.max_hop == 1
    assert after.subgraphs.by("node") is cached.by["node"]
    assert torch.equal(cached.by["node"].ptr, before.subgraphs.by("node").ptr + 1)


def test_like_rebuilds_tuples_and_dicts():
    record = {"b": (torch.ones(2), 3), "a": {}, "c": None}
    rebuilt = like(record, [torch.zeros(2)])
    assert rebuilt["b"][1] == 3
    assert not rebuilt["b"][0].any()
    assert rebuilt["a"] == {}


def test_like_keeps_named_tuples():
    links = AcrossEdges(torch.zeros(2, 3), torch.zeros(3))
    found = like({"links": links}, [torch.ones(2, 3), torch.ones(3)])["links"]
    assert type(found) is AcrossEdges
    assert found.edge.tolist() == [1, 1, 1]
