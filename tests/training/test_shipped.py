"""The networks that are installed with the package, as far as there are some."""

import numpy as np
import pytest

import gnnak
from gnnak.training.trained import SHIPPED, shipped_names

pytestmark = pytest.mark.skipif(not shipped_names(), reason="no network is shipped")


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
