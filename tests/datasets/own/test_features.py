"""Which attributes of the user's graphs are features, and which belong to targets."""

import json
from dataclasses import replace

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data

from gnnak.datasets.own import OwnData, load_own
from gnnak.errors import GnnakError, GraphError, OptionError
from gnnak.graphs import GraphFile, from_pyg, write_npz
from gnnak.nn.features import Categorical, Continuous
from tests.graphs.graph_strategies import int_tensor

SIZES = range(3, 9)
PATH_LINE = (
    "node features: {}; edge features: none; ignored node attributes: {}; ignored "
    "edge attributes: weight; ignored graph attributes: name; add numbers with {}"
)


def paths(**more):
    """Paths of 3 to 8 nodes; nodes have a mass and an element, edges a weight."""
    graphs = [nx.path_graph(size, create_using=nx.Graph) for size in SIZES]
    for number, graph in enumerate(graphs):
        graph.graph = {"name": "path", "size": number + 0.5}
        nx.set_node_attributes(graph, {n: n / 2 for n in graph}, "mass")
        nx.set_node_attributes(graph, "C", "element")
        nx.set_edge_attributes(graph, 0.5, "weight")
        for name, value in more.items():
            nx.set_node_attributes(graph, value, name)
    return graphs


def ring(size, directions):
    """The edges of a ring, [2, directions * size]."""
    ends = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size])
    return torch.cat([ends, ends.flip(0)][:directions], dim=1)


def pyg(**more):
    """Rings of 3 to 8 nodes with positions, weights of edges and names."""
    return [
        Data(
            x=torch.ones(size, 1),
            edge_index=ring(size, 2),
            pos=torch.arange(2.0 * size).view(size, 2),
            weight=torch.arange(2 * size) / 2,
            is_end=torch.arange(size) == 0,
            name="ring",
            **{"y": size + 0.5, **more},
        )
        for size in SIZES
    ]


def line(data, *more, **options):
    dataset = load_own(OwnData(**options), data, *more).dataset
    return dataset.features.line(bool(dataset.info.featurizer))


def test_line_names_what_is_ignored_of_networkx_graphs_and_json(write):
    wanted = PATH_LINE.format(
        "none",
        "mass, element",
        "--node-attr mass --edge-attr weight (node_attr=['mass'], "
        "edge_attr=['weight'])",
    )
    assert line(paths(), targets=("size",)) == wanted
    links = [nx.node_link_data(graph, edges="edges") for graph in paths()]
    assert line(None, path=write(json.dumps(links), "g.json"), targets=("size",)) == (
        wanted
    )
    with_x = PATH_LINE.format(
        "x",
        "element",  # mass is the target
        "--edge-attr weight (edge_attr=['weight'])",  # element is a text
    )
    found = line(paths(x=1), targets=("mass",))
    assert found == with_x.replace("name;", "name, size;")
    found = line(paths(), edge_attr=("weight",), targets=("mass",))
    assert "ignored node attributes: element; " in found
    assert found.endswith("; only numbers can be features")
    some = paths(x=1)
    del some[0].nodes[0]["x"]
    assert "node features: none; " in line(some, targets=("size",))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            {},
            "node features: x; edge features: none; ignored node attributes: is_end, "
            "pos; ignored edge attributes: weight; ignored graph attributes: name; add "
            "numbers with --node-attr x --node-attr is_end --edge-attr weight "
            "(node_attr=['x', 'is_end'], edge_attr=['weight'])",
        ),
        (
            {"node_attr": ("x", "pos", "is_end"), "edge_attr": ("weight",)},
            "node features: x, pos, is_end; edge features: weight; ignored graph "
            "attributes: name; only nodes and edges have features",
        ),
    ],
    ids=["default", "named"],
)
def test_line_names_what_is_ignored_of_pyg_graphs(options, wanted):
    assert line(pyg(), **options) == wanted


def test_line_of_tables_and_of_files_that_have_no_names(write, tmp_path):
    table = "id,smiles,mass,assay\n" + "".join(
        f"{i},{'C' * i},{i}.5,a\n" for i in SIZES
    )
    found = line(None, path=write(table), targets=("mass",))
    end = "; ignored columns: id, assay; only nodes and edges have features"
    assert found.endswith(end)
    assert found.startswith("node features: atomic number, chirality, degree, ")
    bare = "node features: none; edge features: none"
    y = [size / 2 for size in SIZES]
    assert line([nx.path_graph(size) for size in SIZES], y) == bare
    store = from_pyg([Data(edge_index=ring(n, 2), num_nodes=n) for n in SIZES])
    write_npz(tmp_path / "bare.npz", GraphFile(store))
    write_npz(tmp_path / "x.npz", GraphFile(from_pyg(pyg())))
    labels = write("y\n" + "\n".join(map(str, y)), "labels.csv")
    assert line(None, path=str(tmp_path / "bare.npz"), labels=labels) == bare
    assert line(None, path=str(tmp_path / "x.npz")) == bare.replace("none", "x", 1)


def test_node_attr_and_edge_attr_name_fields_of_pyg_graphs():
    own = OwnData(node_attr=("is_end", "pos"), edge_attr=("weight",))
    info, store, *_ = vars(load_own(own, pyg()).dataset).values()
    assert store.x[:3].tolist() == [[1, 0, 1], [0, 2, 3], [0, 4, 5]]
    assert store.edge_attr[:3].tolist() == [[0], [0.5], [1]]
    assert (info.node_features, info.edge_features) == (Continuous(3), Continuous(1))
    flags = load_own(OwnData(node_attr=("is_end",)), pyg()).dataset
    assert flags.info.node_features == Categorical((3,))
    assert flags.store.x.dtype == torch.long
    points = [Data(pos=one.pos, edge_index=one.edge_index, y=one.y) for one in pyg()]
    found = load_own(OwnData(node_attr=("pos",)), points).dataset.store
    assert found.num_nodes.tolist() == list(SIZES)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (
            paths(),
            {"node_attr": ("mas",)},
            "there is no node attribute 'mas' in the lis",
        ),
        (
            paths(),
            {"node_attr": ("mas",)},
            "did you mean 'mass'? Known: element, mass.",
        ),
        (
            paths(),
            {"node_attr": ("mass,element",)},
            "node_attr is 'mass,element', which are several names; repeat --node-attr",
        ),
        (paths(), {"edge_attr": ("wight",)}, "did you mean 'weight'? Known: weight."),
        (
            paths(),
            {"node_attr": ("element",)},
            "the attribute 'element' of node 0 is 'C'; give numbers, such as the posit",
        ),
        (
            pyg(),
            {"node_attr": ("x", "poss")},
            "did you mean 'pos'? Known: is_end, name, pos, x.",
        ),
        (pyg(), {"edge_attr": ("wait",)}, "there is no edge attribute 'wait'"),
        (pyg(), {"node_attr": ("weight",)}, "weight belongs to the edges; use --edge-"),
        (paths(), {"edge_attr": ("mass",)}, "mass belongs to the nodes; use --node-at"),
        (
            from_pyg(pyg()),
            {"node_attr": ("pos",)},
            "no node attribute 'pos' in the lis",
        ),
        (
            ["C" * size for size in SIZES],
            {"node_attr": ("x",)},
            "the list of SMILES has molecules, whose features are those of atoms and",
        ),
        (
            [nx.path_graph(size) for size in SIZES],
            {"edge_attr": ("w",)},
            "the edges of the list of graphs have no attributes; leave out --edge-attr",
        ),
    ],
    ids=range(12),
)
def test_an_attribute_that_cannot_be_a_feature_is_a_sentence(data, options, message):
    with pytest.raises(GnnakError) as caught:
        load_own(OwnData(**options), data, [size / 2 for size in SIZES])
    assert message in str(caught.value)


def test_a_target_cannot_be_a_feature():
    own = OwnData(targets=("mass",), node_attr=("mass",))
    told = "mass is the target and also a node feature; name only other attributes"
    with pytest.raises(OptionError, match=told):
        load_own(own, paths())
    of_graphs = paths(size=0.5)
    assert load_own(replace(own, targets=("size",), node_attr=("size",)), of_graphs)
    for graph in of_graphs:
        nx.set_node_attributes(graph, graph.graph["size"], "size")
    with pytest.raises(OptionError, match="size is the target and also"):
        load_own(replace(own, targets=("size",), node_attr=("size",)), of_graphs)


def labelled(directions, rows, **more):
    """Rings with `rows(nodes)` targets `y` each; none if `rows` is None."""
    graphs = []
    for size in SIZES:
        y = {} if rows is None else {"y": torch.arange(float(rows(size)))}
        graphs.append(Data(edge_index=ring(size, directions), num_nodes=size, **y))
        for name, value in more.items():
            graphs[-1][name] = value(size)
    return graphs


def with_isolated(graphs):
    """Add a node without edges to the last graph, with a target."""
    graphs[-1].num_nodes += 1
    graphs[-1].y = torch.arange(float(graphs[-1].num_nodes))
    return graphs


OF_LABEL = {"targets": ("edge_label",)}
LABEL_1 = labelled(2, None, edge_label=torch.rand)
LABEL_2 = labelled(2, None, edge_label=lambda size: torch.rand(2 * size))
IN_OWN_LOOP = "for edges, write your own loop, as in docs/recipes.md#targets-of-edges."
EDGES = f"but gnnak.train learns targets of graphs or of nodes; {IN_OWN_LOOP}"
UNSURE = (
    "every graph has as many nodes as edges, so that y may have targets of nodes or"
)


@pytest.mark.parametrize(
    ("graphs", "options", "message"),
    [
        (labelled(2, lambda n: 2 * n), {}, f"y has one row for every edge, {EDGES}"),
        (labelled(1, lambda n: n), {}, UNSURE),
        (labelled(2, lambda n: n), {}, UNSURE),
        (LABEL_2, {}, f"edge_label has targets of edges, {EDGES}"),
        (LABEL_1, {}, f"edge_label has targets of edges, {EDGES}"),
        (LABEL_1, OF_LABEL, f"edge_label has targets of edges, {EDGES}"),
        (
            pyg(edge_label=torch.ones(5)),
            OF_LABEL,
            f"edge_label has targets of edges, {EDGES}",
        ),
        (pyg(), {"targets": ("weight",)}, f"weight is an attribute of edges, {EDGES}"),
        (paths(), {"targets": ("weight",)}, "weight is an attribute of edges, but gn"),
        (
            pyg(),
            {"targets": ("pos",)},
            "pos is a field of the graphs, but their target",
        ),
        (paths(), {"targets": ("mas",)}, "did you mean 'mass'?"),
    ],
    ids=range(11),
)
def test_targets_of_edges_are_refused(graphs, options, message):
    with pytest.raises(GnnakError) as caught:
        load_own(OwnData(**options), graphs)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    # Targets that are given belong to graphs.
    assert not load_own(
        OwnData(), graphs, [n / 2 for n in SIZES]
    ).dataset.info.node_task


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda n: 2 * n, f"y has one row for every edge, {EDGES}"),
        (lambda n: n + 1, "y has one row for every node; put it into the graphs, as y"),
        (lambda n: n, f"y has one row for every edge, {EDGES}"),
    ],
    ids=["edges", "nodes", "undirected edges"],
)
def test_targets_of_edges_or_nodes_are_refused_as_y(rows, message):
    graphs = [Data(edge_index=ring(size, 2), num_nodes=size + 1) for size in SIZES]
    y = [torch.rand(rows(size)) for size in SIZES]
    for given in (y, torch.cat(y)):
        with pytest.raises(GraphError) as caught:
            load_own(OwnData(), graphs, given)
        assert message in str(caught.value)


@pytest.mark.parametrize("directions", [1, 2])
def test_targets_of_nodes_are_told_by_a_graph_with_other_edges(directions):
    found = load_own(OwnData(), with_isolated(labelled(directions, lambda n: n)))
    assert found.dataset.info.node_task
    rings = from_pyg(labelled(directions, lambda n: n), node_targets=True)
    assert load_own(OwnData(), rings).dataset.info.node_task


def test_a_graph_without_fitting_node_targets_is_a_bad_row():
    def graph(y):
        return Data(torch.ones(4, 1), torch.tensor([[0, 1], [1, 0]]), y=y)

    graphs = [graph(torch.rand(4)) for _ in range(5)]
    graphs += [graph(torch.rand(3)), graph(None)]
    found = load_own(OwnData(skip_bad=True), graphs).dataset
    assert found.store.node_targets
    assert len(found.store) == 5
    told = "row 6: y has 3 rows; give 4, one for every node(.|\n)*row 7: there is no y"
    with pytest.raises(GnnakError, match=told):
        load_own(OwnData(), graphs)


def test_graphs_without_edge_index_but_with_a_sparse_matrix_are_refused():
    graph = Data(num_nodes=2, adj_t=torch.eye(2).to_sparse(), y=1.0)
    with pytest.raises(GraphError, match="adj_t and no edge_index; leave out the tran"):
        load_own(OwnData(), [graph] * 3)
    assert load_own(OwnData(), [Data(num_nodes=2, y=float(n)) for n in range(3)])


def test_from_pyg_takes_named_fields_as_columns():
    one = Data(edge_index=ring(3, 1), num_nodes=3, kind=int_tensor([1, 0, 2]))
    one.length = torch.tensor([0.5, 1, 2])
    store = from_pyg([one], node_attr="kind", edge_attr=["length", "length"])
    assert store.x.tolist() == [[1], [0], [2]]
    assert store.edge_attr.tolist() == [[0.5, 0.5], [1, 1], [2, 2]]
    with pytest.raises(GraphError, match="graph 0: it has no field 'x'; set it"):
        from_pyg([one], node_attr="x")


def test_masks_of_many_graphs_are_ignored_with_a_warning(caplog):
    graphs = pyg()
    for graph in graphs:
        graph.train_mask = graph.is_end
    assert "train_mask" not in line(graphs)
    (told,) = caplog.messages
    assert told == (
        "the list of graphs: the masks train_mask are ignored; graphs are split, "
        "not their nodes."
    )


@pytest.mark.parametrize("y", ["toxic", ["toxic"]])
def test_load_own_says_that_a_text_is_no_target(y):
    with pytest.raises(
        GnnakError, match=r"y is .*; give numbers; of classes, their places"
    ):
        load_own(OwnData(), pyg(y=y))
