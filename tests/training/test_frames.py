"""Columns and data frames of pandas as graphs and targets.

The tests run with stand-ins for pandas, and with pandas if it is installed.
"""

import networkx as nx
import numpy as np
import pytest

import gnnak
from gnnak.errors import GnnakError
from tests.training import small_frames
from tests.training.molecules import SMALL, SMILES, carbons

MASS = carbons(SMILES)
HALF = [mass / 2 for mass in MASS]
FEW = {name: value for name, value in SMALL.items() if name != "progress"}


@pytest.fixture(params=["stand-in", "pandas"])
def pandas(request):
    """The module of the data frames: a stand-in, or pandas if it is installed."""
    if request.param == "stand-in":
        return small_frames
    return pytest.importorskip("pandas")


@pytest.fixture
def frame(pandas):
    """Molecules with two targets; the index of the rows is shuffled."""
    made = pandas.DataFrame({"smiles": SMILES, "mass": MASS, "half": HALF})
    if pandas is not small_frames:
        made.index = np.random.default_rng(0).permutation(len(SMILES))
    return made


def test_train_and_predict_with_columns_as_with_lists(frame):
    net, record = gnnak.train(frame["smiles"], frame["mass"], **SMALL)
    plain, wanted = gnnak.train(SMILES, MASS, **SMALL)
    assert record["scores"] == wanted["scores"]
    found = net.predict(frame["smiles"])
    np.testing.assert_array_equal(found.values, plain.predict(SMILES).values)
    assert (found.columns, net.info.targets) == (("mass",), ("mass",))
    assert net(frame["smiles"]).tolist() == plain(SMILES).tolist()
    np.testing.assert_array_equal(net.embed(frame["smiles"]), plain.embed(SMILES))


def test_train_with_a_frame_of_targets_names_the_targets(frame):
    y = frame[["mass", "half"]]
    net, _ = gnnak.train(frame["smiles"], y, **SMALL)
    assert net.info.targets == ("mass", "half")
    plain, _ = gnnak.train(SMILES, np.array([MASS, HALF]).T, **SMALL)
    found = net.predict(frame["smiles"]).values
    np.testing.assert_array_equal(found, plain.predict(SMILES).values)
    named, _ = gnnak.train(frame["smiles"], y, target=["a", "b"], **SMALL)
    assert named.info.targets == ("a", "b")


def test_train_takes_missing_values_as_unknown_targets(pandas):
    mass = [pandas.NA, *MASS[1:]]
    y = pandas.DataFrame({"mass": mass, "half": HALF})
    smiles = pandas.Series(SMILES)
    net, _ = gnnak.train(smiles, y, **SMALL)
    assert net.info.task == "regression"
    with pytest.raises(GnnakError, match="row 1: mass is empty"):
        gnnak.train(smiles, y["mass"], **SMALL)
    with pytest.raises(GnnakError, match="y has no number in row 1"):
        gnnak.GNNAKRegressor(**FEW).fit(smiles, y["mass"])
    kinds = pandas.Series(["a", pandas.NA, *["b"] * (len(SMILES) - 2)])
    with pytest.raises(GnnakError, match="y has no class in row 2"):
        gnnak.GNNAKClassifier(**FEW).fit(smiles, kinds)


def test_missing_molecules_of_a_column_are_bad_rows(pandas):
    smiles = pandas.Series([pandas.NA, *SMILES])
    y = pandas.Series([1.5, *MASS], name="mass")
    net, record = gnnak.train(smiles, y, skip_bad=True, **SMALL)
    assert record["skipped"] == ["row 1: None is not a SMILES string"]
    found = net.predict(smiles)
    assert [row.number for row in found.bad] == [1]
    assert np.isnan(found.values[:, 0]).tolist() == [True] + [False] * len(SMILES)


def test_train_takes_a_column_as_split(pandas, frame):
    parts = ["train"] * 30 + ["val"] * 3 + ["test"] * 3
    options = {"split": pandas.Series(parts), **SMALL}
    _, record = gnnak.train(frame["smiles"], frame["mass"], **options)
    _, wanted = gnnak.train(SMILES, MASS, split=parts, **SMALL)
    assert record["scores"] == wanted["scores"]


def test_estimators_take_columns_and_frames_as_lists(frame):
    net = gnnak.GNNAKRegressor(**FEW).fit(frame["smiles"], frame["mass"])
    plain = gnnak.GNNAKRegressor(**FEW).fit(SMILES, MASS)
    found = net.predict(frame["smiles"])
    np.testing.assert_array_equal(found, plain.predict(SMILES))
    two = gnnak.GNNAKRegressor(**FEW).fit(frame["smiles"], frame[["mass", "half"]])
    assert two.predict(frame["smiles"]).shape == (len(SMILES), 2)


def test_classifier_takes_a_column_of_words(pandas):
    kinds = np.where(np.array(MASS) > 3000, "big", "small").tolist()
    net = gnnak.GNNAKClassifier(**FEW).fit(pandas.Series(SMILES), pandas.Series(kinds))
    assert net.classes_.tolist() == ["big", "small"]
    plain = gnnak.GNNAKClassifier(**FEW).fit(SMILES, kinds)
    shares = net.predict_proba(pandas.Series(SMILES))
    np.testing.assert_array_equal(shares, plain.predict_proba(SMILES))


def test_a_column_may_have_graphs(pandas):
    graphs = [nx.path_graph(size) for size in range(2, 12)]
    column = pandas.Series(graphs)
    net, _ = gnnak.train(column, pandas.Series(range(2, 12)), **SMALL)
    wanted = net.predict(graphs).values
    np.testing.assert_array_equal(net.predict(column).values, wanted)


def test_a_whole_frame_as_graphs_is_a_sentence_that_names_its_columns(frame):
    sentence = (
        r"the data are a DataFrame with the columns smiles, mass, half; give the "
        r"column of molecules as the graphs, such as frame\['smiles'\], and in "
        r"training the columns of targets as y, such as frame\['half'\]\.$"
    )
    with pytest.raises(GnnakError, match=sentence):
        gnnak.train(frame, target="mass", **SMALL)
    with pytest.raises(GnnakError, match=sentence):
        gnnak.GNNAKRegressor(**FEW).fit(frame, MASS)
    with pytest.raises(GnnakError, match=r"such as frame\['smiles'\]"):
        gnnak.from_pretrained("zinc").predict(frame[["mass"]])


def test_cross_validation_with_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    from sklearn.model_selection import KFold, cross_val_score

    index = np.random.default_rng(0).permutation(len(SMILES))
    smiles, y = (pandas.Series(values, index=index) for values in (SMILES, MASS))
    folds, net = KFold(2, shuffle=True, random_state=0), gnnak.GNNAKRegressor(**FEW)
    found = cross_val_score(net, smiles, y, cv=folds)
    assert found.tolist() == cross_val_score(net, SMILES, MASS, cv=folds).tolist()


def test_columns_of_pandas_of_any_dtype():
    pandas = pytest.importorskip("pandas")
    wanted = gnnak.train(SMILES, MASS, **SMALL)[1]["scores"]
    mass = pandas.Series(MASS)
    for y in (mass.astype("Float64"), mass.astype("object"), mass.to_frame("mass")):
        smiles = pandas.Series(SMILES, dtype="string")
        assert gnnak.train(smiles, y, **SMALL)[1]["scores"] == wanted
    kinds = pandas.Series(["a", "b"] * 18, dtype="category", name="kind")
    net, _ = gnnak.train(pandas.Series(SMILES, dtype="category"), kinds, **SMALL)
    assert (net.info.targets, net.info.classes) == (("kind",), ("a", "b"))
