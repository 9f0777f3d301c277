"""Structural encodings that travel with rooted subgraphs, against those of a batch."""

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnak.errors import OptionError, SubgraphError
from gnnak.loading.assembler import WINDOW_PAIRS, window_shares
from gnnak.loading.forms import padded_form
from gnnak.loading.graph_loader import GraphLoader
from gnnak.loading.items import tensors_of
from gnnak.loading.loader import Subgraphs
from gnnak.loading.padder import Demand
from gnnak.loading.shapes import Shapes
from gnnak.loading.splitting import split, split_padded
from gnnak.loading.windows import make_window
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs import (
    EgoNets,
    RandomWalks,
    StructuralEncoding,
    WholeGraphs,
    WithEncodings,
    extract,
)
from gnnak.subgraphs.attached import same_extractor
from gnnak.subgraphs.cached import cache_if_small, cache_subgraphs
from gnnak.subgraphs.encodings import extracted_encodings, without_encodings
from tests.graphs.graph_strategies import stores
from tests.training.small import triangles

ENCODINGS = (
    StructuralEncoding("rrwp", 4),
    StructuralEncoding("resistance"),
    StructuralEncoding("closed-walks", 3),
)
ENCODED = WithEncodings(EgoNets(2), ENCODINGS)


def assert_encoded(subgraphs, batch, rows=None):
    """Check the cached encodings against those that a batch without a cache gets.

    Args:
        subgraphs: Rooted subgraphs with cached encodings, maybe with padding.
        batch: The graphs, without padding.
        rows: The rooted subgraphs without padding; None = `subgraphs`.
    """
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
def test_encodings_are_split_padded_and_sampled_with_the_subgraphs(
    extractor, drop, cached
):
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
    more = 8 * (copies * (5 + 1) + nodes * 3)
    assert cached.num_bytes == bare.num_bytes + more
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
        (("resistance", 3), "have no steps; leave num_steps out"),
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
