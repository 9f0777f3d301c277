"""A network for ZINC-12K predicts from SMILES strings as from the graphs."""

import numpy as np
import pytest
import torch

from gnnak.datasets.own.molecules import FEATURIZERS
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import OptionError
from gnnak.graphs.readers.smiles import parse_smiles
from gnnak.training.module import build_network
from gnnak.training.records.checkpoint import Checkpoint
from gnnak.training.trained import TrainedModel
from tests.training.small import small_config

pytest.importorskip("rdkit")

SMILES = ["C[C@H](N)C(=O)[O-]", "c1ccncc1C#N", "C[Si](C)(C)C"]


def make_model(name):
    """Return an untrained network for graphs with the features of ZINC-12K."""
    torch.manual_seed(0)
    nodes, edges = FEATURIZERS["zinc"].nodes, FEATURIZERS["zinc"].edges
    info = DatasetInfo(name, name, "regression", "mae", 1, nodes, edges, "a file")
    config = small_config(data__name=name)
    weights = build_network(config, info).state_dict()
    return TrainedModel(Checkpoint(config, info, weights, {}))


def test_zinc_network_takes_smiles_as_text_list_and_files(tmp_path):
    model = make_model("zinc")
    graphs = FEATURIZERS["zinc"].convert(parse_smiles(SMILES))
    wanted = model(graphs)
    assert torch.equal(model(SMILES), wanted)
    torch.testing.assert_close(model(SMILES[0]), wanted[:1])
    (tmp_path / "new.csv").write_text("\n".join(["smiles", *SMILES, "C("]))
    (tmp_path / "new.smi").write_text("\n".join([*SMILES, "C("]))
    for data in ([*SMILES, "C("], tmp_path / "new.csv", tmp_path / "new.smi"):
        found = model.predict(data)
        assert [row.number for row in found.bad] == [4]
        assert np.array_equal(found.values[:3], wanted.detach().double().numpy())


def test_network_for_other_graphs_refuses_smiles_in_a_sentence(tmp_path):
    model = make_model("mine")
    (tmp_path / "new.csv").write_text("smiles\nC")
    for call in (
        lambda: model("C"),
        lambda: model.predict(["C"]),
        lambda: model.predict(tmp_path / "new.csv"),
    ):
        with pytest.raises(OptionError, match="trained on mine with other features"):
            call()
