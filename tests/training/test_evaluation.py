"""Scores of trained models on new labelled graphs, from Python."""

import json
import math

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gnnak
from gnnak.errors import GnnakError
from gnnak.training.evaluation import Evaluation
from tests.training import small_frames
from tests.training.molecules import SMALL, SMILES, carbons

MASS = carbons(SMILES)
NAN = math.nan
TARGETS = {
    "numbers": [[mass, i % 5] for i, mass in enumerate(MASS)],
    "labels": [[i % 2, NAN if i % 4 == 1 else i % 3 // 2] for i in range(36)],
    "classes": [("b", "c", "a")[i % 3] for i in range(36)],
    "mass": MASS,
}
SPLIT = [0] * 20 + [1] * 6 + [2] * 10


@pytest.fixture(scope="module", params=TARGETS)
def trained(request):
    y = TARGETS[request.param]
    return (*gnnak.train(SMILES, y, split=SPLIT, **SMALL), y)


def test_evaluate_gives_the_test_score_of_the_record(trained):
    model, record, y = trained
    found = model.evaluate(SMILES[26:], y[26:], batch_size=3)
    assert found.score == pytest.approx(record["scores"]["test"], rel=1e-5)
    assert (found.metric, found.num_rows) == (record["metric"], 10)
    assert found.lower_is_better == record["lower_is_better"]
    assert len(found.by_target) == (2 if isinstance(y[0], list) else 0)


@pytest.fixture(scope="module")
def two():
    return gnnak.train(SMILES, TARGETS["numbers"], target=["mass", "rest"], **SMALL)[0]


def test_evaluate_scores_known_targets_by_hand(two):
    values = two.predict(SMILES).values
    y = np.array(TARGETS["numbers"], dtype=float)
    y[3:, 1], y[5] = NAN, NAN
    with pytest.raises(GnnakError, match=r"1 of 36 rows .*row 6: all targets are em"):
        two.evaluate(SMILES, y)
    found = two.evaluate(SMILES, y, skip_bad=True)
    wanted = np.nanmean(abs(values - y), axis=0)
    assert found.by_target == pytest.approx({"mass": wanted[0], "rest": wanted[1]})
    assert found.score == pytest.approx(wanted.mean())
    assert ([row.number for row in found.bad], found.num_rows) == ([6], 35)
    assert two.evaluate(SMILES, y, skip_bad=True, metric="R2").metric == "r2"


def test_evaluate_finds_the_columns_of_a_frame_by_name(two):
    columns = np.array(TARGETS["numbers"]).T
    frame = small_frames.DataFrame({"rest": columns[1], "a": MASS, "mass": columns[0]})
    assert two.evaluate(SMILES, frame) == two.evaluate(SMILES, TARGETS["numbers"])


def write_table(path, **columns):
    rows = zip(SMILES, *columns.values(), strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([",".join(["smiles", *columns]), *lines]))
    return path


def test_evaluate_matches_targets_by_name(two, tmp_path, caplog):
    mass, rest = (list(column) for column in zip(*TARGETS["numbers"], strict=True))
    wanted = two.evaluate(SMILES, TARGETS["numbers"])
    turned = ["rest", "mass"]
    pairs = list(zip(rest, mass, strict=True))
    table = write_table(tmp_path / "m.csv", rest=rest, mass=mass, other=rest)
    for data, options in [
        (table, {}),
        (table, {"target": turned}),
        (SMILES, {"y": pairs, "target": turned}),
        (SMILES, {"labels": table, "target": turned}),
        (SMILES, {"labels": table}),
    ]:
        assert two.evaluate(data, **options) == wanted
    assert not caplog.messages
    assert two.evaluate(table, target=["other", "mass"]) == wanted
    assert caplog.messages == ["column other is compared with target rest."]


def test_evaluate_scores_some_of_the_targets(two, tmp_path):
    rest = [row[1] for row in TARGETS["numbers"]]
    score = two.evaluate(SMILES, TARGETS["numbers"]).by_target["rest"]
    table = write_table(tmp_path / "m.csv", rest=rest, other=rest)
    frame = small_frames.DataFrame({"rest": np.array(rest)})
    for data, options in [
        (table, {}),
        (table, {"target": "rest"}),
        (SMILES, {"y": rest, "target": "rest"}),
        (SMILES, {"y": frame}),
        (SMILES, {"labels": table}),
    ]:
        found = two.evaluate(data, **options)
        assert found.score == found.by_target["rest"] == pytest.approx(score)
        assert math.isnan(found.by_target["mass"])
    with pytest.raises(GnnakError, match=r"1 target \(other\), but the net"):
        two.evaluate(table, target="other")


def test_evaluate_numbers_classes_as_in_training():
    y = TARGETS["classes"]
    model, _ = gnnak.train(SMILES, y, **SMALL)
    for kind in "abc":
        rows = [row for row, name in enumerate(y) if name == kind]
        graphs = [SMILES[row] for row in rows]
        share = np.mean([label == kind for label in model.predict(graphs).labels])
        assert model.evaluate(graphs, [kind] * 12).score == pytest.approx(share)
    with pytest.raises(GnnakError, match="y is 'd', but the classes are a, b, c"):
        model.evaluate(["C", "CC"], ["d", "a"])


def test_evaluate_scores_nodes():
    graphs = [nx.path_graph(5) for _ in range(10)]
    for graph in graphs:
        kinds = {n: "end" if n in (0, 4) else "in" for n in graph}
        nx.set_node_attributes(graph, kinds, "kind")
    model, _ = gnnak.train(graphs, target="kind", **SMALL)
    found = model.evaluate(graphs[:3])
    labels = np.array(model.predict(graphs[:3]).labels)
    share = (labels == ["end", "in", "in", "in", "end"] * 3).mean()
    assert (found.num_rows, found.score) == (15, pytest.approx(share))
    with pytest.raises(GnnakError, match="targets of graphs, but the network predicts"):
        model.evaluate(graphs[:3], ["end"] * 3)


def test_evaluate_gives_one_result_for_json():
    found = Evaluation("r2", NAN, {"a": NAN, "b": 0.5}, 4, "too few")
    told = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert (told["score"], told["by_target"]) == (None, {"a": None, "b": 0.5})
    assert (told["num_rows"], told["undefined"], told["bad"]) == (4, "too few", [])


EDGES = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("graphs", "options", "message"),
    [
        (SMILES, {"y": MASS}, r"1 target \(y\), but the network predicts 2 \(mass, re"),
        (SMILES, {"y": [[1, 2, 3]] * 36}, r"3 targets \(y0, y1, y2\), but the network"),
        (SMILES, {"y": [[1, 2]] * 35}, r"y has shape \[35, 2\]; give 36 rows"),
        (SMILES, {"y": [["a", 2]] * 36}, "y0 is 'a', not a finite number"),
        (SMILES, {}, "the list of SMILES has no targets; name a column or attri"),
        (SMILES, {"y": [[1, 2]] * 36, "metric": "f2"}, "no metric 'f2'; did you mean"),
        (SMILES, {"y": [[1, 2]] * 36, "metric": "f1"}, "not fit a regression task"),
        (SMILES, {"y": [[1, 2]] * 36, "batch_size": 0}, "batch_size is 0; give a whol"),
        (["C", "C("], {"y": [[1, 2]] * 2}, "1 of 2 rows cannot be used .*row 2: 'C"),
        (["C("], {"y": [[1, 2]], "skip_bad": True}, "the only row cannot be used"),
        (["C"], {"y": [[NAN, NAN]], "skip_bad": True}, "row 1: all targets are empty"),
        ([], {"y": []}, "the list of SMILES has no graphs|has no graphs; add some"),
        (
            [Data(torch.zeros(2, 3).long(), EDGES, y=torch.zeros(1, 2))],
            {},
            "trained with 9 columns; give the same features as in training",
        ),
        (
            [Data(torch.zeros(2, 9).long(), EDGES, y=torch.zeros(1, 3))],
            {},
            r"3 targets \(y0, y1, y2\), but the network predicts 2 \(mass, rest\)",
        ),
        (
            [Data(torch.zeros(2, 9).long(), EDGES, y=torch.zeros(2, 2))],
            {},
            "as many nodes as edges",
        ),
        ("no.csv", {}, "there is no file or folder no.csv; check the path"),
    ],
    ids=range(16),
)
def test_evaluate_wrong_input_is_a_sentence(two, graphs, options, message):
    with pytest.raises(GnnakError, match=message) as caught:
        two.evaluate(graphs, **options)
    assert len(str(caught.value).splitlines()) == 1
