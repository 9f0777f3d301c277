import shutil

import numpy as np
import pytest

import gnnak
from gnnak.errors import CheckpointError, FileFormatError, MissingPackageError
from gnnak.training import trained
from gnnak.training.trained import TrainedModel
from tests.training.molecules import SMILES


@pytest.fixture(scope="module")
def model(molecule_folder):
    return gnnak.load(molecule_folder / "best.ckpt")


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
