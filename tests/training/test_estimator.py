"""`GNNAKRegressor` and `GNNAKClassifier` behave like estimators of scikit-learn."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.utils import from_networkx

import gnnak
from gnnak.errors import GraphError, OptionError

DOCS = Path(__file__).parents[2] / "docs" / "own-data.md"
SMALL = {"epochs": 2, "num_layers": 1, "channels": 8}


def graphs(count: int = 24) -> list[Data]:
    """Cycles and stars in turn, of growing size; all nodes have the same feature."""
    made = []
    for number in range(count):
        size = 4 + number // 4
        graph = nx.star_graph(size) if number % 2 else nx.cycle_graph(size)
        data = from_networkx(graph)
        x = torch.zeros(data.num_nodes, 1, dtype=torch.long)
        made.append(Data(x, data.edge_index))
    return made


GRAPHS = graphs()
SIZES = np.array([data.num_nodes for data in GRAPHS], dtype=float)
SHAPES = np.array(["star" if number % 2 else "cycle" for number in range(24)])


def test_estimators_have_parameters_that_are_cloned():
    for estimator in (gnnak.GNNAKRegressor(**SMALL), gnnak.GNNAKClassifier(**SMALL)):
        copied = clone(estimator).set_params(channels=16)
        assert copied.get_params() == {**estimator.get_params(), "channels": 16}
    assert is_regressor(gnnak.GNNAKRegressor())
    assert is_classifier(gnnak.GNNAKClassifier())


def test_estimators_take_the_radius_of_the_egonets():
    search = GridSearchCV(gnnak.GNNAKRegressor(**SMALL), {"num_hops": [1, 2]}, cv=2)
    search.fit(GRAPHS, SIZES)
    for net in (search.best_estimator_, gnnak.GNNAKClassifier(**SMALL, num_hops=1)):
        hops = net.get_params()["num_hops"]
        assert hops in (1, 2)
        fitted = net.fit(GRAPHS, SHAPES if is_classifier(net) else SIZES)
        assert fitted.model_.network.extractor.num_hops == hops
    assert gnnak.GNNAKRegressor().get_params()["num_hops"] == 3


def test_estimators_suggest_parameters_that_they_have():
    with pytest.raises(OptionError, match="did you mean 'num_hops'"):
        gnnak.GNNAKRegressor(num_hop=2)
    with pytest.raises(GraphError, match=r"\); correct or leave out these graphs\.$"):
        gnnak.GNNAKRegressor(**SMALL).fit(["CC", "CO", "C1CC", "C"], [1.0, 2, 3, 4])


def test_estimators_search_over_settings():
    grid = {"settings": [{"dropout": 0}, {"dropout": 0.5}]}
    search = GridSearchCV(gnnak.GNNAKRegressor(**SMALL), grid, cv=2)
    search.fit(GRAPHS, SIZES)
    config = search.best_estimator_.record_["config"]
    assert config["model"]["dropout"] == search.best_params_["settings"]["dropout"]


def test_regressor_fits_predicts_and_scores():
    net = gnnak.GNNAKRegressor(**SMALL).fit(GRAPHS, SIZES)
    found = net.predict(GRAPHS[:5])
    assert found.shape == (5,)
    np.testing.assert_allclose(found, net.predict(GRAPHS)[:5], rtol=1e-4)
    assert net.score(GRAPHS, SIZES) <= 1
    again = clone(net).fit(GRAPHS, SIZES)
    np.testing.assert_array_equal(again.predict(GRAPHS), net.predict(GRAPHS))
    two = gnnak.GNNAKRegressor(**SMALL).fit(GRAPHS, np.stack([SIZES, -SIZES], axis=1))
    assert two.predict(GRAPHS[:3]).shape == (3, 2)


def test_estimators_take_constant_numbers_and_a_class_for_each_graph():
    net = gnnak.GNNAKRegressor(**SMALL).fit(GRAPHS, np.ones(24))
    assert np.isfinite(net.predict(GRAPHS[:2])).all()
    few = gnnak.GNNAKClassifier(**SMALL).fit(GRAPHS[:4], list("abcd"))
    assert few.predict_proba(GRAPHS[:2]).shape == (2, 4)


@pytest.mark.parametrize("kind", [gnnak.GNNAKRegressor, gnnak.GNNAKClassifier])
def test_estimators_take_attributes_of_nodes_and_edges(kind, caplog):
    given = [graph.clone() for graph in GRAPHS]
    for graph in given:
        graph.pos = torch.rand(graph.num_nodes, 2)
        graph.weight = torch.rand(graph.num_edges)
    y = SIZES if kind is gnnak.GNNAKRegressor else SHAPES
    net = kind(node_attr=["x", "pos"], edge_attr="weight", **SMALL).fit(given, y)
    info = clone(net).fit(given, y).model_.info
    assert (info.node_features.channels, info.edge_features.channels) == (3, 1)
    assert len(net.predict(given[:2])) == 2
    assert not caplog.text
    kind(**SMALL).fit(given, y)
    assert "ignored node attributes: pos; ignored edge attributes: weig" in caplog.text
    with pytest.raises(OptionError, match="did you mean 'pos'"):
        kind(node_attr="poss", **SMALL).fit(given, y)


class Stored(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def test_pyg_data_sets_are_lists_of_their_graphs():
    stored = Stored(GRAPHS)
    net = gnnak.GNNAKRegressor(**SMALL).fit(stored, SIZES)
    wanted = net.predict(GRAPHS)
    np.testing.assert_array_equal(net.predict(stored), wanted)
    np.testing.assert_array_equal(net.model_.predict(stored).values[:, 0], wanted)
    assert net.model_(stored[:5]).shape[0] == 5


@pytest.mark.slow
def test_classifier_learns_named_classes():
    options = {**SMALL, "epochs": 20, "batch_size": 8, "learning_rate": 0.01}
    net = gnnak.GNNAKClassifier(**options).fit(GRAPHS, SHAPES)
    assert net.classes_.tolist() == ["cycle", "star"]
    shares = net.predict_proba(GRAPHS)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)
    assert (net.predict(GRAPHS) == net.classes_[shares.argmax(axis=1)]).all()
    assert net.score(GRAPHS, SHAPES) > 0.9


def test_classifier_orders_the_columns_of_many_classes():
    """Names such as "10" come before "2" in the alphabet, but not in `classes_`."""
    many = [*GRAPHS, *GRAPHS]
    classes = np.arange(48) % 12
    net = gnnak.GNNAKClassifier(**SMALL).fit(many, classes)
    shares, columns = net._values(many[:3])
    wanted = [shares[:, columns.index(str(number))] for number in range(12)]
    np.testing.assert_array_equal(net.predict_proba(many[:3]), np.stack(wanted, axis=1))


@pytest.mark.slow
def test_estimators_work_in_cross_validation_and_grid_search():
    section = DOCS.read_text("utf-8").split("## With scikit-learn")[1]
    block = section.split("```python\n")[1].split("```")[0].replace("cv=3", "cv=2")
    names: dict = {}
    exec(compile(block, DOCS.name, "exec"), names)
    assert names["scores"].shape == (2,)
    search = GridSearchCV(gnnak.GNNAKRegressor(**SMALL), {"channels": [4, 8]}, cv=2)
    search.fit(GRAPHS, SIZES)
    assert search.best_params_["channels"] in (4, 8)
    assert search.predict(GRAPHS[:2]).shape == (2,)


@pytest.mark.parametrize("kind", [gnnak.GNNAKRegressor, gnnak.GNNAKClassifier])
def test_a_model_that_is_not_fitted_does_not_predict(kind):
    with pytest.raises(NotFittedError):
        kind(**SMALL).predict(GRAPHS)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.0, 1.0, float("nan")] * 8, "no class in row 3"),
        (["a", None, "b"] * 8, "no class in row 2"),
        ([0.5, 1.0, 2.0] * 8, "not whole"),
        ([[0, 1]] * 24, r"shape \[24, 2\]"),
        ([1] * 24, r"y has the classes \[1\]; give at least"),
    ],
)
def test_classifier_refuses_targets_that_are_no_classes(y, message):
    with pytest.raises(OptionError, match=message):
        gnnak.GNNAKClassifier(**SMALL).fit(GRAPHS, y)


COLUMN = r"give one SMILES string per row, such as X\[:, 0\]"


@pytest.mark.parametrize(
    ("graphs", "y", "message"),
    [
        (GRAPHS, None, r"y has shape \[\]; give one number"),
        (GRAPHS, [1.5, float("nan"), 2.5] * 8, "y has no number in row 2"),
        (GRAPHS, np.zeros((24, 2, 2)), r"y has shape \[24, 2, 2\]"),
        (None, SIZES, "the data are None; give a path"),
        (set("abc"), SIZES[:3], "the data are a set"),
        (np.zeros((24, 3)), SIZES, "it is a ndarray; give PyG Data"),
        (GRAPHS, SIZES[:23], "got 24 graphs and 23 targets"),
        (GRAPHS[:2], SIZES[:2], "give at least 3"),
        ([], [], "there are 0 graphs; give at least 3 to fit"),
        ("CCO", SIZES[:1], "graphs is one string"),
        ([["C"], ["CO"], ["CC"]], SIZES[:3], COLUMN),
        (np.array(["C", "CO", "CC"])[:, None], SIZES[:3], COLUMN),
        ([np.array("C")] * 3, SIZES[:3], "it is a ndarray; give PyG Data"),
        (np.array([["C"], [None], ["CC"]], dtype=object), SIZES[:3], COLUMN),
        (GRAPHS, ["high"] * 24, "y cannot be read as numbers"),
    ],
    ids=range(15),
)
def test_regressor_refuses_other_inputs(graphs, y, message):
    with pytest.raises((GraphError, OptionError), match=message):
        gnnak.GNNAKRegressor(**SMALL).fit(graphs, y)
