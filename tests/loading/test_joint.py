"""Fields of two batches in one block of memory: all numbers by hand."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from gnnak import EgoNets
from gnnak.graphs.real import RealCounts
from gnnak.loading.items import Item, Shape, like, tensors_of
from gnnak.loading.padding import ALIGNMENT, Field, pack
from gnnak.subgraphs.induce import AcrossEdges
from tests.training.small import triangles

STARTS = {"graphs": [0, 1, 2], "nodes": [0, 2, 5], "edges": [0, 1, 3]}
FIELDS = {
    "hop": Field(torch.tensor([4, 5, 6, 7, 8]), "nodes"),
    "edge_index": Field(
        torch.tensor([[0, 2, 4], [1, 3, 3]]), "edges", "nodes", "edges"
    ),
    "ptr": Field(torch.tensor([0, 1, 1, 2, 3, 3]), "nodes", "edges", "pointers"),
    "batch": Field(torch.tensor([0, 0, 1, 1, 1]), "nodes", "graphs"),
    "nodes": Field(torch.tensor([0, 2, 5]), "graphs", "nodes", "pointers"),
}


def lists(batches):
    return [{key: part.tolist() for key, part in batch.items()} for batch in batches]


PLAIN = [
    {"hop": [4, 5], "edge_index": [[0], [1]], "ptr": [0, 1, 1]}
    | {"batch": [0, 0], "nodes": [0, 2]},
    {"hop": [6, 7, 8], "edge_index": [[0, 2], [1, 1]], "ptr": [0, 1, 2, 2]}
    | {"batch": [0, 0, 0], "nodes": [0, 3]},
]


def without_padding(starts):
    sizes = {
        axis: [end - begin for begin, end in pairwise(at)]
        for axis, at in starts.items()
    }
    (joint,) = pack([FIELDS], starts, sizes)
    return lists(joint.fields())


def test_joint_without_padding_counts_from_0_in_each_batch():
    assert without_padding(STARTS) == PLAIN


@pytest.mark.parametrize(("chosen", "wanted"), [(slice(1, 3), 1), (slice(0, 2), 0)])
def test_joint_leaves_out_rows_before_and_after(chosen, wanted):
    starts = {axis: at[chosen] for axis, at in STARTS.items()}
    assert without_padding(starts) == [PLAIN[wanted]]


def test_pack_of_no_batch():
    starts = {axis: at[2:] for axis, at in STARTS.items()}
    assert pack([FIELDS], starts, dict.fromkeys(STARTS, ())) == []


def test_joint_pads_each_batch_to_its_size():
    sizes = {"graphs": [2, 3], "nodes": [4, 5], "edges": [5, 3]}
    (joint,) = pack([FIELDS], STARTS, sizes)
    edges = [[0, 2, 2, 3, 3], [1, 2, 2, 3, 3]], [[0, 2, 3], [1, 1, 3]]
    # All padding nodes are in the last graph.
    assert lists(joint.fields()) == [
        {"hop": [4, 5, 0, 0], "edge_index": edges[0], "ptr": [0, 1, 1, 1, 1]}
        | {"batch": [0, 0, 1, 1], "nodes": [0, 2, 4]},
        {"hop": [6, 7, 8, 0, 0], "edge_index": edges[1], "ptr": [0, 1, 2, 2, 2, 2]}
        | {"batch": [0, 0, 0, 2, 2], "nodes": [0, 3, 3, 5]},
    ]
    assert lists(joint.fields(trim=True)) == PLAIN


def test_the_tensors_of_a_joint_are_aligned_views_of_one_tensor():
    sizes = {"graphs": [2, 2], "nodes": [4, 5], "edges": [5, 3]}
    (joint,) = pack([FIELDS], STARTS, sizes)
    parts = [
        part
        for each in joint.fields() + joint.fields(trim=True)
        for part in each.values()
    ]
    assert len({part.untyped_storage().data_ptr() for part in parts}) == 1
    assert all(part.storage_offset() % ALIGNMENT == 0 for part in parts)
    assert all(part.is_contiguous() for one in joint.fields() for part in one.values())


def test_splitting_leaves_the_tensors_of_the_window_unchanged():
    before = {key: field.value.clone() for key, field in FIELDS.items()}
    pack([FIELDS], STARTS, {"graphs": [2, 2], "nodes": [4, 5], "edges": [5, 3]})
    assert all(torch.equal(FIELDS[key].value, value) for key, value in before.items())


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
