"""Trained models: predictions, pretrained folders, the hub, and shipped networks."""

import inspect
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

import gnnak
from gnnak.datasets.own.molecules import FEATURIZERS
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import (
    CheckpointError,
    FileFormatError,
    GnnakError,
    GraphError,
    MissingPackageError,
    OptionError,
)
from gnnak.graphs import from_smiles, to_pyg
from gnnak.graphs.readers.smiles import parse_smiles
from gnnak.training import trained
from gnnak.training.module import build_network
from gnnak.training.records.checkpoint import Checkpoint
from gnnak.training.trained import SHIPPED, TrainedModel, shipped_names
from tests.training.molecules import SMILES
from tests.training.small import small_config
from tests.training.small_frames import DataFrame


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


@pytest.fixture
def folder(model, tmp_path):
    model.save_pretrained(tmp_path / "net")
    return tmp_path / "net"


@pytest.mark.parametrize(
    "read", [gnnak.from_pretrained, gnnak.load, TrainedModel.from_pretrained]
)
def test_pretrained_folder_predicts_the_same_bits(read, model, folder):
    again = read(folder)
    assert not again.training
    assert np.array_equal(again.predict(SMILES).values, model.predict(SMILES).values)


def test_from_pretrained_takes_checkpoints_and_folders_of_runs(molecule_folder):
    for path in (molecule_folder / "best.ckpt", molecule_folder):
        assert repr(gnnak.from_pretrained(path)) == repr(gnnak.load(path))


def test_model_card_tells_task_scores_data_and_use(folder):
    card = (folder / "README.md").read_text()
    for text in (
        "library_name: gnnak",
        "# gin-ak+ trained on graphs",
        "regression, 1 output per graph: carbons",
        "| test | ",
        'gnnak.from_pretrained("net")',
        "gnnak predict net new.csv -o out.csv",
        "Written with gnnak 0.1.0, torch 2.",
    ):
        assert text in card


def test_shipped_network_is_found_by_name_in_any_case(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(trained, "SHIPPED", tmp_path / "shipped")
    shutil.copytree(folder, tmp_path / "shipped" / "amber")
    assert trained.shipped_names() == ["amber"]
    for read in (gnnak.load, gnnak.from_pretrained):
        assert repr(read("Amber")) == repr(gnnak.load(folder))
    with pytest.raises(FileFormatError, match=r"there is no file ember; .*: amber"):
        gnnak.load("ember")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "amber").write_text("weights")
    with pytest.raises(CheckpointError, match="amber is damaged"):
        gnnak.load("amber")


def test_load_of_a_file_with_data_says_so(tmp_path):
    (tmp_path / "m.csv").write_text("smiles,y")
    with pytest.raises(FileFormatError, match="is a file with data, not a model"):
        gnnak.load(tmp_path / "m.csv")


@pytest.mark.parametrize("name", ["nothing", "no/such/folder", "runs/../x", "a b/c"])
def test_from_pretrained_without_such_a_file_is_a_sentence(name):
    with pytest.raises(FileFormatError, match="there is no file"):
        gnnak.from_pretrained(name)


def test_load_never_asks_the_hub():
    with pytest.raises(FileFormatError, match="there is no file owner/name"):
        gnnak.load("owner/name")


def test_folder_without_a_network_is_a_sentence(tmp_path):
    with pytest.raises(FileFormatError, match=r"no config\.json and no best\.ckpt"):
        gnnak.from_pretrained(tmp_path)


def test_hub_without_its_package_is_a_sentence(model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    for call in (
        lambda: gnnak.from_pretrained("owner/name"),
        lambda: model.push_to_hub("owner/name"),
    ):
        with pytest.raises(MissingPackageError, match="pip install huggingface_hub"):
            call()


def test_load_names_an_unfinished_run(tmp_path):
    (tmp_path / "last.ckpt").touch()
    with pytest.raises(FileFormatError, match="is an unfinished run; finish it with"):
        gnnak.load(tmp_path)


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_network_is_small_and_has_a_card(name):
    files = {path.name: path.stat().st_size for path in (SHIPPED / name).iterdir()}
    assert sorted(files) == ["README.md", "config.json", "model.safetensors"]
    assert sum(files.values()) < 5_000_000
    assert f"gnnak predict {name} new." in (SHIPPED / name / "README.md").read_text()


@pytest.mark.skipif("zinc" not in shipped_names(), reason="zinc is not shipped")
def test_zinc_network_predicts_penalised_logp():
    pytest.importorskip("rdkit")
    model = gnnak.from_pretrained("zinc")
    smiles = ["CCCCCCc1ccc(OC)cc1", "NC(=O)c1cccnc1", "C(", "C[Si](C)(C)C"]
    found = model.predict(smiles)
    assert np.isnan(found.values[:, 0]).tolist() == [False, False, True, False]
    # An alkyl chain raises logP, and nicotinamide is soluble in water.
    assert found.values[0, 0] > found.values[1, 0] + 1


class Hub(SimpleNamespace):
    """A hub on the disk, with the functions and argument names of the client."""

    def create_repo(self, repo_id, *, private=None, exist_ok=False):
        assert exist_ok
        (self.root / repo_id).mkdir(parents=True, exist_ok=True)
        return f"https://hub/{repo_id}"

    def upload_folder(self, *, repo_id, folder_path):
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)

    def snapshot_download(self, repo_id, *, revision=None, allow_patterns=None):
        if not (self.root / repo_id).is_dir():
            raise OSError("404:\n not found.")
        assert {"config.json", "model.safetensors"} <= set(allow_patterns)
        return str(self.root / repo_id)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    found = Hub(root=tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", found)
    return found


def test_model_travels_over_the_hub(hub, molecule_folder):
    model = gnnak.load(molecule_folder)
    assert model.push_to_hub("me/net") == "https://hub/me/net"
    again = gnnak.from_pretrained("me/net")
    assert np.array_equal(again.predict(SMILES).values, model.predict(SMILES).values)
    assert 'from_pretrained("me/net")' in (hub.root / "me/net/README.md").read_text()


def test_hub_that_fails_is_a_sentence(hub, molecule_folder, monkeypatch):
    with pytest.raises(FileFormatError, match="hub: 404: not found; check the name"):
        gnnak.from_pretrained("me/other")
    monkeypatch.setattr(hub, "create_repo", lambda *_, **__: 1 / 0)
    with pytest.raises(FileFormatError, match="division by zero; log in with"):
        gnnak.load(molecule_folder).push_to_hub("me/net")


def test_stand_in_has_the_arguments_of_the_client():
    client = pytest.importorskip("huggingface_hub")
    for name in ("create_repo", "upload_folder", "snapshot_download"):
        known = inspect.signature(getattr(client, name)).parameters
        used = inspect.signature(getattr(Hub, name)).parameters
        assert set(used) - {"self"} <= set(known)


pytest.importorskip("rdkit")

DRUGS = ["C[C@H](N)C(=O)[O-]", "c1ccncc1C#N", "C[Si](C)(C)C"]


def make_model(name):
    torch.manual_seed(0)
    nodes, edges = FEATURIZERS["zinc"].nodes, FEATURIZERS["zinc"].edges
    info = DatasetInfo(name, name, "regression", "mae", 1, nodes, edges, "a file")
    config = small_config(data__name=name)
    weights = build_network(config, info).state_dict()
    return TrainedModel(Checkpoint(config, info, weights, {}))


def test_zinc_network_takes_smiles_as_text_list_and_files(tmp_path):
    model = make_model("zinc")
    graphs = FEATURIZERS["zinc"].convert(parse_smiles(DRUGS))
    wanted = model(graphs)
    assert torch.equal(model(DRUGS), wanted)
    torch.testing.assert_close(model(DRUGS[0]), wanted[:1])
    (tmp_path / "new.csv").write_text("\n".join(["smiles", *DRUGS, "C("]))
    (tmp_path / "new.smi").write_text("\n".join([*DRUGS, "C("]))
    for data in ([*DRUGS, "C("], tmp_path / "new.csv", tmp_path / "new.smi"):
        found = model.predict(data)
        assert [row.number for row in found.bad] == [4]
        assert np.array_equal(found.values[:3], wanted.detach().double().numpy())
    known = ["smiles,z", *(f"{s},1" for s in DRUGS)]
    (tmp_path / "known.csv").write_text("\n".join(known))
    for metric, power in (("mae", 1), ("mse", 2)):
        score = float(((wanted.detach() - 1).abs() ** power).mean())
        found = model.evaluate(tmp_path / "known.csv", metric=metric)
        assert found.score == pytest.approx(score, rel=1e-5)
    assert model.evaluate(DRUGS, DataFrame({"z": [1] * 3}), metric="mse") == found


def test_network_for_other_graphs_refuses_smiles_in_a_sentence(tmp_path):
    model = make_model("mine")
    (tmp_path / "new.csv").write_text("smiles\nC")
    for call in (
        lambda: model("C"),
        lambda: model.predict(["C"]),
        lambda: model.predict(tmp_path / "new.csv"),
        lambda: model.evaluate(["C"], [1.0]),
    ):
        with pytest.raises(OptionError, match="trained on mine with other features"):
            call()


PROGRAM = """
import sys, torch
torch.set_num_threads(1)
import numpy, gnnak
from tests.training.molecules import SMILES
for path in sys.argv[2:]:
    numpy.save(path + ".npy", gnnak.from_pretrained(path).predict(SMILES).values)
assert "huggingface_hub" not in sys.modules
"""


@pytest.mark.slow
def test_another_process_predicts_the_same_bits(molecule_folder, tmp_path):
    model = gnnak.load(molecule_folder / "best.ckpt")
    paths = [str(tmp_path / "one.ckpt"), str(tmp_path / "folder")]
    model.save(paths[0])
    model.save_pretrained(paths[1])
    command = [sys.executable, "-c", PROGRAM, "-", *paths]
    subprocess.run(command, check=True, timeout=120)
    for path in paths:
        assert np.array_equal(np.load(path + ".npy"), model.predict(SMILES).values)
