import gc
import weakref
from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN

from gnnak import Budget, EgoNets, GraphLoader, RandomWalks, SubgraphDrop, uplift
from gnnak.errors import GraphError, OptionError
from gnnak.loading import graph_loader, order
from gnnak.loading.forms import TOO_SMALL, PaddedForm, padded_form
from gnnak.loading.padder import Demand
from gnnak.models import build_model
from gnnak.nn.features import Categorical
from gnnak.subgraphs.rooted import TENSORS
from gnnak.testing import small_graphs
from tests.strategies import graphs as any_graphs

MADE = {"subgraphs"}
"""Fields that PyG's batches do not have."""


def rich(seed: int, num_nodes: int = 4, num_edges: int = 5) -> Data:
    draw = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.rand(num_nodes, 3, generator=draw),
        edge_index=torch.randint(num_nodes, (2, num_edges), generator=draw),
        edge_attr=torch.rand(num_edges, 2, generator=draw),
        y=torch.rand(1, 2, generator=draw),
        pos=torch.rand(num_nodes, 3, generator=draw, dtype=torch.double),
        edge_weight=torch.rand(num_edges, generator=draw),
        train_mask=torch.rand(num_nodes, generator=draw) > 0.5,
        scalar=torch.rand((), generator=draw),
        number=seed,
        share=seed / 3,
        image=torch.rand(1, 4, 4, generator=draw),
        tour_index=torch.randint(num_nodes, (seed % 3,), generator=draw),
        pair_index=torch.randint(num_nodes, (2, 1 + seed % 2), generator=draw),
        face=torch.randint(num_nodes, (3, seed % 4), generator=draw),
        peaks=torch.rand(seed % 3, 2, generator=draw),
        name=f"graph {seed}",
        tags=["a", seed],
    )


RICH = [rich(seed, 3 + seed % 4, 2 * seed % 7) for seed in range(11)]


def assert_same_batch(ours: Batch, theirs: Batch) -> None:
    names = set(theirs.keys())
    assert set(ours.keys()) - (MADE - names) == names
    assert ours.num_graphs == theirs.num_graphs
    assert ours.num_nodes == theirs.num_nodes
    assert ours.num_edges == theirs.num_edges
    for name in theirs.keys():  # noqa: SIM118
        one, other = ours[name], theirs[name]
        if isinstance(other, torch.Tensor):
            assert one.dtype == other.dtype, name
            assert torch.equal(one, other), name
        else:
            assert one == other, name


def assert_same_batches(graphs: list[Data], batch_size: int) -> None:
    ours = [*GraphLoader(graphs, batch_size)]
    theirs = [*DataLoader(graphs, batch_size)]
    assert len(ours) == len(theirs) == len(GraphLoader(graphs, batch_size))
    for one, other in zip(ours, theirs, strict=True):
        assert_same_batch(one, other)


@pytest.mark.parametrize("batch_size", [1, 3, 5, 11, 20])
def test_graph_loader_equals_the_loader_of_pyg_in_all_fields(batch_size):
    assert_same_batches(RICH, batch_size)


def test_graph_loader_equals_the_loader_of_pyg_on_each_corner_case(corner_case):
    assert_same_batches([corner_case] * 3, 2)


def test_graph_loader_equals_the_loader_of_pyg_on_all_corner_cases_together():
    graphs = [*small_graphs(channels=4, edge_channels=3).values()]
    assert_same_batches(graphs, 4)
    assert_same_batches(graphs, len(graphs))


@settings(deadline=None)
@given(st.lists(any_graphs(6), min_size=1, max_size=5), st.integers(1, 3))
def test_graph_loader_equals_the_loader_of_pyg_on_any_graphs(drawn, batch_size):
    graphs = [Data(edge_index=e, num_nodes=n, x=torch.rand(n, 2)) for e, n in drawn]
    assert_same_batches(graphs, batch_size)


def test_graph_loader_of_graphs_without_edge_index_or_features():
    assert_same_batches([Data(x=torch.rand(n, 2)) for n in (2, 0, 3)], 2)
    none = torch.zeros(2, 0, dtype=torch.long)
    assert_same_batches([Data(edge_index=none, num_nodes=n) for n in (2, 0, 3)], 2)


class Pair(Data):
    """Two graphs in one, as in PyG's tutorial."""

    def __inc__(self, key, value, *args):
        if key == "other_index":
            return self.other_x.size(0)
        return super().__inc__(key, value, *args)

    def __cat_dim__(self, key, value, *args):
        return None if key == "stacked" else super().__cat_dim__(key, value, *args)


def test_graph_loader_obeys_the_rules_of_a_class_of_graphs():
    pairs = [
        Pair(
            x=torch.rand(n, 1),
            edge_index=torch.tensor([[0], [n - 1]]),
            other_x=torch.rand(n + 1, 1),
            other_index=torch.tensor([[0], [n]]),
            stacked=torch.rand(2),
        )
        for n in (1, 3, 2)
    ]
    assert_same_batches(pairs, 2)
    assert isinstance(next(iter(GraphLoader(pairs, 2))), Pair)


def test_graph_loader_batches_can_be_taken_apart():
    parts = [each for batch in GraphLoader(RICH, 4) for each in batch.to_data_list()]
    theirs = [each for batch in DataLoader(RICH, 4) for each in batch.to_data_list()]
    for one, other in zip(parts, theirs, strict=True):
        for name in other.keys():  # noqa: SIM118
            tensor = isinstance(other[name], torch.Tensor)
            same = torch.equal if tensor else lambda a, b: a == b
            assert same(one[name], other[name]), name


def test_graph_loader_batches_say_as_pyg_does_where_each_graph_is():
    for one, other in zip(GraphLoader(RICH, 4), DataLoader(RICH, 4), strict=True):
        for name in ("_slice_dict", "_inc_dict"):
            ours, theirs = getattr(one, name), getattr(other, name)
            assert set(ours) == set(theirs)
            for field, wanted in theirs.items():
                found = ours[field]
                if field in ("name", "tags") and name == "_inc_dict":
                    assert found is wanted is None
                else:
                    assert torch.equal(found, wanted.flatten()), field


def test_graph_loader_attaches_the_subgraphs_of_the_batch():
    extractor = EgoNets(2)
    for batch in GraphLoader(RICH, 4, True, subgraphs=extractor):
        wanted = extractor(batch.edge_index, batch.num_nodes)
        for name in TENSORS:
            assert torch.equal(getattr(batch.subgraphs, name), getattr(wanted, name))
        batch.subgraphs.check(batch.edge_index, batch.num_nodes)


def test_graph_loader_drops_subgraphs_in_each_epoch_anew():
    drop, extractor = SubgraphDrop("random", 1), EgoNets(2)
    loader = GraphLoader(RICH, 11, subgraphs=extractor, drop=drop)
    epochs = [next(iter(loader)).subgraphs for _ in range(4)]
    assert all(each.num_subgraphs < 48 for each in epochs)
    assert len({tuple(each.root.tolist()) for each in epochs}) > 1
    assert loader.epoch == 3


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["uplifted", "network"])
def test_models_use_the_attached_subgraphs(kind, training, monkeypatch):
    graphs = [Data(torch.zeros(n, 1).long(), ring(n)) for n in (3, 5, 4)]
    batch = next(iter(GraphLoader(graphs, 3, subgraphs=EgoNets(3))))
    theirs = next(iter(DataLoader(graphs, 3)))
    if kind == "network":
        net = call = build_model("gin-ak+", Categorical((1,)), None, 2)
    else:
        net = uplift(GIN(1, 8, 2), num_hops=3)

        def call(b):
            return net(b.x.float(), b.edge_index)

    net.train(training)
    for layer in net.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):
            layer.momentum = 0.0
    wanted = call(theirs)
    monkeypatch.setattr(EgoNets, "__call__", refuse)
    torch.testing.assert_close(call(batch), wanted)
    batch.edge_index[:] = batch.edge_index.flip(0)
    with pytest.raises(AssertionError, match="extracted"):
        call(batch)


def refuse(*_: object) -> None:
    raise AssertionError("subgraphs were extracted again")


def ring(n: int) -> torch.Tensor:
    along = torch.arange(n)
    edges = torch.stack([along, (along + 1) % n])
    return torch.cat([edges, edges.flip(0)], dim=1)


def test_uplifted_model_samples_from_the_attached_subgraphs(monkeypatch):
    graphs = [Data(x=torch.rand(n, 2), edge_index=ring(n)) for n in (6, 5, 4)]
    batch = next(iter(GraphLoader(graphs, 3, subgraphs=EgoNets(1))))
    net = uplift(GIN(2, 8, 1), num_hops=1, drop=SubgraphDrop("random", 1))
    monkeypatch.setattr(EgoNets, "__call__", refuse)
    net(batch.x, batch.edge_index)


def test_uplifted_model_of_other_subgraphs_says_so_once_and_extracts(caplog):
    graphs = [Data(x=torch.rand(n, 2), edge_index=ring(n)) for n in (6, 5, 4)]
    net = uplift(GIN(2, 8, 1), num_hops=1).eval()
    for batch in GraphLoader(graphs, 1, subgraphs=EgoNets(2)):
        out = net(batch.x, batch.edge_index)
        torch.testing.assert_close(out, net(batch.x, batch.edge_index.clone()))
    assert len(caplog.records) == 1
    assert "EgoNets(num_hops=2)" in caplog.text


def numbers(loader: GraphLoader) -> list[list[int]]:
    return [batch.number.tolist() for batch in loader]


def test_graph_loader_epochs_depend_on_seed_and_number_alone():
    first = GraphLoader(RICH, 4, shuffle=True, seed=3)
    epochs = [numbers(first) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    assert all(sorted(chain(*epoch)) == list(range(11)) for epoch in epochs)
    again = GraphLoader(RICH, 4, shuffle=True, seed=3)
    again.epoch = 2
    assert numbers(again) == epochs[2]
    assert again.epoch == 3
    assert numbers(GraphLoader(RICH, 4, shuffle=True, seed=4)) != epochs[0]


SUBGRAPHS = {
    "none": {},
    "drop": {"subgraphs": EgoNets(2), "drop": SubgraphDrop("random", 1)},
    "walks": {"subgraphs": RandomWalks(4, 2)},
}


@pytest.mark.parametrize("options", SUBGRAPHS.values(), ids=SUBGRAPHS)
def test_graph_loader_goes_on_in_the_middle_of_an_epoch(options):
    def build() -> GraphLoader:
        return GraphLoader(RICH, 2, shuffle=True, seed=1, **options)

    def shown(batch: Batch) -> tuple:
        subgraphs = batch.get("subgraphs")
        nodes = None if subgraphs is None else subgraphs.node.tolist()
        return batch.number.tolist(), nodes

    loader = build()
    assert len([*loader]) == 6
    whole, states = [], []
    for batch in loader:
        whole.append(shown(batch))
        states.append(loader.state_dict())
    for done, state in enumerate(states, start=1):
        other = build()
        other.load_state_dict(state)
        assert [shown(batch) for batch in other] == whole[done:]
        assert other.epoch == 2
    assert loader.state_dict()["epoch"] == 2
    third = [shown(batch) for batch in loader]
    assert [shown(batch) for batch in other] == third


def test_graph_loader_begins_a_new_epoch_after_a_break():
    loader, other = (GraphLoader(RICH, 4, shuffle=True) for _ in range(2))
    for _ in loader:
        break
    second = [numbers(other) for _ in range(2)][1]
    assert numbers(loader) == second


def test_graph_loader_iterations_at_the_same_time_are_two_epochs():
    loader, other = (GraphLoader(RICH, 4, shuffle=True) for _ in range(2))
    epochs = [numbers(other) for _ in range(4)]
    pairs = [
        [one.number.tolist(), two.number.tolist()]
        for one, two in zip(loader, loader, strict=True)
    ]
    assert [[*batches] for batches in zip(*pairs, strict=True)] == epochs[:2]
    first, second = iter(loader), iter(loader)
    assert numbers(first) == epochs[2]
    assert loader.state_dict() == other.state_dict() | {"epoch": 3}
    assert numbers(second) == epochs[3]
    assert loader.state_dict() == other.state_dict()


def test_graph_loader_begins_an_epoch_when_its_first_batch_is_requested():
    loader, other = (GraphLoader(RICH, 4, shuffle=True) for _ in range(2))
    epochs = [numbers(other) for _ in range(3)]
    unused = iter(loader)
    assert numbers(loader) == epochs[0]
    next(iter(loader))
    state = loader.state_dict()
    assert numbers(unused) == epochs[2]
    loader.load_state_dict(state)
    unused = iter(loader)
    assert numbers(loader) == epochs[1][1:]


@pytest.mark.parametrize("budget", [Budget(nodes=9), Budget(20, 40), Budget(copies=40)])
def test_graph_loader_batches_are_within_their_budget(budget):
    loader = GraphLoader(RICH, budget, True, subgraphs=EgoNets(2))
    seen = []
    for batch in loader:
        assert batch.num_nodes <= (budget.nodes or 1000)
        assert batch.subgraphs.num_copies <= (budget.copies or 1000)
        seen += batch.number.tolist()
    assert sorted(seen) == list(range(11))


@pytest.mark.parametrize("batch_size", [2, Budget(nodes=9)])
def test_graph_loader_gives_processes_equally_many_batches(batch_size, monkeypatch):
    monkeypatch.setattr(order.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(order.dist, "get_world_size", lambda: 3)
    parts = []
    for rank in range(3):
        monkeypatch.setattr(order.dist, "get_rank", lambda rank=rank: rank)
        parts.append(numbers(GraphLoader(RICH, batch_size, shuffle=True)))
    assert len({len(part) for part in parts}) == 1
    seen = [*chain(*chain(*parts))]
    assert set(seen) == set(range(11))
    assert len(seen) <= 13
    assert all(batch for part in parts for batch in part)


def test_graph_loader_pads_only_the_hidden_form_of_full_batches():
    graphs = [rich(seed, 5, 8) for seed in range(7)]
    kept = ["x", "edge_index", "edge_attr", "y", "pos", "edge_weight", "number"]
    graphs = [Data(**{name: each[name] for name in kept}) for each in graphs]
    loader = GraphLoader(graphs, 3, subgraphs=EgoNets(1), pad=True)
    theirs = DataLoader(graphs, 3)
    for batch, other in zip(loader, theirs, strict=True):
        assert_same_batch(batch, other)
        if batch.num_graphs < 3:
            assert padded_form(batch) == TOO_SMALL
            continue
        form = batch.__dict__["_padded"]
        padded = form.build(form.item)
        sizes, shape = form.item.sizes, form.item.shape
        used = [getattr(shape, axis) for axis in sizes if axis != "subgraphs"]
        assert len({*used}) == 5
        assert padded.num_graphs == shape.graphs
        assert torch.equal(padded.x[: sizes["nodes"]], batch.x)
        assert torch.equal(padded.pos[: sizes["nodes"]], batch.pos)
        assert torch.equal(padded.edge_index[:, : sizes["edges"]], batch.edge_index)
        assert torch.equal(padded.edge_weight[: sizes["edges"]], batch.edge_weight)
        assert torch.equal(padded.number[:3], batch.number)
        assert int(padded.batch.max()) + 1 == shape.graphs


def padded(batches) -> list[bool]:
    return [isinstance(batch.__dict__["_padded"], PaddedForm) for batch in batches]


def test_graph_loader_pads_only_while_padded_forms_are_used(monkeypatch):
    monkeypatch.setattr(graph_loader, "Demand", lambda _: Demand(False))
    graphs = [rich(seed, 5, 8) for seed in range(20)]
    plain = [Data(x=one.x, edge_index=one.edge_index) for one in graphs]
    loader = GraphLoader(plain, 2, pad=True)
    assert padded(loader) == [True, True] + [False] * 8
    assert padded(loader) == [False] * 10
    assert all(isinstance(padded_form(batch), PaddedForm) for batch in loader)
    # A pass without a use, and the next epoch of training.
    assert padded(loader) == [True] * 10
    assert padded(padded_form(batch) and batch for batch in loader) == [True] * 10
    assert padded(loader) == [True] * 10
    assert padded(loader) == [True] * 10
    assert padded(loader) == [False] * 10


def test_graph_loader_that_is_told_to_pad_always_pads():
    graphs = [Data(x=torch.ones(3, 1), edge_index=torch.zeros(2, 1).long())] * 10
    assert all(padded(GraphLoader(graphs, 2, pad=True)))


def test_graph_loader_frees_its_graphs():
    loader = GraphLoader(RICH, 4)
    next(iter(loader))
    gone = weakref.ref(loader)
    del loader
    gc.collect()
    assert gone() is None


OTHER = Data(x=torch.rand(2, 3), edge_index=torch.zeros(2, 0).long())


@pytest.mark.parametrize(
    ("graphs", "error", "wanted"),
    [
        ([], GraphError, "there are no graphs"),
        (3, GraphError, "graphs is an int"),
        (OTHER, GraphError, "this is one Data; give a list"),
        ([OTHER, "text"], GraphError, "graph 1 is a str"),
        ([OTHER, RICH[0]], GraphError, "graph 1 has a field 'edge_attr', but graph 0"),
        (
            [OTHER, Data(x=torch.rand(2, 4), edge_index=torch.zeros(2, 0).long())],
            GraphError,
            r"x is torch.float32 \[\*, 3\] on cpu in graph 0 but .*in graph 1",
        ),
        ([Data(x=torch.rand(2, 1), edge_index=ring(3))], GraphError, "has 2 nodes"),
        ([Data(edge_index=ring(3))], GraphError, "neither num_nodes nor x"),
        (
            [Data(x=torch.rand(1, 1), d={"a": 1})],
            GraphError,
            "'d' of graph 0 is a dict",
        ),
        ("zink", OptionError, "did you mean 'zinc'"),
        ("csl/train", OptionError, "csl has no fixed split"),
        ("csl/half", OptionError, "csl has no part 'half'"),
        ("data/x.pt", OptionError, "no data set 'data/x.pt'; if it is a file, read it"),
        ("/data/x.pt", OptionError, "there is no data set '/data/x.pt'; if it is a fi"),
        ({"a": OTHER}, GraphError, r"graphs is a dict; give a list, .*graphs\.values"),
        (Data, GraphError, "graphs is the class Data; give a list of PyG Data"),
    ],
)
def test_graph_loader_names_what_is_wrong_with_graphs(graphs, error, wanted):
    with pytest.raises(error, match=wanted):
        GraphLoader(graphs, 2)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": True}, "batch_size is True"),
        ({"shuffle": "yes"}, "shuffle is 'yes'; give True or False"),
        ({"drop_last": 1}, "drop_last is 1; give True or False"),
        ({"pad": "x"}, "pad is 'x'; give True or False"),
        ({"device": []}, r"device \[\] cannot be used"),
        ({"seed": -1}, "seed is -1"),
        ({"subgraphs": EgoNets}, r"subgraphs is the class EgoNets; give an object"),
        ({"subgraphs": 3}, "subgraphs is 3; give an extractor"),
        ({"drop": SubgraphDrop()}, "give subgraphs too"),
        ({"drop": 3, "subgraphs": EgoNets(1)}, "drop is 3"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
        ({"device": "meta"}, "device 'meta' cannot be used: .* no values; give 'cpu'"),
        ({"device": torch.device("meta")}, "device 'meta' cannot be used: its tensors"),
        ({"device": "privateuseone"}, "device 'privateuseone' cannot be used: "),
        ({"device": "fpga"}, r"device 'fpga' cannot be used: .{9,120}; give 'cpu'"),
        ({"batch_size": Budget(nodes=4)}, "graph 3 alone has 6 nodes"),
        ({"batch_size": Budget(copies=4)}, "needs rooted subgraphs"),
    ],
)
def test_graph_loader_names_a_wrong_option(options, wanted):
    with pytest.raises(OptionError, match=wanted):
        GraphLoader(RICH, **options)


def test_budget_needs_a_limit():
    with pytest.raises(OptionError, match="this Budget has no limit"):
        Budget()
