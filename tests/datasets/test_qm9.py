"""QM9, read from files in the layout of qm9pack."""

import importlib.util
import math
import re

import numpy as np
import pytest
import torch

from gnnak.datasets import load_dataset, qm9
from gnnak.datasets.own.molecules import find_featurizer
from gnnak.errors import FileFormatError, MissingPackageError, OptionError
from gnnak.training.config.options import change
from gnnak.training.config.run_config import RunConfig
from gnnak.training.metrics import TargetMean
from gnnak.training.module import GraphTask
from gnnak.training.processes.machine import Machine
from gnnak.training.records.checkpoint import load_checkpoint
from gnnak.training.records.results import fingerprint
from gnnak.training.run import evaluate, run

SMILES = ("C", "N", "O", "C#C", "C#N", "C=O", "CC", "CO", "CC#C", "CC#N")
ATOMS = [1, 1, 1, 2, 2, 2, 2, 2, 3, 3]
HEADER = (
    "XYZ_file,Index,SMILES,InChi,N_atoms,Elements,XYZ_Ang,RotA_GHz,Dipole_debye,"
    "Polarizability_bohr3,HOMO_au,LUMO_au,HOMO_LUMO_gap_au,R2_bohr2,ZPVE_au,"
    "InternalEnergy_0K_au,InternalEnergy_298K_au,Enthalphy_298K_au,"
    "GibbsFreeEnergy_298K_au,Heatcapacity_Cv_cal_mol_K\n"
)


def write_package(folder, header=HEADER, smiles=SMILES):
    """Write ten molecules; target t of molecule i is 100 t + i."""
    (folder / "qm9pack" / "data").mkdir(parents=True)
    (folder / "qm9pack" / "__init__.py").write_text("import pandas_is_not_needed")
    parts = range(4), range(4, 8), range(8, len(smiles))
    for name, rows in zip(qm9.FILES, parts, strict=True):
        lines = [header]
        for i in rows:
            elements = "\"['C','H']\",\"[[-0.01,1.08],[0.5,1.]]\""
            values = ",".join(f"{100 * t + i}." for t in range(12))
            lines.append(
                f'"{i}.xyz",{i},"{smiles[i]}","InChI",5,{elements},157.7,{values}\n'
            )
        (folder / "qm9pack" / "data" / name).write_text("".join(lines))


@pytest.fixture
def package(tmp_path, monkeypatch, no_data):
    """Return a folder from which packages are imported, and expect ten molecules."""
    monkeypatch.setattr(qm9, "MOLECULES", 10)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_qm9_is_read_from_qm9pack_and_cached(package, monkeypatch):
    write_package(package)
    found = load_dataset("qm9", target="gap")
    assert found.info.source == "qm9pack"
    assert find_featurizer(found.info) == "ogb"
    assert found.store.num_nodes.tolist() == ATOMS
    assert found.store.num_edges.tolist() == [2 * (n - 1) for n in ATOMS]
    assert found.store.x[:3, 0].tolist() == [5, 6, 7]  # atomic numbers, from 0
    assert found.store.y.tolist() == [400.0 + i for i in range(10)]
    assert found.split.bincount().tolist() == [8, 1, 1]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    for place, target in enumerate(qm9.TARGETS):
        again = load_dataset("qm9", target=target)
        assert again.store.y[0] == 100 * place
        assert torch.equal(again.split, found.split)


def test_qm9_is_split_by_the_seed_and_scaled_by_its_training_molecules(package):
    write_package(package)
    splits = set()
    for seed in range(4):
        found = load_dataset("qm9", seed=seed)
        train = found.store.y[found.split == 0].double()
        assert found.info.scaling.mean == pytest.approx((float(train.mean()),))
        deviation = float(train.std(correction=0))
        assert found.info.scaling.deviation == pytest.approx((deviation,))
        splits.add(tuple(found.split.tolist()))
    assert len(splits) == 4


def test_a_run_scores_the_targets_of_qm9_in_their_own_units(package):
    """The initial outputs are near 0: without scaling, the error would be over 1000."""
    write_package(package)
    options = {"model.num_layers": 1, "model.channels": 8, "train.epochs": 1}
    config = change(RunConfig(), {"data.name": "qm9", **options})
    data = load_dataset("qm9", target="cv")
    record = run(config, data, package / "run", Machine("cpu"))
    assert 0 < record["scores"]["test"] < 100


def test_one_network_predicts_several_targets_of_qm9(package):
    """Target t of molecule i is 100 t + i: all deviations are that of the numbers i."""
    write_package(package)
    data = load_dataset("qm9", target="gap, mu")
    assert data.store.y.tolist() == [[400.0 + i, i] for i in range(10)]
    train = data.store.y[data.split == 0].double()
    info = data.info
    assert (info.targets, info.metric) == (("gap", "mu"), "std-mae")
    assert info.scaling.mean == pytest.approx(train.mean(dim=0).tolist())
    deviation = float(train.std(dim=0, correction=0)[0])
    assert info.scaling.deviation == pytest.approx((deviation, deviation))
    options = {"data.target": "gap,mu", "model.channels": 8, "train.epochs": 1}
    config = change(RunConfig(), {"data.name": "qm9", **options})
    record = run(config, data, package / "run", Machine("cpu"))
    errors = record["by_target"]
    assert list(errors) == ["gap", "mu"]
    assert all(0 < error < 100 for error in errors.values())
    mean = sum(errors.values()) / 2 / deviation
    assert record["scores"]["test"] == pytest.approx(mean, rel=1e-5)
    found = evaluate(load_checkpoint(package / "run" / "best.ckpt"), data)
    assert found.by_target == pytest.approx(errors, rel=1e-5)
    assert found.score == pytest.approx(mean, rel=1e-5)


def test_wrong_lists_of_targets_are_refused(package):
    write_package(package)
    with pytest.raises(OptionError, match=r"target is 'mu,mu'; name each one once\."):
        load_dataset("qm9", target="mu,mu")
    with pytest.raises(OptionError, match=r"'hom'.*homo"):
        load_dataset("qm9", target="mu,hom")
    with pytest.raises(OptionError, match="'star,triangle', but counting has one targ"):
        load_dataset("counting", target="star,triangle")


def test_qm9_is_read_from_a_copy_of_the_cached_file(package, monkeypatch):
    """Neither qm9pack nor rdkit is needed for the copy, `qm9.npz`."""
    write_package(package)
    made = load_dataset("qm9", target="mu,zpve")
    (file,) = (package / "cache").glob("qm9*.npz")
    file.rename(package / "qm9.npz")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("GNNAK_DATA", str(package))
    read = load_dataset("qm9", target="mu,zpve")
    assert read.info.source == "qm9.npz"
    assert fingerprint(read) == fingerprint(made)


def test_qm9_without_its_package_names_the_extra(package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    told = "the data set qm9 needs qm9pack; install it with pip install qm9pack, or "
    with pytest.raises(MissingPackageError, match=told + "install gnnak .* extra qm9"):
        load_dataset("qm9")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"smiles": SMILES[:9]},
            "qm9pack has 9 molecules, not 10; install qm9pack 1.0.3",
        ),
        ({"smiles": ("X", *SMILES[1:])}, "qm9_part1.csv is not a file of qm9pack 1.0"),
        ({"header": HEADER.replace("HOMO_au", "HOMO")}, "is not a file of qm9pack"),
    ],
)
def test_other_files_of_qm9pack_are_refused(changes, sentence, package):
    write_package(package, **changes)
    with pytest.raises(FileFormatError, match=sentence):
        load_dataset("qm9")


def test_a_file_of_qm9_with_other_targets_is_refused(package):
    write_package(package)
    load_dataset("qm9")
    (file,) = (package / "cache").glob("qm9*.npz")
    wrong = dict(np.load(file))
    wrong["y"] = wrong["y"][:, :3]
    np.savez(package / "qm9.npz", **wrong)
    told = re.escape("qm9.npz: y must have 12 columns; give a file of qm9.")
    with pytest.raises(FileFormatError, match=told):
        load_dataset("qm9", data_dir=package)


def test_infinite_errors_of_targets_are_none_in_the_record(package, monkeypatch):
    write_package(package)
    data = load_dataset("qm9", target="gap,mu")
    errors, usual_start = torch.tensor([math.inf, 1]), GraphTask.on_test_epoch_start

    def start_test(task: GraphTask) -> None:
        monkeypatch.setattr(TargetMean, "of_targets", lambda _: errors)
        usual_start(task)

    monkeypatch.setattr(GraphTask, "on_test_epoch_start", start_test)
    options = {"data.target": "gap,mu", "model.channels": 8, "train.epochs": 1}
    config = change(RunConfig(), {"data.name": "qm9", **options})
    record = run(config, data, package / "run", Machine("cpu"))
    assert record["by_target"] == {"gap": None, "mu": 1.0}
