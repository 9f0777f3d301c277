import subprocess
import sys

import numpy as np
import pytest

import gnnak
from tests.training.molecules import SMILES

PROGRAM = """
import sys, numpy, gnnak
from tests.training.molecules import SMILES
numpy.save(sys.argv[2], gnnak.load(sys.argv[1]).predict(SMILES).values)
"""


@pytest.mark.slow
def test_another_process_predicts_the_same_bits(molecule_folder, tmp_path):
    path, out = str(molecule_folder / "best.ckpt"), str(tmp_path / "values.npy")
    command = [sys.executable, "-c", "import torch; torch.set_num_threads(1)" + PROGRAM]
    subprocess.run([*command, path, out], check=True, timeout=120)
    assert np.array_equal(np.load(out), gnnak.load(path).predict(SMILES).values)
