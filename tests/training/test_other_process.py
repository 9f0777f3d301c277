import subprocess
import sys

import numpy as np
import pytest

import gnnak
from tests.training.molecules import SMILES

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
