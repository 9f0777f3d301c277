"""The calls of the Hugging Face client; a stand-in answers them, without a network."""

import inspect
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import gnnak
from gnnak.errors import FileFormatError
from tests.training.molecules import SMILES


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
