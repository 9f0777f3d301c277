import re
from dataclasses import dataclass, replace

import pytest
import torch
from torch_geometric.nn import GIN

from gnnak import EgoNets, GraphLoader, PageRankNeighbors, SubgraphDrop, uplift
from gnnak.errors import GraphError, OptionError, SubgraphError
from gnnak.models import ModelOptions
from gnnak.sampling import SampledSubgraphs
from gnnak.subgraphs import (
    Extractor,
    MaskedEgoNets,
    NodeDeletion,
    RandomWalks,
    StructuralEncoding,
    WholeGraphs,
    WithEncodings,
    extract,
)
from gnnak.subgraphs.extractors import are_equal, describe
from gnnak.testing import small_graphs
from tests.models.zoo import molecule_batch, small_network
from tests.subgraphs.selected import rows

PATH = small_graphs()["path"].edge_index


@dataclass(frozen=True)
class Broken:
    """A user's extractor that changes some fields of egonets."""

    changes: tuple = ()
    random = False
    max_hops = 1

    def __call__(self, edge_index, num_nodes, generator=None):
        found = EgoNets(1)(edge_index, num_nodes)
        return replace(found, **dict(self.changes))


def test_extractor_is_an_open_protocol():
    built_in = [EgoNets(1), RandomWalks(), WholeGraphs(), NodeDeletion()]
    for extractor in [*built_in, MaskedEgoNets(2), Broken()]:
        assert isinstance(extractor, Extractor)
    assert not isinstance(2, Extractor)


def test_network_and_uplift_take_a_users_extractor():
    data = molecule_batch()
    own = small_network("gin-ak+", subgraphs=Broken()).eval()
    wanted = small_network("gin-ak+", subgraphs=EgoNets(1)).eval()
    assert torch.equal(own(data), wanted(data))
    net = uplift(GIN(4, 4, 1), Broken())
    assert net(torch.rand(3, 4), PATH).shape == (3, 4)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {"hop": torch.zeros(7).long()},
            "Broken broke a rule: hop is not the distance",
        ),
        ({"num_nodes": None}, "num_nodes=None for a graph of 3 nodes"),
        ({"root": torch.tensor([0, 1])}, "returned 2 subgraphs"),
        ({"edge": torch.zeros(8).long()}, "broke a rule: an edge copy does not have"),
    ],
)
def test_extract_names_the_rule_that_a_users_extractor_breaks(changes, wanted):
    with pytest.raises(SubgraphError, match=wanted):
        extract(Broken(tuple(changes.items())), PATH, 3)


def test_extract_names_a_distance_above_max_hops():
    class TooFar(Broken):
        def __call__(self, edge_index, num_nodes, generator=None):
            return EgoNets(2)(edge_index, num_nodes)

    wanted = "TooFar returned a node at distance 2 from its root, but its max_hops is 1"
    with pytest.raises(SubgraphError, match=wanted):
        extract(TooFar(), PATH, 3)
    empty = torch.zeros(2, 0, dtype=torch.long)
    assert extract(TooFar(), empty, 0).num_subgraphs == 0


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (EgoNets, "is the class EgoNets; give an object"),
        ("egonets", "is 'egonets'; give an extractor, such as"),
        (lambda *_: None, "give an extractor, such as"),
    ],
    ids=["class", "name", "function"],
)
def test_networks_and_loaders_refuse_what_is_no_extractor(value, wanted):
    with pytest.raises(OptionError, match=wanted):
        ModelOptions(subgraphs=value)
    with pytest.raises(OptionError, match=wanted):
        WithEncodings(value, ())
    with pytest.raises(OptionError, match=wanted):
        GraphLoader([molecule_batch()[0]], subgraphs=value, batch_size=1)


@pytest.mark.parametrize(
    ("extractor", "wanted"),
    [
        (EgoNets, "num_hops is the class EgoNets; give an obj"),
        (WholeGraphs(), "do not know which nodes are in one graph"),
    ],
)
def test_uplift_refuses_classes_and_extractors_that_read_the_batch(extractor, wanted):
    with pytest.raises(OptionError, match=wanted):
        uplift(GIN(4, 4, 1), extractor)


ENCODED = WithEncodings(EgoNets(1), (StructuralEncoding("resistance"),))
FIXED = [
    EgoNets(2),
    EgoNets(2, max_neighbors=1),
    PageRankNeighbors(3),
    WholeGraphs(),
    NodeDeletion(),
    MaskedEgoNets(1),
    ENCODED,
]


@pytest.mark.parametrize("extractor", FIXED, ids=str)
def test_subgraphs_of_some_roots_are_those_of_all_nodes(extractor, corner_case):
    graph, n = (corner_case.edge_index, corner_case.num_nodes), corner_case.num_nodes
    everything = rows(extract(extractor, *graph))
    generator = torch.Generator().manual_seed(0)
    roots = torch.randperm(n, generator=generator)[: n // 2]
    mask = torch.zeros(n, dtype=torch.bool).index_fill(0, roots, True)
    for given, order in ((roots, roots), (mask, roots.sort().values)):
        found = extract(extractor, *graph, roots=given)
        found.check(
            *graph, induced=not isinstance(extractor, NodeDeletion | MaskedEgoNets)
        )
        assert torch.equal(found.root, order)
        assert (found.num_nodes, found.has_some_roots(n)) == (n, n > 0)
        assert list(rows(found).items()) == [(r, everything[r]) for r in order.tolist()]
    for given in (torch.arange(n).flip(0), torch.ones(n, dtype=torch.bool)):
        found = extract(extractor, *graph, roots=given)
        assert rows(found) == everything
        assert not found.has_some_roots(n)


def test_encodings_of_some_roots_are_those_of_their_node_copies():
    roots = torch.tensor([2, 0])
    everything, some = (extract(ENCODED, PATH, 3, roots=r) for r in (None, roots))
    chosen = torch.cat([(everything.subgraph == r).nonzero().flatten() for r in roots])
    wanted, found = (
        next(iter(s.derived.encodings.values())) for s in (everything, some)
    )
    torch.testing.assert_close(found.rows, wanted.rows[chosen])


def test_walks_of_some_roots_start_at_these_roots():
    roots = torch.tensor([2, 0])
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        found = RandomWalks(1, 1)(PATH, 3, generator, roots).check(PATH, 3)
        assert found.root.tolist() == [2, 0]
        assert found.node.tolist() == [1, 2, 0, 1]


def test_extract_asks_a_users_extractor_for_the_roots_it_was_given():
    roots = torch.tensor([2, 0])
    with pytest.raises(OptionError, match="Broken extracts the subgraphs of all nodes"):
        extract(Broken(), PATH, 3, roots=roots)

    class Own(Broken):
        def __call__(self, edge_index, num_nodes, generator=None, roots=None):
            roots = roots.flip(0) if self.changes else roots
            return EgoNets(1)(edge_index, num_nodes, roots=roots)

    found = extract(Own(), PATH, 3, roots=roots)
    assert found.root.tolist() == [2, 0]
    with pytest.raises(SubgraphError, match="with other roots than it got"):
        extract(Own((("flip", True),)), PATH, 3, roots=roots)


@pytest.mark.parametrize(
    ("roots", "message"),
    [
        ([0, 1], "roots is a list; give nodes as an int64 tensor [s], or a mask of"),
        (torch.tensor([0.0]), "roots is torch.float32 [1]; give nodes as an int64"),
        (torch.tensor([[0]]), "roots is torch.int64 [1, 1]; give nodes"),
        (torch.tensor([3]), "roots names node 3, but the graph has 3 nodes (0 to 2)"),
        (torch.tensor([0, -1]), "roots names node -1, but the graph has 3 nodes"),
        (torch.tensor([1, 0, 1]), "roots contains a node twice; give each node at"),
        (
            torch.tensor([True, False]),
            "roots is a mask of 2 nodes, but the graph has 3",
        ),
    ],
    ids=str,
)
def test_wrong_roots_are_named(roots, message):
    for extractor in (*FIXED, RandomWalks(1, 1)):
        with pytest.raises(GraphError, match=re.escape(message)):
            extract(extractor, PATH, 3, roots=roots)
        if extractor is not ENCODED:
            with pytest.raises(GraphError, match=re.escape(message)):
                extractor(PATH, 3, roots=roots)


def test_an_uplifted_model_needs_a_subgraph_of_every_node():
    net, some = uplift(GIN(4, 4, 2), 1), EgoNets(1)(PATH, 3, roots=torch.tensor([2]))
    with pytest.raises(SubgraphError, match="subgraphs of 1 roots for 3 nodes, but ea"):
        net(torch.rand(3, 4), PATH, subgraphs=some)
    full = EgoNets(1)(PATH, 3)
    assert net(torch.rand(3, 4), PATH, subgraphs=full).shape == (3, 4)
    network, data = small_network("gin-ak+"), molecule_batch()
    some = EgoNets(1)(data.edge_index, data.num_nodes, roots=torch.tensor([2]))
    with pytest.raises(SubgraphError, match=r"got 1 subgraphs for \d+ nodes"):
        network(data, subgraphs=some)


@pytest.mark.parametrize(
    "extractor", [EgoNets(2, max_neighbors=1), PageRankNeighbors(3)]
)
@pytest.mark.parametrize("drop", [None, SubgraphDrop("random", 1)])
def test_new_extractors_serve_networks_and_loaders(extractor, drop):
    graphs = molecule_batch().to_data_list()
    loader = GraphLoader(graphs, 2, subgraphs=extractor, drop=drop)
    net = uplift(GIN(6, 4, 2), extractor, drop=drop).double()
    for batch in loader:
        alone = extractor(batch.edge_index, batch.num_nodes)
        subgraphs = batch.subgraphs.check(batch.edge_index, batch.num_nodes)
        everything = rows(alone)
        assert rows(subgraphs) == {r: everything[r] for r in subgraphs.root.tolist()}
        assert isinstance(subgraphs, SampledSubgraphs) == (drop is not None)
        x = torch.rand(batch.num_nodes, 6, dtype=torch.double)
        out = net.train(drop is None)(x, batch.edge_index)
        wanted = net(x, batch.edge_index, subgraphs=alone)
        torch.testing.assert_close(out, wanted)


def test_extract_refuses_what_is_no_record():
    class Nothing(Broken):
        def __call__(self, edge_index, num_nodes, generator=None):
            return edge_index

    with pytest.raises(SubgraphError, match="Nothing returned a Tensor"):
        extract(Nothing(), PATH, 3)


def test_extract_passes_the_batch_on_to_extractors_that_read_it():
    batch = torch.tensor([0, 0, 1])
    edge_index = PATH[:, :2]
    assert extract(WholeGraphs(), edge_index, 3, batch=batch).num_copies == 5
    assert extract(WholeGraphs(), edge_index, 3).num_copies == 9
    assert extract(EgoNets(1), edge_index, 3, batch=batch).num_copies == 5


def test_network_extracts_anew_if_only_the_batch_differs():
    net = small_network("sswl-gin", subgraphs=WholeGraphs()).eval()
    data = molecule_batch()
    apart = net(data.x, data.edge_index, data.edge_attr, data.batch)
    joined = net(data.x, data.edge_index, data.edge_attr)
    assert apart.shape == (data.num_graphs, 3)
    assert joined.shape == (1, 3)
    assert torch.equal(net(data.x, data.edge_index, data.edge_attr, data.batch), apart)


class Plain:
    """An object without `__eq__` and `__repr__`, like a user's extractor."""

    def __init__(self, **options: object) -> None:
        vars(self).update(options)


class Other(Plain):
    pass


class Callable(Plain):
    def __call__(self, edge_index, num_nodes, generator=None):
        return EgoNets(self.max_hops)(edge_index, num_nodes)


def double(value):
    return 2 * value


EQUAL = {
    "no attributes": lambda: Plain(),
    "numbers": lambda: Plain(size=2, rate=0.5, name="a", nothing=None),
    "lists": lambda: Plain(sizes=[1, 2], more={"a": (1, 2)}),
    "nested": lambda: Plain(inside=EgoNets(2)),
    "function": lambda: Plain(function=double),
    "egonets": lambda: EgoNets(3),
}


@pytest.mark.parametrize("name", EQUAL)
def test_objects_of_equal_attributes_are_equal(name):
    one, other = EQUAL[name](), EQUAL[name]()
    assert are_equal(one, other)
    assert describe(one) == describe(other)
    assert " at 0x" not in describe(one)
    for another in EQUAL:
        if another != name:
            assert not are_equal(one, EQUAL[another]())
            assert describe(one) != describe(EQUAL[another]())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Plain(size=2), Plain(size=3)),
        (Plain(size=2), Plain(size=2, more=1)),
        (Plain(size=2), Other(size=2)),
        (Plain(a=torch.zeros(2)), Plain(a=torch.zeros(2).double())),
        (Plain(sizes=[1, 2]), Plain(sizes=[1, 2, 3])),
        (EgoNets(2), EgoNets(3)),
    ],
)
def test_objects_of_other_attributes_differ(one, other):
    assert not are_equal(one, other)
    assert describe(one) != describe(other)


def test_functions_are_equal_only_to_themselves():
    one, other = Plain(f=lambda x: x), Plain(f=lambda x: -x)
    assert not are_equal(one, other)
    assert not are_equal(Plain(a=object()), Plain(a=object()))


def test_describe_is_the_repr_of_the_extractors_of_this_package():
    inside = WithEncodings(EgoNets(2), (StructuralEncoding("resistance"),))
    for extractor in (EgoNets(2), RandomWalks(3, 2), inside):
        assert describe(extractor) == repr(extractor)
