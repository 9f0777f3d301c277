"""A small model that was trained on molecules, for all tests of this folder."""

import pytest

from gnnak.training.own import train
from tests.training.molecules import SMALL, SMILES, carbons


@pytest.fixture(scope="session")
def molecule_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "run"
    train(SMILES, carbons(SMILES), folder=folder, target="carbons", **SMALL)
    return folder
