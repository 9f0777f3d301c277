import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

import gnnak
from gnnak.errors import GnnakError, GraphError
from gnnak.graphs import from_smiles, to_pyg
from tests.training.molecules import SMILES


@pytest.fixture(scope="module")
def model(molecule_folder):
    return gnnak.load(molecule_folder / "best.ckpt")


def test_load_gives_a_model_that_tells_what_it_is(model):
    assert not model.training
    assert "'gin-ak+', regression of carbons, validation mae" in repr(model)


def test_model_takes_every_kind_of_graph(model):
    store = from_smiles(["CCO", "c1ccccc1"])
    data = to_pyg(store)
    wanted = model(["CCO", "c1ccccc1"])
    assert wanted.shape == (2, 1)
    one = store[[0, 1]]
    for graphs in (data, Batch.from_data_list(data), store, one):
        assert torch.equal(model(graphs), wanted)
    tensors = model(one.x, one.edge_index, one.edge_attr, one.batch)
    assert torch.equal(tensors, wanted)
    torch.testing.assert_close(model("CCO"), wanted[:1])
    torch.testing.assert_close(model(data[1]), wanted[1:])


def test_model_survives_atoms_and_charges_it_has_never_seen(model):
    strange = ["[U]", "*", "[Fe+6]", "[Na+].[Cl-]", "FS(F)(F)(F)(F)F", "[2H]C"]
    assert model(strange).isfinite().all()


def test_model_takes_categories_outside_of_the_known_ranges_as_other(model):
    (data,) = to_pyg(from_smiles(["CCO"]))
    other = data.clone()
    data.x[:, 0], other.x[:, 0] = 118, 5000
    assert torch.equal(model(data), model(other))
    other.x[0, 0] = -1
    with pytest.raises(GraphError, match="category -1"):
        model(other)


def test_model_gradient_reaches_the_weights(model):
    model(["CCO"]).sum().backward()
    assert model.network.encoder.tables.weight.grad is not None
    model.zero_grad()


def test_save_and_load_predict_the_same_bits(model, tmp_path):
    model.save(tmp_path / "copy.ckpt")
    again = gnnak.load(tmp_path / "copy.ckpt")
    first, second = (m.predict(SMILES).values for m in (model, again))
    assert np.array_equal(first, second)


def test_predict_marks_bad_rows_and_keeps_the_order(model):
    found = model.predict(["CCO", "C(", "", "CCN", None])
    assert [row.number for row in found.bad] == [2, 3, 5]
    assert np.isnan(found.values[:, 0]).tolist() == [False, True, True, False, True]
    whole = model.predict(["CCO", "CCN"], batch_size=1).values
    np.testing.assert_allclose(found.values[[0, 3]], whole, rtol=1e-5)


def test_embed_is_the_input_of_the_head(model):
    states = model.embed(["CCO", "C(", "CCN"])
    assert states.shape == (3, 8)
    assert states[1].isnan().all()
    outputs = model.scaler.restore(model.network.head(states[[0, 2]]))
    torch.testing.assert_close(outputs, model(["CCO", "CCN"]))


NO_EDGES = torch.zeros(2, 0).long()


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ("C(", r"row 1: 'C\(' is not a molecule"),
        ([Data(num_nodes=1, edge_index=NO_EDGES)], "with 9 columns"),
        (Data(x=torch.zeros(2, 3).long(), edge_index=NO_EDGES), "with 9 columns"),
        (Data(x=torch.zeros(2, 9), edge_index=NO_EDGES), "give whole numbers"),
        (["CCO", 7], "not a SMILES string"),
        (7, "give a path, or a list"),
    ],
    ids=range(6),
)
def test_model_answers_wrong_graphs_with_a_sentence(model, graphs, message):
    with pytest.raises(GnnakError, match=message):
        model(graphs)


@pytest.mark.parametrize("path", [None, 5])
def test_load_and_from_pretrained_refuse_what_is_no_path(path):
    for read in (gnnak.load, gnnak.from_pretrained):
        with pytest.raises(GnnakError, match=f"the path is {path}; give the path"):
            read(path)
