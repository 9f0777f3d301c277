"""Padded batches: every rule of padding, and networks that ignore it."""

from unittest import mock

import pytest
import torch
from torch_geometric.data import Data

from gnnak.backend import PLAIN, use_backend
from gnnak.errors import CoverageError, SubgraphError
from gnnak.graphs import GraphStore, from_pyg
from gnnak.graphs.real import BATCH_AXES
from gnnak.loading import padder
from gnnak.loading.items import tensors_of
from gnnak.loading.padder import Shapes, choose_shape
from gnnak.loading.windows import (
    GROUPS,
    SAMPLED_GROUPS,
    make_window,
    split,
    split_both,
    split_padded,
)
from gnnak.sampling.drop import SubgraphDrop
from gnnak.sampling.estimate import SampledSubgraphs
from gnnak.subgraphs import EgoNets
from gnnak.subgraphs.cached import cache_subgraphs
from gnnak.subgraphs.rooted import RootedSubgraphs
from tests.loading.test_windows import assert_same_tensors
from tests.models.zoo import ATOMS, molecules, small_network

NEAR = EgoNets(2)
BATCH = ("x", "edge_index", "edge_attr", "y", "batch", "ptr")
RECORD = ("root", "node", "subgraph", "hop", "edge_index", "edge", "centroid")
FILLING, SAMPLED = ("node", "subgraph", "weight"), ("held", "covered")


def molecule_store(copies: int = 1) -> GraphStore:
    """Corner cases: an empty graph, single nodes, graphs without edges."""
    empty = Data(
        x=torch.zeros(0, len(ATOMS.sizes), dtype=torch.long),
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        edge_attr=torch.zeros(0, 1, dtype=torch.long),
    )
    graphs = molecules()
    for graph in graphs:
        graph.edge_attr = graph.edge_attr[:, None]
    for index, graph in enumerate([*graphs, empty]):
        graph.y = torch.tensor([float(index)])
    return from_pyg([*graphs[:3], empty, *graphs[3:]] * copies)


def window_of(store, sizes, sampled=False, extractor=NEAR):
    positions = torch.arange(len(store))
    graphs, subgraphs = store[positions], None
    if extractor is not None:
        subgraphs = cache_subgraphs(store, extractor)[positions]
    if sampled:
        generator = torch.Generator().manual_seed(0)
        subgraphs = SubgraphDrop("random", 2)(subgraphs, graphs.edge_index, generator)
    return make_window(graphs, subgraphs, sizes)


def padded_and_plain(sampled=False, extractor=NEAR):
    store = molecule_store(2)
    count = len(store) // 2
    window = window_of(store, [count, count - 2, 2], sampled, extractor)
    shapes = Shapes()
    with mock.patch.multiple(padder, LEAST_STEP=4):
        shapes.of(window, until=3, full=1)
        # The second batch has the smallest shape that it fits in.
        rows = {axis: window.counts(axis)[1] for axis in window.axes}
        tight = choose_shape(rows | {"graphs": shapes.most["graphs"]})
    assert tight.nodes < shapes.largest.nodes
    padded = split_padded(window, [shapes.largest, tight, shapes.largest])
    return padded, split(window, groups=extractor is not None)


@pytest.mark.parametrize("sampled", [False, True])
def test_real_rows_of_a_padded_batch_are_those_of_the_batch(sampled):
    for item, plain in zip(*padded_and_plain(sampled), strict=True):
        ours, theirs, real = item.subgraphs, plain.subgraphs, item.batch.real
        assert real.graphs == plain.batch.num_graphs
        sizes = [
            plain.batch.num_graphs,
            plain.batch.num_nodes,
            plain.batch.num_edges,
            theirs.num_subgraphs,
            theirs.num_copies,
            theirs.num_edge_copies,
        ]
        assert real.counts.tolist() == sizes
        assert ours.real is real
        named = (real.nodes, real.edges, real.subgraphs, real.copies, real.edge_copies)
        assert [int(count) for count in named] == sizes[1:]
        pairs = [(getattr(item.batch, f), getattr(plain.batch, f)) for f in BATCH]
        pairs += [(getattr(ours, f), getattr(theirs, f)) for f in RECORD]
        pairs += [(ours.by(axis).ptr, theirs.by(axis).ptr) for axis in GROUPS]
        pairs += [(ours.by(a).order, theirs.by(a).order) for a in ("node", "edge")]
        if sampled:
            found = [(ours.by(axis), theirs.by(axis)) for axis in SAMPLED_GROUPS]
            pairs += [(one.ptr, other.ptr) for one, other in found]
            pairs += [(one.order, other.order) for one, other in found]
            pairs += [
                (getattr(ours.filling, f), getattr(theirs.filling, f)) for f in FILLING
            ]
            pairs += [(getattr(ours, f), getattr(theirs, f)) for f in SAMPLED]
        for padded, wanted in pairs:
            along = padded.dim() - 1 if wanted.size(0) == 2 and wanted.dim() == 2 else 0
            rows = padded.narrow(along, 0, wanted.size(along))
            assert torch.equal(rows, wanted)


@pytest.mark.parametrize("sampled", [False, True])
def test_padding_indices_refer_to_padding_rows(sampled):
    for item in padded_and_plain(sampled)[0]:
        item.batch.check()
        item.subgraphs.check(item.batch.edge_index, item.batch.num_nodes)
        real, subs, shape = item.batch.real, item.subgraphs, item.shape
        assert real.graphs < item.batch.num_graphs == shape.graphs
        assert (item.batch.batch[real.nodes :] == shape.graphs - 1).all()
        assert item.batch.num_nodes == subs.num_nodes == shape.nodes
        assert item.batch.num_edges == subs.num_edges == shape.edges
        assert subs.num_subgraphs == shape.subgraphs
        assert subs.num_copies == shape.copies
        assert subs.num_edge_copies == shape.edge_copies
        spread = [
            (item.batch.edge_index[0], "edges", "nodes"),
            (subs.root, "subgraphs", "nodes"),
            (subs.centroid, "subgraphs", "copies"),
            (subs.node, "copies", "nodes"),
            (subs.subgraph, "copies", "subgraphs"),
            (subs.edge_index[0], "edge_copies", "copies"),
            (subs.edge, "edge_copies", "edges"),
        ]
        for value, along, counts in spread:
            padding = value[real.counts[BATCH_AXES.index(along)] :]
            first, size = real.counts[BATCH_AXES.index(counts)], getattr(shape, counts)
            assert padding.numel()
            assert ((first <= padding) & (padding < size)).all()
            often = torch.bincount(padding - first, minlength=int(size - first))
            assert often.max() - often.min() <= 1
            assert (padding.diff() >= 0).all()
        for edges, count in (
            (item.batch.edge_index, real.edges),
            (subs.edge_index, real.edge_copies),
        ):
            assert torch.equal(edges[0, count:], edges[1, count:])
        for value in (item.batch.x[real.nodes :], subs.hop[real.copies :]):
            assert not value.any()
        assert not item.batch.edge_attr[real.edges :].any()
        if sampled:
            assert isinstance(subs, SampledSubgraphs)
            assert (subs.held[real.nodes :] == 1).all()
            assert (subs.covered[real.nodes :] == 1).all()
            assert subs.filling.node.numel() == shape.fillings
            padding = subs.filling.weight == 0
            assert padding.any()
            assert (subs.filling.node[padding] >= real.nodes).all()
            assert (subs.filling.subgraph[padding] >= real.subgraphs).all()
        else:
            assert torch.equal(subs.root, torch.arange(shape.nodes))


def test_padding_rows_are_in_no_group():
    for item, plain in zip(*padded_and_plain(), strict=True):
        rows = {"copies": item.subgraphs.node, "edge_copies": item.subgraphs.edge}
        for axis, (keys, kind) in GROUPS.items():
            groups, real = item.subgraphs.by(axis), plain.subgraphs.by(axis)
            assert len(groups) == getattr(item.shape, keys)
            count = item.batch.real.counts[BATCH_AXES.index(kind)]
            assert (groups.ptr[len(real) :] == count).all()
            if groups.order is not None:
                order = torch.arange(rows[kind].numel())
                assert torch.equal(groups.order[count:], order[count:])


def assert_same_on_padded(networks, items, plain_items, before=lambda: None):
    """Compare a network on padded items with another on the items without padding."""
    padded, plain = networks
    exact = {"rtol": 1e-9, "atol": 1e-9}
    for item, alone in zip(items, plain_items, strict=True):
        before()
        got = padded(item.batch, subgraphs=item.subgraphs)
        got = got[: item.batch.real.graphs]
        before()
        with use_backend(PLAIN):
            wanted = plain(alone.batch, subgraphs=alone.subgraphs)
        torch.testing.assert_close(got, wanted, **exact)
        weights = torch.randn_like(wanted)
        (got * weights).sum().backward()
        (wanted * weights).sum().backward()
    found, wanted = (
        [*(weight.grad for weight in net.parameters()), *net.buffers()]
        for net in networks
    )
    torch.testing.assert_close(found, wanted, **exact)


@pytest.mark.parametrize(
    "name", ["gin", "gin-ak+", "gcn-ak+", "pna*-ak+", "gin-ak+-s", "pna*-ak+-s"]
)
@pytest.mark.parametrize("recompute", [False, True])
def test_network_ignores_padding(name, recompute):
    extractor = None if name == "gin" else NEAR
    items, plain_items = padded_and_plain(name.endswith("-s"), extractor)
    networks = [small_network(name).train() for _ in range(2)]
    for network in networks:
        network.save_memory(recompute=recompute)
    assert_same_on_padded(networks, items, plain_items)


def test_split_padded_leaves_a_larger_last_batch_to_split():
    store = molecule_store()
    window = window_of(store, [2, 2, 3])
    shapes = Shapes().of(window, until=2, full=2)
    padded, rest = split_padded(window, shapes), split(window, first_batch=2)
    assert [item.batch.num_graphs for item in padded] == [3, 3]
    assert [item.batch.num_graphs for item in rest] == [3]
    assert torch.equal(rest[0].batch.x, store[4:7].x)


def test_split_padded_of_a_sample_of_all_subgraphs_is_not_in_order():
    store = molecule_store()
    graphs, full = store[:], cache_subgraphs(store, NEAR)[:]
    everything = SubgraphDrop("random", 50)(full, graphs.edge_index)
    assert everything.num_subgraphs == graphs.num_nodes
    window = make_window(graphs, everything, [len(store)])
    shapes = Shapes().of(window, 1, 1)
    assert not split_padded(window, shapes)[0].subgraphs.in_order


def test_a_padded_batch_needs_padded_subgraphs():
    item = padded_and_plain()[0][0]
    network, batch = small_network("gin-ak+").train(), item.batch
    fresh = NEAR(batch.edge_index, batch.num_nodes)
    for subgraphs in (None, fresh):
        with pytest.raises(SubgraphError, match="padded, but its rooted subgraphs are"):
            network(batch, subgraphs=subgraphs)
    with pytest.raises(CoverageError, match="sample subgraphs before they are padded"):
        SubgraphDrop("random", 1)(item.subgraphs, batch.edge_index)


def both_and_alone(sampled=False, extractor=NEAR, until=3):
    """Padded batches, their views without padding, and batches split without it."""
    store = molecule_store(2)
    count = len(store) // 2
    window = window_of(store, [count, count - 2, 2], sampled, extractor)
    with mock.patch.multiple(padder, LEAST_STEP=4):
        shapes = Shapes().of(window, until=until, full=1)
    alone = split(window, groups=extractor is not None)
    return *split_both(window, shapes), alone


@pytest.mark.parametrize("sampled", [False, True])
def test_views_equal_batches_split_without_padding(sampled):
    _, views, alone = both_and_alone(sampled)
    assert len(views) == len(alone) == 3
    for view, item in zip(views, alone, strict=True):
        assert (
            view.shape is view.sizes is view.batch.real is view.subgraphs.real is None
        )
        assert_same_tensors(view.batch, item.batch)
        assert_same_tensors(view.subgraphs, item.subgraphs)
        axes = [*GROUPS, *(SAMPLED_GROUPS if sampled else ())]
        for axis in axes:
            assert_same_tensors(view.subgraphs.by(axis), item.subgraphs.by(axis))
        assert torch.equal(view.subgraphs.centroid, item.subgraphs.centroid)
        assert view.subgraphs.max_hop == item.subgraphs.max_hop
        view.subgraphs.check(view.batch.edge_index, view.batch.num_nodes)


@pytest.mark.parametrize("sampled", [False, True])
def test_views_take_no_memory_of_their_own(sampled):
    padded, views, _ = both_and_alone(sampled)
    for item, view in zip(padded, views, strict=True):
        kept = {t.untyped_storage().data_ptr() for t in tensors_of(item)}
        assert {t.untyped_storage().data_ptr() for t in tensors_of(view)} <= kept


def test_views_without_subgraphs():
    _, views, alone = both_and_alone(extractor=None)
    for view, item in zip(views, alone, strict=True):
        assert view.subgraphs is None
        assert_same_tensors(view.batch, item.batch)


def test_a_last_batch_without_shape_has_no_view():
    padded, views, _ = both_and_alone(until=2)
    assert len(padded) == len(views) == 2


def test_views_of_further_fields():
    store = molecule_store(2)
    graphs, sizes = store[torch.arange(len(store))], [len(store) - 2, 2]
    extra = {"pos": ("nodes", torch.rand(graphs.num_nodes, 3))}
    window = make_window(graphs, None, sizes, extra=extra)
    _, views = split_both(window, Shapes().of(window, until=2, full=1))
    for view, item in zip(views, split(window), strict=True):
        assert torch.equal(view.extra["pos"], item.extra["pos"])


def test_a_tensor_that_serves_as_several_fields_is_split_for_each():
    store = molecule_store(1)
    graphs = store[torch.arange(len(store))]
    nodes = torch.arange(graphs.num_nodes)
    none = torch.zeros(2, 0, dtype=torch.long)
    given = (none, none[0], graphs.num_nodes, graphs.num_edges)
    alone = RootedSubgraphs(nodes, nodes, nodes, torch.zeros_like(nodes), *given)
    window = make_window(graphs, alone, [len(store)])
    padded, views = split_both(window, Shapes().of(window, until=1, full=1))
    padded[0].subgraphs.check()
    assert_same_tensors(views[0].subgraphs, split(window)[0].subgraphs)
