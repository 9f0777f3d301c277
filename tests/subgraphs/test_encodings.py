import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch

from gnnak.errors import GnnakError, OptionError, SizeError, SubgraphError
from gnnak.loading.assembler import WINDOW_PAIRS, Subgraphs, window_shares
from gnnak.loading.forms import padded_form
from gnnak.loading.graph_loader import GraphLoader
from gnnak.loading.items import tensors_of
from gnnak.loading.padder import Demand, Shapes
from gnnak.loading.windows import make_window, split, split_padded
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs import (
    EgoNets,
    RandomWalks,
    StructuralEncoding,
    WholeGraphs,
    WithEncodings,
    distance_counts,
    extract,
    resistance,
    root_mark,
    rrwp,
)
from gnnak.subgraphs.attached import same_extractor
from gnnak.subgraphs.cached import cache_if_small, cache_subgraphs
from gnnak.subgraphs.encodings import (
    closed_walks,
    extracted_encodings,
    short_distance,
    without_encodings,
)
from gnnak.testing import small_graphs
from tests.graphs.graph_strategies import stores
from tests.nn.literal import counted
from tests.training.small import triangles

GRAPHS = small_graphs()
PATH = GRAPHS["path"].edge_index


def matrix_of(data):
    """The adjacency matrix: entry (v, u) counts the edges u -> v."""
    found = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.double)
    for source, target in data.edge_index.t().tolist():
        found[target, source] += 1
    return found


def test_root_mark_and_short_distance_by_hand():
    subgraphs = WholeGraphs(max_hops=2)(GRAPHS["two components"].edge_index, 5)
    first = slice(0, 5)
    assert root_mark(subgraphs)[first].tolist() == [1, 0, 0, 0, 0]
    assert short_distance(subgraphs, 2)[first].tolist() == [0, 1, 2, 2, 2]
    assert short_distance(subgraphs, 4)[first].tolist() == [0, 1, 4, 4, 4]


@pytest.mark.parametrize("extractor", [EgoNets(1), WholeGraphs()], ids=str)
@pytest.mark.parametrize("name", GRAPHS)
def test_rrwp_and_closed_walks_are_powers_of_dense_matrices(name, extractor):
    data = GRAPHS[name]
    subgraphs = extractor(data.edge_index, data.num_nodes)
    dense = matrix_of(data)
    walk = dense / dense.sum(dim=1, keepdim=True).clamp(min=1)
    powers = [torch.linalg.matrix_power(walk, k) for k in range(5)]
    wanted = torch.stack(powers, dim=2)[subgraphs.subgraph, subgraphs.node]
    found = rrwp(subgraphs, data.edge_index, num_steps=4)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    looped = dense + torch.eye(data.num_nodes, dtype=torch.double)
    scale = torch.diag(looped.sum(dim=1) ** -0.5)
    normal = scale @ looped @ scale
    closed = [torch.linalg.matrix_power(normal, k).diagonal() for k in (1, 2, 3)]
    found = closed_walks(subgraphs, data.edge_index, num_steps=3)
    torch.testing.assert_close(found, torch.stack(closed, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", GRAPHS)
def test_resistance_is_that_of_the_pseudoinverse(name):
    data = GRAPHS[name]
    subgraphs = WholeGraphs()(data.edge_index, data.num_nodes)
    dense = matrix_of(data)
    dense = (dense + dense.t()) / 2
    inverse = torch.linalg.pinv(torch.diag(dense.sum(dim=1)) - dense)
    own = inverse.diagonal()
    wanted = own[:, None] + own[None, :] - 2 * inverse
    reached = torch.linalg.matrix_power(dense + torch.eye(len(dense)).double(), 9) > 0
    wanted = torch.where(reached, wanted, -1.0).flatten()
    found = resistance(subgraphs, data.edge_index)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_resistance_of_a_path_is_its_length():
    subgraphs = WholeGraphs()(PATH, 3)
    found = resistance(subgraphs, PATH).reshape(3, 3)
    wanted = torch.tensor([[0, 1, 2], [1, 0, 1], [2, 1, 0]]).double()
    torch.testing.assert_close(found, wanted)


def test_encodings_of_a_batch_are_those_of_its_graphs():
    graphs = list(GRAPHS.values())
    whole = Batch.from_data_list(graphs)
    for encode in (rrwp, resistance, closed_walks, distance_counts):
        alone = [
            encode(EgoNets(2)(data.edge_index, data.num_nodes), data.edge_index)
            for data in graphs
        ]
        for batch in (whole.batch, None):
            # A fresh record has no cached encodings.
            fresh = EgoNets(2)(whole.edge_index, whole.num_nodes)
            found = encode(fresh, whole.edge_index, batch)
            torch.testing.assert_close(found, torch.cat(alone))


def test_encodings_without_batch_join_the_parts_of_a_pair():
    """A pair (root, node) of two components is in one part, and no walk joins it."""
    edges = GRAPHS["two components"].edge_index
    found = rrwp(WholeGraphs()(edges, 5), edges, num_steps=2)
    far = torch.tensor([[0, 2], [4, 1]])
    assert not found.view(5, 5, 3)[far[:, 0], far[:, 1]].any()


def assert_counted(edge_index, num_nodes, most, num_hops=2):
    subgraphs = EgoNets(num_hops)(edge_index, num_nodes)
    found = distance_counts(subgraphs, edge_index, max_distance=most)
    pairs = zip(subgraphs.subgraph.tolist(), subgraphs.node.tolist(), strict=True)
    wanted = [counted(edge_index, num_nodes, *p, most) for p in pairs]
    assert found.shape == (subgraphs.num_copies, (most + 2) ** 2 - 1)
    assert torch.equal(found, torch.stack(wanted) if wanted else found)


def test_distance_counts_of_a_path_by_hand():
    """D = 1, so that a, b = 2 means "farther than 1"."""
    subgraphs = WholeGraphs()(PATH, 3)
    found = distance_counts(subgraphs, PATH, max_distance=1).view(3, 3, 8)
    # Columns:  00 01 02 10 11 12 20 21
    same_end = [1, 0, 0, 0, 1, 0, 0, 0]  # u = v = 0: itself, and its neighbour 1
    beside = [
        0,
        1,
        0,
        1,
        0,
        0,
        0,
        1,
    ]  # (0, 1): 0 is at (0, 1), 1 at (1, 0), 2 at (2, 1)
    ends = [0, 0, 1, 0, 1, 0, 1, 0]  # (0, 2): 0 at (0, 2), 1 at (1, 1), 2 at (2, 0)
    middle = [1, 0, 0, 0, 2, 0, 0, 0]  # u = v = 1: itself, and both neighbours
    back = [0, 1, 0, 1, 0, 1, 0, 0]  # (1, 0): 1 at (0, 1), 0 at (1, 0), 2 at (1, 2)
    wanted = [[same_end, beside, ends], [back, middle, back], [ends, beside, same_end]]
    assert found.tolist() == wanted


@pytest.mark.parametrize("name", GRAPHS)
def test_distance_counts_of_corner_cases_are_those_of_loops(name):
    assert_counted(GRAPHS[name].edge_index, GRAPHS[name].num_nodes, most=2)


@given(stores(), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_distance_counts_are_those_of_loops(store, most):
    batch = store[:]
    assert_counted(batch.edge_index, batch.num_nodes, most)


def test_distance_counts_in_chunks_and_of_some_roots(monkeypatch):
    edges, roots = GRAPHS["directed"].edge_index, torch.tensor([2, 0])
    size = GRAPHS["directed"].num_nodes
    subgraphs = EgoNets(2)(edges, size)
    wanted = distance_counts(subgraphs, edges)
    monkeypatch.setattr("gnnak.subgraphs.encodings.TRIPLE_CHUNK", 3)
    assert torch.equal(distance_counts(EgoNets(2)(edges, size), edges), wanted)
    some = extract(EgoNets(2), edges, size, roots=roots)
    rows = [wanted[subgraphs.subgraph == root] for root in roots.tolist()]
    assert torch.equal(distance_counts(some, edges), torch.cat(rows))


def test_resistance_of_many_graphs_is_that_of_smaller_groups(monkeypatch):
    whole = Batch.from_data_list([*GRAPHS.values(), *GRAPHS.values()])
    given = (whole.edge_index, whole.num_nodes)
    wanted = resistance(EgoNets(2)(*given), whole.edge_index, whole.batch)
    for entries in (1, 40):  # one or a few Laplacians at a time
        monkeypatch.setattr("gnnak.subgraphs.encodings.CHUNK_ENTRIES", entries)
        found = resistance(EgoNets(2)(*given), whole.edge_index, whole.batch)
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("encode", "sentence"),
    [
        (resistance, "distances of a graph with 60,000 nodes take 144.0 GB, more than"),
        (rrwp, "from all of 60,000 nodes, .* take 864.0 GB, more than the 1.0"),
        (closed_walks, "more than the 1.0 GB of free memory; leave out the encoding"),
    ],
    ids=["resistance", "rrwp", "closed walks"],
)
def test_encodings_of_a_large_graph_are_refused_at_once(encode, sentence, monkeypatch):
    monkeypatch.setattr("gnnak.subgraphs.copy_limit.free_bytes", lambda _: 10**9)
    ends = torch.arange(60_000)
    forth = torch.stack([ends[:-1], ends[1:]])
    path = torch.cat([forth, forth.flip(0)], dim=1)
    with pytest.raises(SizeError, match=sentence):
        encode(EgoNets(1)(path, 60_000), path)


def test_rrwp_of_many_pairs_is_refused_before_memory_is_spent(monkeypatch):
    monkeypatch.setattr("gnnak.subgraphs.copy_limit.UNCHECKED_BYTES", 0)
    monkeypatch.setattr("gnnak.subgraphs.copy_limit.free_bytes", lambda _: 5000)
    with pytest.raises(SizeError, match="walks of 99 steps between 9 node pairs"):
        rrwp(WholeGraphs()(PATH, 3), PATH, num_steps=99)


ENCODINGS = (
    StructuralEncoding("rrwp", 4),
    StructuralEncoding("resistance"),
    StructuralEncoding("closed-walks", 3),
    StructuralEncoding("distance-counts", max_distance=1),
)
ENCODED = WithEncodings(EgoNets(2), ENCODINGS)


def assert_encoded(subgraphs, batch, rows=None):
    """Check cached encodings; `rows` are the subgraphs without padding."""
    fresh = (rows or subgraphs).unpadded().to("cpu")
    assert not extracted_encodings(fresh)
    found = extracted_encodings(subgraphs)
    assert len(found) == len(ENCODINGS)
    for encoding, encoded in zip(ENCODINGS, found.values(), strict=True):
        wanted = encoding(fresh, batch.edge_index, batch.batch)
        real, padding = encoded.rows.split(
            [wanted.size(0), encoded.rows.size(0) - wanted.size(0)]
        )
        torch.testing.assert_close(real, wanted, rtol=0, atol=1e-12)
        assert not padding.any()
        given = encoding(subgraphs, batch.edge_index, batch.batch)
        assert given is encoded.rows


@given(stores(), st.data())
@settings(max_examples=40, deadline=None)
def test_extracted_encodings_are_those_of_each_batch(store, data):
    cached = cache_subgraphs(store, ENCODED)
    position = st.integers(0, max(len(store) - 1, 0))
    chosen = data.draw(st.lists(position, max_size=4 if len(store) else 0))
    indices = torch.tensor(chosen, dtype=torch.long)
    assert_encoded(cached[indices], store[indices])


@pytest.mark.parametrize("extractor", [EgoNets(1), WholeGraphs(), RandomWalks(3, 2)])
@pytest.mark.parametrize("drop", [None, SubgraphDrop("random", 1)])
@pytest.mark.parametrize("cached", [True, False])
def test_encodings_are_split_padded_and_sampled_with_subgraphs(extractor, drop, cached):
    store, extractor = triangles(4).store, WithEncodings(extractor, ENCODINGS)
    cache = cache_subgraphs(store, extractor) if cached else None
    source = Subgraphs(cache, None if cached else extractor, drop)
    positions = torch.tensor([5, 0, 3, 1, 2, 5])
    graphs = store[positions]
    whole = source.of(graphs, positions, torch.Generator().manual_seed(0))
    assert_encoded(whole, graphs)
    window = make_window(graphs, whole, [3, 3])
    plain = split(window)
    padded = split_padded(window, Shapes().of(window, 2, 2))
    for item, with_padding in zip(plain, padded, strict=True):
        assert_encoded(item.subgraphs, item.batch)
        assert_encoded(with_padding.subgraphs, item.batch, item.subgraphs)


@pytest.mark.parametrize("at_once", [True, False])
def test_batches_of_a_graph_loader_have_encodings(at_once, monkeypatch):
    """Also if they are padded: by the loader, or when the padded form is first used."""
    monkeypatch.setattr(Demand, "pads_next", lambda _: at_once)
    loader = GraphLoader(triangles(4).store, 4, subgraphs=ENCODED, pad=True)
    for batch in loader:
        assert_encoded(batch.subgraphs, batch)
        form = padded_form(batch)
        assert_encoded(form.item.subgraphs, batch, batch.subgraphs)


def test_padded_forms_have_no_encodings_that_a_model_computed(monkeypatch):
    """So that all padded batches of a loader have the same tensors."""
    monkeypatch.setattr(Demand, "pads_next", lambda _: False)
    loader = GraphLoader(triangles(4).store, 4, subgraphs=EgoNets(2), pad=True)
    used, other = loader
    for encoding in ENCODINGS:
        encoding(used.subgraphs, used.edge_index, used.batch)
    counts = {len(tensors_of(padded_form(batch).item)) for batch in (used, other)}
    assert len(counts) == 1


def test_cache_counts_the_memory_of_encodings(monkeypatch):
    store = triangles(4).store
    bare, cached = (cache_subgraphs(store, each) for each in (EgoNets(2), ENCODED))
    copies, nodes = bare.node.numel(), int(store.num_nodes.sum())
    more = 8 * (copies * (5 + 1 + 8) + nodes * 3)
    assert cached.int32_bytes == bare.int32_bytes + more
    assert cache_if_small(store, ENCODED, cached.int32_bytes) is not None
    assert cache_if_small(store, ENCODED, cached.int32_bytes - 1) is None
    assert cache_if_small(store, EgoNets(2), cached.int32_bytes - 1) is not None
    monkeypatch.setattr("gnnak.subgraphs.cached.PAIR_CHUNK", 30)
    indices = torch.arange(len(store))
    assert_encoded(cache_subgraphs(store, ENCODED)[indices], store[indices])


def test_with_encodings_is_an_extractor_like_the_one_it_wraps():
    assert (ENCODED.random, ENCODED.max_hops) == (False, 2)
    assert WithEncodings(RandomWalks(3, 2), ENCODINGS).random
    assert pickle.loads(pickle.dumps(ENCODED)) == ENCODED
    assert same_extractor(ENCODED, EgoNets(2))
    assert not same_extractor(EgoNets(1), ENCODED)
    assert repr(ENCODED).startswith("WithEncodings(extractor=EgoNets(num_hops=2")
    batch = triangles(3).store[:]
    given = (batch.edge_index, batch.num_nodes)
    extract(ENCODED, *given, batch=batch.batch).check(*given)


def test_with_encodings_checks_the_subgraphs_of_your_own_extractor():
    class Broken:
        random, max_hops = False, 1

        def __call__(self, edge_index, num_nodes, generator=None):
            return EgoNets(1)(edge_index, num_nodes - 1)

    with pytest.raises(SubgraphError, match="the extractor Broken returned"):
        extract(WithEncodings(Broken(), ENCODINGS), torch.zeros(2, 0).long(), 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("rwse", 3), "a structural encoding"),
        (("rrwp",), "num_steps"),
        (("distance-counts", 3), "num_steps is 3, but 'distance-counts' has no"),
        (("distance-counts", None, 0), "max_distance is 0; give a whole number"),
        (("resistance", 3), "has no such option; leave num_steps out"),
    ],
)
def test_structural_encoding_with_wrong_options_says_so(given, message):
    with pytest.raises(OptionError, match=message):
        StructuralEncoding(*given)


def test_bad_arguments_get_one_sentence():
    with pytest.raises(OptionError, match="extractor is 3; give an extractor"):
        WithEncodings(3, ())
    with pytest.raises(OptionError, match="encodings has 'rrwp'; give"):
        WithEncodings(EgoNets(1), ("rrwp",))


def test_encodings_around_encodings_leave_one_extractor():
    inner = WithEncodings(EgoNets(1), [StructuralEncoding("resistance")])
    outer = WithEncodings(inner, (StructuralEncoding("rrwp", 2),))
    assert without_encodings(outer) == EgoNets(1)
    assert hash(inner) == hash(WithEncodings(EgoNets(1), inner.encodings))


def test_windows_have_room_for_matrices_of_node_pairs():
    store = triangles().store
    plain = window_shares(store, Subgraphs(None, EgoNets(2)), 4)
    encoded = window_shares(store, Subgraphs(None, ENCODED), 4)
    pairs = store.counts[0].double().square() / WINDOW_PAIRS
    torch.testing.assert_close(encoded - plain, pairs)


@pytest.mark.parametrize("encoding", [rrwp, resistance])
def test_encodings_refuse_an_unsorted_batch(encoding):
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    subgraphs = EgoNets(1)(edges, 4)
    with pytest.raises(GnnakError, match="batch is not sorted"):
        encoding(subgraphs, edges, torch.tensor([1, 1, 0, 0]))
