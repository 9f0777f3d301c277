"""Fields of two batches in one block of memory: all numbers by hand."""

import pytest
import torch

from gnnak.loading.padding import ALIGNMENT, Joint
from gnnak.loading.splitters import split_fields
from gnnak.loading.windows import Field

STARTS = {"graphs": [0, 1, 2], "nodes": [0, 2, 5], "edges": [0, 1, 3]}
FIELDS = {
    "hop": Field(torch.tensor([4, 5, 6, 7, 8]), "nodes"),
    "edge_index": Field(
        torch.tensor([[0, 2, 4], [1, 3, 3]]), "edges", "nodes", "edges"
    ),
    "ptr": Field(torch.tensor([0, 1, 1, 2, 3, 3]), "nodes", "edges", "pointers"),
}


def lists(batches):
    return [{key: part.tolist() for key, part in batch.items()} for batch in batches]


PLAIN = [
    {"hop": [4, 5], "edge_index": [[0], [1]], "ptr": [0, 1, 1]},
    {"hop": [6, 7, 8], "edge_index": [[0, 2], [1, 1]], "ptr": [0, 1, 2, 2]},
]


def test_split_fields_counts_from_0_in_each_batch():
    assert lists(split_fields(FIELDS, STARTS)) == PLAIN


@pytest.mark.parametrize(("chosen", "wanted"), [(slice(1, 3), 1), (slice(0, 2), 0)])
def test_split_fields_leaves_out_rows_before_and_after(chosen, wanted):
    starts = {axis: at[chosen] for axis, at in STARTS.items()}
    assert lists(split_fields(FIELDS, starts)) == [PLAIN[wanted]]


def test_split_fields_of_no_batch():
    assert split_fields(FIELDS, {axis: at[2:] for axis, at in STARTS.items()}) == []


def test_joint_pads_each_batch_to_its_size():
    sizes = {"graphs": [2, 2], "nodes": [4, 5], "edges": [5, 3]}
    joint = Joint(FIELDS, STARTS, sizes)
    edges = [[0, 2, 2, 3, 3], [1, 2, 2, 3, 3]], [[0, 2, 3], [1, 1, 3]]
    assert lists(joint.padded()) == [
        {"hop": [4, 5, 0, 0], "edge_index": edges[0], "ptr": [0, 1, 1, 1, 1]},
        {"hop": [6, 7, 8, 0, 0], "edge_index": edges[1], "ptr": [0, 1, 2, 2, 2, 2]},
    ]
    assert lists(joint.trimmed()) == PLAIN


def test_the_tensors_of_a_joint_are_aligned_views_of_one_tensor():
    sizes = {"graphs": [2, 2], "nodes": [4, 5], "edges": [5, 3]}
    joint = Joint(FIELDS, STARTS, sizes)
    parts = [
        part for batch in joint.padded() + joint.trimmed() for part in batch.values()
    ]
    assert len({part.untyped_storage().data_ptr() for part in parts}) == 1
    assert all(part.storage_offset() % ALIGNMENT == 0 for part in parts)
    assert all(
        part.is_contiguous() for batch in joint.padded() for part in batch.values()
    )


def test_splitting_leaves_the_tensors_of_the_window_unchanged():
    before = {key: field.value.clone() for key, field in FIELDS.items()}
    split_fields(FIELDS, STARTS)
    Joint(FIELDS, STARTS, {"graphs": [2, 2], "nodes": [4, 5], "edges": [5, 3]})
    assert all(torch.equal(FIELDS[key].value, value) for key, value in before.items())
