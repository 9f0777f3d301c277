import math
import subprocess
import sys
import weakref
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GCN, GIN, GraphSAGE
from torch_geometric.testing import MyFeatureStore, MyGraphStore
from torch_geometric.transforms import GCNNorm

from gnnak import (
    EgoNets,
    RandomWalks,
    RootLoader,
    SubgraphDrop,
    TrainingStep,
    WholeGraphs,
    uplift,
)
from gnnak.errors import GraphError, OptionError
from gnnak.loading import order, root_loader
from gnnak.loading.forms import padded_form
from gnnak.loading.prefetch import Prefetcher
from gnnak.subgraphs import WithEncodings, induce, structural_encodings
from gnnak.testing import small_graphs
from tests.loading.fake_stream import FakeStream

MODES = ["shared", "scope"]


def flat(lists) -> list:
    return [*chain.from_iterable(lists)]


def random_graph(num_nodes=120, directed=False, seed=0) -> Data:
    """A graph with self loops, duplicate edges, isolated nodes and fields of rows."""
    draw = torch.Generator().manual_seed(seed)
    ends = torch.randint(num_nodes - 5, (2, num_nodes), generator=draw)
    if not directed:
        ends = torch.cat([ends, ends.flip(0)], dim=1)
    return Data(
        x=torch.randn(num_nodes, 4, generator=draw, dtype=torch.double),
        edge_index=ends,
        edge_attr=torch.rand(ends.size(1), 3, generator=draw, dtype=torch.double),
        y=torch.randint(3, (num_nodes,), generator=draw),
        train_mask=torch.rand(num_nodes, generator=draw) < 0.5,
        tour_index=torch.arange(num_nodes).repeat(2, 1),
        names=[f"node {i}" for i in range(num_nodes)],
        title="one graph",
    )


def assert_seeds_equal_full_batch(model: nn.Module, data: Data, **options) -> None:
    """Compare the outputs of all seeds with those of the whole graph."""
    model = model.double().eval()
    extra = {"edge_weight": data.edge_weight} if "edge_weight" in data else {}
    with torch.no_grad():
        whole, seen = model(data.x, data.edge_index, **extra), []
        for batch in RootLoader(data, shuffle=True, **options):
            extra = {k: batch[k] for k in extra}
            found = model(batch.x, batch.edge_index, **extra)[: batch.batch_size]
            seeds = batch.n_id[: batch.batch_size]
            torch.testing.assert_close(found, whole[seeds], rtol=0, atol=1e-12)
            seen += seeds.tolist()
    wanted = options.get("input_nodes")
    every = range(data.num_nodes) if wanted is None else wanted.nonzero().flatten()
    assert sorted(seen) == list(map(int, every))


WITHOUT_CONTEXT = ("centroid", "subgraph")
EXACT = {
    "sage": (lambda: GraphSAGE(4, 8, 2), {"num_layers": 2}),
    "gcn, one hop more": (lambda: GCN(4, 8, 2), {"num_layers": 3}),
    "gcn-ak+": (lambda: uplift(GCN(4, 8, 2), 1), {"subgraphs": EgoNets(1)}),
    "gin-ak+, k = 2": (
        lambda: uplift(GIN(4, 8, 1, norm="BatchNorm"), 2),
        {"subgraphs": EgoNets(2), "num_layers": 1},
    ),
    "gcn-ak+ without context": (
        lambda: uplift(GCN(4, 8, 2), 1, encodings=WITHOUT_CONTEXT),
        {"subgraphs": EgoNets(1), "context": False},
    ),
    "gcn-ak+, k = 0": (
        lambda: uplift(GCN(4, 8, 2), 0),
        {"subgraphs": EgoNets(0)},
    ),
}


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", EXACT)
def test_batches_without_a_cap_give_the_outputs_of_the_whole_graph(
    case, mode, directed
):
    torch.manual_seed(0)
    make, options = EXACT[case]
    model, data = make(), random_graph(directed=directed)
    for batch_size in (9, data.num_nodes):
        options = options | {"batch_size": batch_size, "mode": mode}
        assert_seeds_equal_full_batch(model, data, **options)
    assert_seeds_equal_full_batch(model, data, input_nodes=data.train_mask, **options)


@pytest.mark.parametrize("mode", MODES)
def test_weights_of_gcn_norm_make_batches_exact_without_one_hop_more(mode):
    data = GCNNorm()(random_graph())
    model = GCN(4, 8, 2, normalize=False)
    assert_seeds_equal_full_batch(model, data, batch_size=9, mode=mode, num_layers=2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("uplifted", [False, True])
def test_batches_of_each_corner_case_are_exact(corner_case, mode, uplifted):
    if not corner_case.num_nodes:
        with pytest.raises(OptionError, match="input_nodes has no node"):
            RootLoader(corner_case)
        return
    options = {"batch_size": 2, "mode": mode}
    model = GraphSAGE(4, 8, 2)
    if uplifted:
        model, options = uplift(model, 1), options | {"subgraphs": EgoNets(1)}
    assert_seeds_equal_full_batch(model, corner_case, **options)


@pytest.mark.parametrize("subgraphs", [None, EgoNets(1), RandomWalks(3, 2, max_hops=2)])
@pytest.mark.parametrize("mode", MODES)
def test_batches_have_the_fields_of_pyg_and_rows_of_all_others(mode, subgraphs):
    data = random_graph()
    options = {"mode": mode, "num_neighbors": [3, 2], "subgraphs": subgraphs}
    mask = data.train_mask
    loader = RootLoader(data, mask, 16, **options)
    batches = [*loader]
    assert len(batches) == len(loader) == math.ceil(int(mask.sum()) / 16)
    assert torch.equal(torch.cat([b.input_id for b in batches]), mask.nonzero()[:, 0])
    for batch in batches:
        rows, seeds = batch.n_id, batch.batch_size
        assert torch.equal(rows[:seeds], batch.input_id)
        assert torch.equal(rows[batch.edge_index], data.edge_index[:, batch.e_id])
        for name in ("x", "y", "train_mask"):
            assert torch.equal(batch[name], data[name][rows])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert torch.equal(batch.tour_index, data.tour_index[:, rows])
        assert batch.names == [data.names[i] for i in rows.tolist()]
        assert (batch.title, batch.num_nodes) == (data.title, rows.numel())
        assert ("batch" in batch) is (mode == "scope")
        if mode == "scope":
            assert torch.equal(batch.batch[:seeds], torch.arange(seeds))
            assert torch.equal(*batch.batch[batch.edge_index])
        if subgraphs is not None:
            batch.subgraphs.check(batch.edge_index, batch.num_nodes, induced=False)
    chosen = torch.tensor([7, 3, 100])
    (batch,) = RootLoader(data, chosen, **options)
    assert torch.equal(batch.n_id[:3], chosen)
    assert batch.input_id.tolist() == [0, 1, 2]
    assert torch.equal(data.x, random_graph().x)  # the graph is unchanged
    assert "n_id" not in data


def test_caps_bound_the_neighbors_of_each_hop():
    data = random_graph(60, seed=1)
    (batch,) = RootLoader(data, [0, 1, 2], num_neighbors=[2, 1])
    counts = batch.edge_index[1].bincount(minlength=batch.num_nodes)
    assert counts.max() == 2
    (whole,) = RootLoader(data, [0, 1, 2], num_neighbors=[-1, -1])
    (same,) = RootLoader(data, [0, 1, 2], num_layers=2)
    assert torch.equal(whole.n_id, same.n_id)
    (less,) = RootLoader(data, [0, 1, 2], num_layers=2, num_neighbors=1)
    assert less.num_nodes < batch.num_nodes < whole.num_nodes


def test_subgraphs_of_nodes_that_no_seed_needs_consist_of_their_root():
    data = random_graph()
    (batch,) = RootLoader(data, [0, 1], subgraphs=EgoNets(1), context=False)
    wanted = EgoNets(1)(batch.edge_index, batch.num_nodes)
    near = RootLoader(data, [0, 1], num_layers=1)
    complete = next(iter(near)).num_nodes
    sizes = batch.subgraphs.sizes
    assert torch.equal(sizes[:complete], wanted.sizes[:complete])
    assert (sizes[complete:] == 1).all()
    assert (wanted.sizes[complete:] > 1).any()
    assert batch.subgraphs.in_order
    assert batch.subgraphs.hop_range == (0, 1)


@pytest.mark.parametrize("drop", [None, SubgraphDrop("random", 1)])
@pytest.mark.parametrize("mode", MODES)
def test_uplifted_models_use_the_subgraphs_of_the_batch(mode, drop, monkeypatch):
    loader = RootLoader(random_graph(), batch_size=9, mode=mode, subgraphs=EgoNets(1))
    net = uplift(GCN(4, 8, 2), 1, drop=drop).double()
    batch = next(iter(loader))
    monkeypatch.setattr(EgoNets, "__call__", None)
    net(batch.x, batch.edge_index)[: batch.batch_size].sum().backward()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("subgraphs", [None, EgoNets(2)])
def test_uplifted_models_warn_once_of_batches_without_their_subgraphs(
    subgraphs, mode, caplog
):
    net = uplift(GCN(4, 8, 2), 1).double()
    options = {"mode": mode, "num_neighbors": [2], "subgraphs": subgraphs}
    for batch in RootLoader(random_graph(), batch_size=50, **options):
        net(batch.x, batch.edge_index)
    (record,) = caplog.records
    assert "pass subgraphs=EgoNets(num_hops=1) to" in record.getMessage()


def test_uplifted_models_do_not_warn_of_batches_that_fit(caplog):
    net, data = uplift(GCN(4, 8, 2), 1).double(), random_graph()
    (fitting,) = RootLoader(data, num_neighbors=[2], subgraphs=EgoNets(1))
    (whole,) = RootLoader(data)
    for batch in (fitting, whole):
        net(batch.x, batch.edge_index)
    (part,) = RootLoader(data, [0, 1, 2], num_neighbors=[2])
    net(part.x, part.edge_index, subgraphs=EgoNets(1)(part.edge_index, part.num_nodes))
    assert not caplog.records


def test_num_layers_may_say_the_same_as_the_length_of_num_neighbors():
    options = {"num_neighbors": [2] * 4, "subgraphs": EgoNets(1)}
    both = RootLoader(random_graph(), num_layers=2, **options)
    assert repr(both) == repr(RootLoader(random_graph(), **options))


@pytest.mark.parametrize("subgraphs", [None, RandomWalks(2, 2, max_hops=1)])
@pytest.mark.parametrize("mode", MODES)
def test_samples_differ_between_epochs_and_can_be_repeated(mode, subgraphs):
    def epoch(number=None, seed=0):
        if number is not None:
            loader.set_epoch(number)
        batches = [*loader]
        copies = [batch.get("subgraphs") for batch in batches]
        nodes = [[] if each is None else each.node.tolist() for each in copies]
        return (
            [b.n_id.tolist() for b in batches],
            [b.e_id.tolist() for b in batches],
            nodes,
        )

    options = {"mode": mode, "num_neighbors": [1, 1], "subgraphs": subgraphs}
    loader = RootLoader(random_graph(), batch_size=50, seed=3, **options)
    first, second = epoch(), epoch()
    assert loader.epoch == 2
    assert first != second
    assert (epoch(0), epoch(1)) == (first, second)
    assert flat(batch.input_id.tolist() for batch in loader) == [*range(120)]
    loader = RootLoader(random_graph(), batch_size=50, seed=4, **options)
    assert epoch() != first


def test_two_iterators_at_once_are_two_epochs():
    loader = RootLoader(random_graph(), batch_size=60, shuffle=True)
    for one, other in zip(loader, loader, strict=True):
        assert one.n_id.tolist() != other.n_id.tolist()


def test_drop_last_leaves_out_a_smaller_batch():
    loader = RootLoader(random_graph(), batch_size=50, drop_last=True)
    assert [batch.batch_size for batch in loader] == [50, 50]
    assert len(loader) == 2
    with pytest.raises(OptionError, match="there are 120 seeds, and batch_size is 121"):
        RootLoader(random_graph(), batch_size=121, drop_last=True)


WRONG_NODES = {
    "a mask that is too short": (torch.ones(5).bool(), "a mask with 5 entries"),
    "a mask per split": (torch.ones(120, 10).bool(), r"of shape \[120, 10\]"),
    "an empty mask": (torch.zeros(120).bool(), "has no node"),
    "no nodes": ([], "has no node"),
    "a node out of range": ([3, 120], "node 120, but the graph has the nodes 0 to 119"),
    "a negative node": (np.array([-1, 5]), "has node -1"),
    "a node twice": ([5, 7, 5], "has node 5 twice"),
    "floats": (torch.rand(120), "has the dtype torch.float32"),
    "a name": ("train_mask", "input_nodes is 'train_mask'"),
    "a type of nodes": (("paper", torch.ones(120).bool()), "input_nodes is a tuple"),
    "one number": (5, "input_nodes is 5"),
}


@pytest.mark.parametrize("case", WRONG_NODES)
def test_wrong_seeds_are_refused(case):
    given, message = WRONG_NODES[case]
    with pytest.raises(OptionError, match=message):
        RootLoader(random_graph(), given)


EDGES = torch.tensor([[0, 1], [1, 0]])
WRONG_OPTIONS = {
    "workers": ({"num_workers": 4}, "no option 'num_workers': it samples"),
    "filter_per_worker": ({"filter_per_worker": True}, "no option 'filter_per_worker'"),
    "mode": ({"mode": "disjoint"}, "mode is 'disjoint'; use one of: shared, scope"),
    "batch_size": ({"batch_size": 0}, "batch_size is 0"),
    "num_layers": ({"num_layers": -1}, "num_layers is -1"),
    "layers and hops": (
        {"num_layers": 3, "num_neighbors": [5, 5]},
        "num_neighbors has 2 numbers, one per hop, but num_layers=3 takes 3 hops; give "
        "one of the two, or 3 numbers",
    ),
    "num_neighbors": ({"num_neighbors": [5, -2]}, "num_neighbors is -2"),
    "caps per type": ({"num_neighbors": {"a": 1}}, "num_neighbors is {'a': 1}"),
    "shuffle": ({"shuffle": 1}, "shuffle is 1"),
    "context": ({"context": None}, "context is None"),
    "a class": ({"subgraphs": EgoNets}, "subgraphs is the class EgoNets"),
    "whole graphs": ({"subgraphs": WholeGraphs()}, "reads whole graphs"),
    "encodings": (
        {"subgraphs": WithEncodings(EgoNets(1), structural_encodings(["rrwp"]))},
        r"encodings of pairs \(rrwp\) depend on the whole graph, but a batch",
    ),
    "device": ({"device": "meta"}, "device 'meta' cannot be used"),
    "epoch": ({"seed": -1}, "seed is -1"),
}


@pytest.mark.parametrize("case", WRONG_OPTIONS)
def test_wrong_options_are_refused(case):
    given, message = WRONG_OPTIONS[case]
    with pytest.raises(OptionError, match=message):
        RootLoader(random_graph(), **given)


WRONG_DATA = {
    "a list": ([random_graph()], "data is a list; give one PyG Data"),
    "two graphs": (
        [random_graph(), random_graph()],
        "data is a list; give one PyG Data .*; for many graphs, use gnnak.GraphLoader",
    ),
    "types of nodes": (HeteroData(), "data is a HeteroData"),
    "no edges": (Data(x=torch.rand(3, 1)), "data has no edge_index"),
    "edges out of range": (Data(x=torch.rand(1, 1), edge_index=EDGES), "names node 1"),
    "a sparse field": (
        Data(edge_index=EDGES, x=torch.eye(2).to_sparse()),
        "'x' of data is a sparse tensor",
    ),
    "subgraphs": (
        Data(edge_index=EDGES, num_nodes=2, subgraphs=1),
        "data has a field 'subgraphs'",
    ),
}


@pytest.mark.parametrize("case", WRONG_DATA)
def test_wrong_data_is_refused(case):
    given, message = WRONG_DATA[case]
    with pytest.raises(GraphError, match=message):
        RootLoader(given, subgraphs=EgoNets(1))


@pytest.mark.parametrize("mmap_mode", ["r", "c"])
def test_features_may_be_in_a_memory_mapped_file(mmap_mode, tmp_path):
    data = random_graph()
    np.save(tmp_path / "x.npy", data.x.numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mmap_mode)
    other = Data(x=mapped, edge_index=data.edge_index, tags=np.array(data.names))
    for batch in RootLoader(other, batch_size=50, num_neighbors=[2, 2]):
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert batch.tags.tolist() == [data.names[i] for i in batch.n_id.tolist()]


def stores(data: Data, edge_type, group, size) -> tuple[MyFeatureStore, MyGraphStore]:
    features, graph = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, group_name=group, attr_name="x", index=None)
    graph.put_edge_index(
        tuple(data.edge_index), edge_type=edge_type, layout="coo", size=size
    )
    return features, graph


@pytest.mark.parametrize("size", [(120, 120), None])
@pytest.mark.parametrize("kind", ["plain", "typed"])
def test_stores_of_features_and_edges_are_read(kind, size):
    data = random_graph()
    typed = ("paper", "cites", "paper")
    edge_type, group = (typed, "paper") if kind == "typed" else (None, None)
    pair = stores(data, edge_type, group, size)
    loaders = [RootLoader(each, data.train_mask, 9) for each in (data, pair)]
    for ours, theirs in zip(*loaders, strict=True):
        for name in ("x", "edge_index", "n_id"):
            assert torch.equal(ours[name], theirs[name])


def test_stores_of_several_types_or_without_a_size_are_refused():
    data = random_graph()
    features, graph = stores(data, ("a", "to", "a"), "a", None)
    graph.put_edge_index(
        tuple(data.edge_index), edge_type=("a", "of", "b"), layout="coo", size=None
    )
    with pytest.raises(GraphError, match="have 2 types of edges and 1 types of nodes"):
        RootLoader((features, graph))
    with pytest.raises(GraphError, match="how many nodes"):
        RootLoader((MyFeatureStore(), stores(data, None, None, None)[1]))


class LargestTensor(TorchDispatchMode):
    """Record the largest size of a tensor in new memory."""

    def __init__(self, known):
        super().__init__()
        self.known = {each.untyped_storage().data_ptr() for each in known}
        self.largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for each in found if isinstance(found, tuple | list) else [found]:
            if isinstance(each, torch.Tensor):
                is_new = each.untyped_storage().data_ptr() not in self.known
                self.largest = max(self.largest, is_new * each.numel())
        return found


def power_law_graph(num_nodes: int) -> Data:
    draw = torch.Generator().manual_seed(0)
    uniform = torch.rand(2, 5 * num_nodes, generator=draw, dtype=torch.double)
    ends = (uniform.square() * num_nodes).long()
    edge_index = torch.cat([ends, ends.flip(0)], dim=1)
    return Data(x=torch.rand(num_nodes, 1), edge_index=edge_index)


@pytest.mark.parametrize("subgraphs", [None, EgoNets(1)])
@pytest.mark.parametrize("mode", MODES)
def test_batches_of_a_power_law_graph_allocate_nothing_of_its_size(
    mode, subgraphs, monkeypatch
):
    # Edges that a batch might have are tested in chunks.
    monkeypatch.setattr(induce, "CHUNK", 1000)
    largest = {}
    for num_nodes in (10_000, 100_000):
        data = power_law_graph(num_nodes)
        seeds, options = [*range(num_nodes - 16, num_nodes)], {"num_neighbors": [5, 5]}
        loader = RootLoader(data, seeds, mode=mode, subgraphs=subgraphs, **options)
        known = [*loader._neighbors, data.x, loader._nodes]
        with LargestTensor(known) as measured:
            (batch,) = loader
        assert 100 < batch.num_nodes < 500
        largest[num_nodes] = measured.largest
    assert largest[100_000] < 10_000
    assert largest[100_000] < 2 * largest[10_000]


def seed_loss(output, batch):
    size = batch.batch_size
    return nn.functional.cross_entropy(output[:size], batch.y[:size])


@pytest.mark.parametrize("uplifted", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_training_step_takes_the_batches(mode, uplifted):
    data, results = random_graph(), []
    subgraphs = EgoNets(1) if uplifted else None
    for stepped in (True, False):
        torch.manual_seed(0)
        model = GCN(4, 8, 2, out_channels=3)
        model = (uplift(model, 1) if uplifted else model).double()
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        step = TrainingStep(model, seed_loss, optimizer)
        for batch in RootLoader(
            data, data.train_mask, 16, True, mode=mode, subgraphs=subgraphs
        ):
            assert padded_form(batch) == "batches of a RootLoader differ in size"
            if stepped:
                step(batch)
                continue
            optimizer.zero_grad()
            seed_loss(model(batch.x, batch.edge_index), batch).backward()
            optimizer.step()
        results.append(nn.utils.parameters_to_vector(model.parameters()))
    assert torch.equal(*results)


@pytest.mark.parametrize("shuffle", [False, True])
def test_processes_divide_the_seeds_of_an_epoch(shuffle, monkeypatch):
    data, options = random_graph(), {"shuffle": shuffle, "batch_size": 10}
    nodes = torch.arange(0, 100, 2)[:47]
    monkeypatch.setattr(order.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(order.dist, "get_world_size", lambda: 3)
    parts = []
    for rank in range(3):
        monkeypatch.setattr(order.dist, "get_rank", lambda rank=rank: rank)
        loader = RootLoader(data, nodes, **options)
        parts.append([batch.n_id[: batch.batch_size].tolist() for batch in loader])
    monkeypatch.undo()
    seeds = [flat(part) for part in parts]
    assert [len(each) for each in seeds] == [16, 16, 16]
    assert [len(set(each)) for each in seeds] == [16, 16, 16]
    assert sorted(set(flat(seeds))) == nodes.tolist()
    alone = RootLoader(data, nodes, shuffle=shuffle, batch_size=30)
    first = next(iter(alone)).n_id[:30].tolist()
    assert sorted(first) == sorted(flat(part[0] for part in parts))


CAPPED = {"mode": "scope", "num_neighbors": [2, 2], "subgraphs": EgoNets(1)}


def trained(batch_size: int, wrap) -> dict[str, torch.Tensor]:
    """Train on two epochs of scopes with sampled neighbours; return the weights."""
    torch.manual_seed(0)
    net = uplift(GCN(4, 8, 2, out_channels=3), 1).double()
    model = wrap(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    loader = RootLoader(random_graph(), batch_size=batch_size, shuffle=True, **CAPPED)
    for batch in [*loader, *loader]:
        optimizer.zero_grad()
        seed_loss(model(batch.x, batch.edge_index), batch).backward()
        optimizer.step()
    return net.state_dict()


def train_in_process(rank: int, folder: Path) -> None:
    start = f"file://{folder / 'start'}"
    distributed.init_process_group("gloo", start, rank=rank, world_size=2)
    weights = trained(10, nn.parallel.DistributedDataParallel)
    torch.save(weights, folder / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_train_as_one_with_twice_the_batch_size(tmp_path):
    program = f"""
import sys; from pathlib import Path; from {__name__} import train_in_process
train_in_process(int(sys.argv[1]), Path(sys.argv[2]))
"""
    commands = [[sys.executable, "-c", program, str(i), str(tmp_path)] for i in (0, 1)]
    running = [subprocess.Popen(command) for command in commands]
    wanted = trained(20, lambda net: net)
    assert [process.wait(300) for process in running] == [0, 0]
    for rank in (0, 1):
        found = torch.load(tmp_path / f"{rank}.pt")
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, rtol=0, atol=1e-12)


def test_batches_for_a_gpu_are_computed_in_a_thread(monkeypatch):
    stream, options = FakeStream(), {"batch_size": 50, "subgraphs": EgoNets(1)}
    wanted = [*RootLoader(random_graph(), **options)]
    monkeypatch.setattr(
        root_loader, "prefetch", lambda results, device: Prefetcher(results, stream)
    )
    for one, other in zip(RootLoader(random_graph(), **options), wanted, strict=True):
        assert torch.equal(one.n_id, other.n_id)
    assert len(stream.handed_over) == 3


def test_a_batch_is_freed_when_it_is_no_longer_used():
    batches = iter(RootLoader(random_graph(), batch_size=50, subgraphs=EgoNets(1)))
    first = weakref.ref(next(batches).x)
    next(batches)
    assert first() is None


@pytest.mark.gpu
@pytest.mark.parametrize("subgraphs", [None, EgoNets(1)])
@pytest.mark.parametrize("mode", MODES)
def test_batches_on_a_gpu_equal_those_on_a_cpu(mode, subgraphs):
    options = {"batch_size": 20, "shuffle": True, "num_neighbors": [2, 2], "mode": mode}
    options |= {"subgraphs": subgraphs}
    data = random_graph()
    loaders = [RootLoader(data, device=each, **options) for each in ("cuda", "cpu")]
    for ours, theirs in zip(*loaders, strict=True):
        assert ours.x.is_cuda
        for name in ("n_id", "e_id", "edge_index", "x", "y", "input_id"):
            assert torch.equal(ours[name].cpu(), theirs[name]), name


def test_repr_names_the_options_that_matter():
    loader = RootLoader(small_graphs()["path"], num_neighbors=[4, -1], seed=1)
    assert repr(loader) == (
        "RootLoader(seeds=3, batch_size=1024, mode='shared', num_neighbors=[4, -1], "
        "seed=1, device='cpu')"
    )
