from dataclasses import replace

import numpy as np
import pytest
import torch

import gnnak
from gnnak.datasets.own.molecules import molecule_chunks
from gnnak.errors import CheckpointError, OptionError, SizeError
from gnnak.training.predictions import predict, predict_parts
from gnnak.training.trained import TrainedModel
from tests.training.molecules import SMILES


@pytest.fixture(scope="module")
def models(molecule_folder):
    """The trained model, and one with all outputs shifted by 4 deviations."""
    model = gnnak.load(molecule_folder / "best.ckpt")
    weights = dict(model.checkpoint.weights)
    last = [name for name in weights if name.startswith("head")][-1]
    weights[last] = weights[last] + 4
    return [model, TrainedModel(replace(model.checkpoint, weights=weights))]


def test_predict_ensemble_is_mean_and_deviation_by_hand(models):
    found = predict(models, SMILES[:3])
    each = np.stack([model.predict(SMILES[:3]).values for model in models])
    np.testing.assert_allclose(found.values, each.mean(axis=0))
    np.testing.assert_allclose(found.deviation, each.std(axis=0, ddof=1))
    shift = 4 * models[0].info.scaling.deviation[0]
    np.testing.assert_allclose(each[1] - each[0], shift, rtol=1e-4)


def test_predict_refuses_networks_of_different_tasks(models):
    other = replace(models[0].checkpoint.info, targets=("mass",))
    stranger = TrainedModel(replace(models[0].checkpoint, info=other))
    with pytest.raises(CheckpointError, match="targets is"):
        predict([models[0], stranger], ["C"])


def test_predict_splits_batches_that_do_not_fit(models, monkeypatch):
    model, sizes = models[0], []
    whole = model.predict(SMILES[:8]).values
    forward = model.forward

    def small_only(graphs):
        sizes.append(graphs.num_graphs)
        if graphs.num_graphs > 2:
            raise SizeError("too large")
        return forward(graphs)

    monkeypatch.setattr(model, "forward", small_only)
    found = model.predict(SMILES[:8])
    np.testing.assert_allclose(found.values, whole, rtol=1e-5)
    assert sizes == [8, 4, 2, 2, 4, 2, 2]


def test_predict_parts_of_a_table_number_rows_of_the_file(
    models, tmp_path, monkeypatch
):
    monkeypatch.setattr(molecule_chunks, "__defaults__", (None, 2, "ogb", 0))
    (tmp_path / "m.csv").write_text("id,smiles\na,C\nb,C(\nc,\nd,CC\ne,O,x\n")
    parts = list(predict_parts(models[:1], tmp_path / "m.csv"))
    assert [part.rows.num_rows for part in parts] == [2, 2, 1]
    assert [row.number for p in parts for row in p.predictions.bad] == [2, 3, 5]
    assert [p.rows.columns["id"] for p in parts] == [["a", "b"], ["c", "d"], ["e"]]
    (rest,) = predict_parts(models[:1], tmp_path / "m.csv", skip=4)
    assert rest.predictions.bad == parts[2].predictions.bad
    assert (rest.rows.columns["id"], rest.rows.share) == (["e"], 1.0)
    whole = models[0].predict(tmp_path / "m.csv").values[:, 0]
    assert np.isnan(whole).tolist() == [False, True, True, False, True]


def test_predict_and_embed_take_the_name_of_the_column(models, tmp_path):
    (tmp_path / "new.csv").write_text("mine\n" + "\n".join(SMILES[:3]))
    found = models[0].predict(tmp_path / "new.csv", smiles="mine")
    assert np.array_equal(found.values, models[0].predict(SMILES[:3]).values)
    states = models[0].embed(tmp_path / "new.csv", smiles="mine")
    assert torch.equal(states, models[0].embed(SMILES[:3]))
    with pytest.raises(OptionError, match=r"name the column .* with --smiles"):
        models[0].predict(tmp_path / "new.csv")
