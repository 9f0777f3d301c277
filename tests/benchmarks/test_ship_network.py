from dataclasses import replace

import pytest
import torch

import gnnak
from benchmarks import ship_network
from gnnak.datasets import load_dataset
from gnnak.datasets.cache import find_file
from gnnak.errors import CheckpointError
from gnnak.training.config.experiment import load_experiment
from gnnak.training.config.options import change
from gnnak.training.module import build_network
from gnnak.training.processes.machine import Machine
from gnnak.training.records.checkpoint import Checkpoint
from gnnak.training.run import evaluate

OPTIONS = {"model.channels": 8, "model.num_layers": 1, "model.subgraphs.num_hops": 1}


@pytest.fixture(scope="module")
def dataset():
    if find_file("zinc12k.npz", None) is None:
        pytest.skip("needs the data set ZINC-12K")
    return load_dataset("zinc")


@pytest.fixture(scope="module")
def checkpoint(dataset):
    """A small network for ZINC-12K, as it is before the training."""
    torch.manual_seed(0)
    config = change(load_experiment("zinc").config, OPTIONS)
    weights = build_network(config, dataset.info).state_dict()
    found = Checkpoint(config, dataset.info, weights, {})
    score = evaluate(found, dataset, "test", Machine("cpu")).score
    return replace(found, scores={"validation": 1.0, "test": score})


@pytest.mark.heavy
def test_shipped_network_is_the_best_one_and_predicts_from_smiles(
    checkpoint, dataset, tmp_path
):
    paths = [tmp_path / "0.ckpt", tmp_path / "1.ckpt"]
    checkpoint.save(paths[0])
    worse = {"validation": 2.0, "test": 9.0}
    replace(checkpoint, scores=worse).save(paths[1])
    folder = ship_network.ship(paths, tmp_path / "shipped")
    model = gnnak.from_pretrained(folder)
    assert model.checkpoint.scores == checkpoint.scores
    assert "penalised logP" in (folder / "README.md").read_text()
    assert 'gnnak.from_pretrained("zinc")' in (folder / "README.md").read_text()
    found = model.predict(["CC(C)C[C@H](N)C(=O)O", "C(", "C[Si](C)(C)C"])
    assert [row.number for row in found.bad] == [2]
    table = model.network.encoder.tables.weight
    counts = torch.bincount(dataset.store.x[:, 0], minlength=28)
    assert counts[21:].tolist() == [0] * 7
    assert all(torch.equal(table[27], row) for row in table[21:])
    with pytest.raises(CheckpointError, match="the test score is"):
        ship_network.ship(paths[1:], tmp_path / "other")


def test_best_of_refuses_networks_of_two_data_sets(checkpoint):
    other = replace(checkpoint, info=replace(checkpoint.info, name="other"))
    with pytest.raises(CheckpointError, match="data sets differ: other, zinc"):
        ship_network.best_of([checkpoint, other])
