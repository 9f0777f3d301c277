from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from gnnak import RootedSubgraphs
from gnnak.errors import EdgeAttrError, SubgraphError
from gnnak.subgraphs import egonets
from gnnak.subgraphs.rooted import TENSORS

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@pytest.fixture
def subs() -> RootedSubgraphs:
    return egonets(PATH, 3, 1)


def test_record_cannot_be_changed(subs):
    with pytest.raises(FrozenInstanceError):
        subs.root = subs.node


def test_record_tells_its_sizes(subs):
    assert repr(subs) == (
        "RootedSubgraphs(subgraphs=3, node_copies=7, edge_copies=8, device='cpu')"
    )
    assert subs.sizes.tolist() == [2, 3, 2]
    assert subs.max_hop == 1


def test_to_keeps_every_field(subs):
    moved = subs.to("cpu")
    for name in TENSORS:
        assert torch.equal(getattr(moved, name), getattr(subs, name))
    assert (moved.num_nodes, moved.num_edges) == (3, 4)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"root": [0, 0, 2]}, "root of two"),
        ({"root": [0, 1, 3]}, r"root must lie in 0\.\.2"),
        ({"node": [1, 0, 0, 1, 2, 1, 2]}, "sorted by"),
        ({"node": [0, 1, 0, 1, 2, 0, 1]}, "does not contain its root"),
        ({"subgraph": [0, 0, 1, 1, 1, 2, 3]}, r"subgraph must lie in 0\.\.2"),
        ({"hop": [0, 1, 1, 0, 1, 1]}, "same shape"),
        ({"hop": [0, 1, 1, 0, 2, 1, 0]}, "hop is not the distance"),
        ({"edge": [1, 0, 1, 0, 3, 2, 3]}, "same length"),
        ({"edge": [1, 0, 1, 0, 2, 3, 3, 2]}, "same ends as its edge"),
        ({"edge": [1, 0, 1, 0, 3, 2, 3, 4]}, r"edge must lie in 0\.\.3"),
        (
            {"edge_index": [[1, 0, 3, 2, 4, 3, 6, 0], [0, 1, 2, 3, 3, 4, 5, 6]]},
            "joins two",
        ),
        (
            {"edge_index": [[0, 1, 3, 2, 4, 3, 6, 5], [1, 0, 2, 3, 3, 4, 5, 6]]},
            "edge copies must be sorted",
        ),
    ],
)
def test_check_finds_each_broken_sentence(subs, broken, message):
    wrong = replace(subs, **{k: torch.tensor(v) for k, v in broken.items()})
    with pytest.raises(SubgraphError, match=message):
        wrong.check(PATH, 3)


def test_check_finds_a_missing_edge_copy(subs):
    # Without the rim of a triangle's egonet all distances stay the same.
    triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    full = egonets(triangle, 3, 1)
    source, target = full.edge_index
    ends = (full.hop[source] == 1) & (full.hop[target] == 1)
    rim = ends & (full.subgraph[source] == 0)
    partial = replace(full, edge_index=full.edge_index[:, ~rim], edge=full.edge[~rim])
    partial.check()
    with pytest.raises(SubgraphError, match="has no copy"):
        partial.check(triangle, 3)


def test_check_wants_int64(subs):
    with pytest.raises(SubgraphError, match="hop must be an int64 tensor"):
        replace(subs, hop=subs.hop.float()).check()


def test_check_edge_attr_wants_one_row_per_edge(subs):
    subs.check_edge_attr(torch.rand(4, 2))
    subs.check_edge_attr(torch.rand(4))
    with pytest.raises(EdgeAttrError, match=r"shape \[5, 2\]; give \[4, c\]"):
        subs.check_edge_attr(torch.rand(5, 2))


def test_hop_rows_of_tables_of_different_sizes_are_different():
    subgraphs = egonets(torch.tensor([[0, 1], [1, 0]]), 3, 1)
    subgraphs = replace(subgraphs, hop=torch.tensor([0, 1, 1, 0, -1]))
    assert subgraphs.hop_rows(4).tolist() == [0, 1, 1, 0, 3]
    assert subgraphs.hop_rows(7).tolist() == [0, 1, 1, 0, 6]
    assert subgraphs.hop_rows(4) is subgraphs.hop_rows(4)


def test_what_is_derived_in_inference_can_be_trained_with():
    subgraphs = egonets(torch.tensor([[0, 1], [1, 0]]), 3, 1)
    with torch.inference_mode():
        found = [subgraphs.centroid, subgraphs.hop_rows(3), subgraphs.by("node").order]
    assert not any(tensor.is_inference() for tensor in found)
    weight = torch.ones(5, 1, requires_grad=True)
    weight.index_select(0, found[1]).sum().backward()
    assert weight.grad is not None
