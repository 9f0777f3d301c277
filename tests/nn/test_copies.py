import pytest
import torch

from gnnak import EgoNets, SubgraphDrop
from gnnak.errors import OptionError, WidthError
from gnnak.nn import Conv, PairEncoder, copies
from gnnak.nn.base.convs import gcn
from gnnak.nn.copies import lookup, segment_reduce
from gnnak.subgraphs import NodeDeletion, WholeGraphs
from gnnak.testing import small_graphs

PATH = small_graphs()["path"].edge_index
EGOS = EgoNets(1)(PATH, 3)
"""Copies (root, node): (0,0) (0,1) (1,0) (1,1) (1,2) (2,1) (2,2)."""
Z = torch.tensor([[1.0], [2.0], [4.0], [8.0], [16.0], [32.0], [64.0]])


def flat(values):
    return values.flatten().tolist()


def summed(x, edge_index, edge_attr, batch):
    """A conv: the sum of the neighbours' states, plus the sum of the edges' states."""
    rows = x[edge_index[0]] if edge_attr is None else x[edge_index[0]] + edge_attr
    return torch.zeros_like(x).index_add(0, edge_index[1], rows)


def test_operations_by_hand():
    assert flat(copies.lift_subgraph(torch.tensor([[1.0], [2.0], [3.0]]), EGOS)) == [
        *(1, 1, 2, 2, 2, 3, 3)
    ]
    assert flat(copies.at_root(Z, EGOS)) == [1, 1, 8, 8, 8, 64, 64]
    assert flat(copies.at_own_centroid(Z, EGOS, 3)) == [1, 8, 1, 8, 64, 8, 64]
    assert flat(copies.pool_subgraph(Z, EGOS, "sum")) == [3, 28, 96]
    assert flat(copies.pool_context(Z, EGOS, 3, "sum")) == [5, 42, 80]
    nodes = torch.tensor([[1.0], [2.0], [4.0]])
    batch = torch.tensor([0, 0, 2])
    assert flat(segment_reduce(nodes, batch, 3, "mean")) == [1.5, 0, 4]


def test_messages_inside_and_across_by_hand():
    assert flat(copies.inside(summed, Z, EGOS, None)) == [2, 1, 8, 20, 8, 64, 32]
    assert flat(copies.across(summed, Z, EGOS, PATH, None)) == [4, 8, 1, 34, 64, 8, 16]
    edges = torch.tensor([[100.0], [200.0], [400.0], [800.0]])
    # Edge 0 is 0 -> 1, edge 1 is 1 -> 0, edge 2 is 1 -> 2, edge 3 is 2 -> 1.
    assert flat(copies.inside(summed, Z, EGOS, edges))[:2] == [202, 101]
    assert flat(copies.across(summed, Z, EGOS, PATH, edges))[:2] == [204, 208]


def test_operations_read_zero_at_roots_that_subgraph_drop_dropped():
    star = small_graphs()["star"]
    full = EgoNets(1)(star.edge_index, 6)
    drop = SubgraphDrop("random", min_coverage=1)
    sample = drop(full, star.edge_index, torch.Generator().manual_seed(0))
    dropped = set(range(6)) - set(sample.root.tolist())
    assert dropped
    z = torch.ones(sample.num_copies, 1)
    own = copies.at_own_centroid(z, sample, 6)
    for node, value in zip(sample.node.tolist(), flat(own), strict=True):
        assert value == (0 if node in dropped else 1)


def test_pair_encoder_adds_one_term_per_name():
    x = torch.randn(3, 4)
    subgraphs = WholeGraphs()(PATH, 3)
    names = ("mark", "distance", "rrwp", "resistance")
    encoder = PairEncoder(names, 4, max_distance=1, num_steps=2)
    wanted = copies.lift(x, subgraphs)
    for name in names:
        one = PairEncoder((name,), 4, max_distance=1, num_steps=2)
        one.parts[name] = encoder.parts[name]
        wanted = wanted + one(x, subgraphs, PATH) - copies.lift(x, subgraphs)
    torch.testing.assert_close(encoder(x, subgraphs, PATH), wanted)
    assert torch.equal(PairEncoder((), 4)(x, subgraphs, PATH), x[subgraphs.node])
    assert "pairs=('mark', 'distance'" in repr(encoder)


def test_pair_encoder_drops_entries_of_the_encodings_only():
    encoder = PairEncoder(("mark", "rrwp"), 64, dropout=0.5)
    x, subgraphs = torch.randn(3, 64), WholeGraphs()(PATH, 3)
    encodings = encoder.eval()(0 * x, subgraphs, PATH)
    torch.testing.assert_close(
        encoder(x, subgraphs, PATH), x[subgraphs.node] + encodings
    )
    del encoder.parts["rrwp"]
    wanted = 2 * encoder(0 * x, subgraphs, PATH)
    found = encoder.train()(0 * x, subgraphs, PATH)
    kept = found != 0
    assert 0.3 < kept.float().mean() < 0.7
    torch.testing.assert_close(found[kept], wanted[kept])


def test_pair_encoder_marks_the_deleted_node():
    encoder = PairEncoder(("mark",), 4)
    h = encoder(torch.zeros(3, 4), NodeDeletion()(PATH, 3), PATH)
    root, other = encoder.parts["mark"].weight[1], encoder.parts["mark"].weight[0]
    assert torch.equal(h[0], root)
    assert torch.equal(h[1], other)


def test_pair_encoder_and_conv_answer_wrong_options_in_one_sentence():
    with pytest.raises(OptionError, match="pair encoding is 'rwse'; use one of: mark"):
        PairEncoder(("rwse",), 4)
    with pytest.raises(OptionError, match="name each encoding once"):
        PairEncoder(("mark", "mark"), 4)
    with pytest.raises(WidthError, match="takes width 8, but gets 4"):
        Conv(gcn(8), 4)


ROWS = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]], dtype=torch.double)


def test_lookup_takes_the_named_rows():
    got = lookup(ROWS, torch.tensor([2, 0, 0]))
    assert got.tolist() == [[5.0, 9.0], [1.0, 2.0], [1.0, 2.0]]
    assert lookup(ROWS, torch.tensor([], dtype=torch.long)).shape == (0, 2)


@pytest.mark.parametrize(
    ("reduce", "wanted"),
    [
        ("sum", [[0, 0], [6, 11], [0, 0], [3, 4], [0, 0]]),
        ("mean", [[0, 0], [3, 5.5], [0, 0], [3, 4], [0, 0]]),
    ],
)
def test_segment_reduce_has_zero_rows_for_missing_indices(reduce, wanted):
    """Fault of the published code: scatter without a size drops trailing nodes."""
    got = segment_reduce(ROWS, torch.tensor([1, 3, 1]), 5, reduce)
    assert got.tolist() == wanted


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("size", [0, 3])
def test_segment_reduce_of_nothing_is_zero(reduce, size):
    got = segment_reduce(ROWS[:0], torch.tensor([], dtype=torch.long), size, reduce)
    assert torch.equal(got, torch.zeros(size, 2, dtype=torch.double))


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_segment_reduce_has_the_right_gradient(reduce):
    index = torch.tensor([1, 3, 1])
    rows = ROWS.clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda values: segment_reduce(values, index, 5, reduce), rows
    )


def test_segment_reduce_sums_half_precision_in_float32():
    ones = torch.ones(4096, 1, dtype=torch.bfloat16)
    got = segment_reduce(ones, torch.zeros(4096, dtype=torch.long), 1, "sum")
    assert got.dtype == torch.bfloat16
    assert got.item() == 4096


def test_segment_reduce_refuses_an_unknown_pool():
    with pytest.raises(OptionError, match="reduce is 'best'; use one of: sum, mean"):
        segment_reduce(ROWS, torch.tensor([1, 3, 1]), 5, "best")
