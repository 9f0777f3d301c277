import logging

import pytest
import torch

from gnnak.backend import use_backend
from gnnak.errors import MissingPackageError, OptionError
from gnnak.fast import make_backend
from gnnak.training.module import build_network
from gnnak.training.processes import machine
from gnnak.training.processes.machine import (
    Machine,
    make_trainer,
    matmul_precision,
    quiet_lightning,
)
from tests.training.small import small_config, triangles


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"accelerator": "tpu"}, "accelerator is 'tpu'; use one of: auto, cpu, gpu"),
        ({"devices": 0}, "devices is 0; give a whole number of at least 1"),
        ({"num_nodes": 0}, "num_nodes is 0; give a whole number of at least 1"),
        ({"accelerator": "gpu"}, "there is no GPU here; use --accelerator cpu"),
    ],
)
def test_machine_refuses_impossible_options(options, sentence, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(OptionError, match=sentence):
        Machine(**options)


def test_machine_uses_a_gpu_if_there_is_one(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert Machine(devices=2).is_gpu
    assert not Machine("cpu", devices=9).is_gpu
    with pytest.raises(OptionError, match="devices is 3, but there are 2 GPUs here"):
        Machine(devices=3)


@pytest.mark.parametrize(
    ("options", "precision", "captures"),
    [
        ({}, "32", True),
        ({}, "bf16", True),
        ({}, "64", True),
        ({}, "16", False),
        ({"fast": False}, "32", False),
        ({"recompute": True}, "32", False),
        ({"devices": 2}, "32", False),
        ({"num_nodes": 2}, "32", False),
        ({"accelerator": "cpu"}, "32", False),
    ],
)
def test_machine_captures_steps_of_one_process_on_a_gpu(
    options, precision, captures, monkeypatch
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    config = small_config(train__precision=precision)
    assert is_captured_by(Machine(**options), config) is captures
    synchronising = small_config(train__precision=precision, model__name="gat-ak+")
    assert not is_captured_by(Machine(**options), synchronising)


def is_captured_by(machine, config):
    """Return whether a run is captured with the fast backend."""
    network = build_network(config, triangles().info)
    with use_backend(make_backend()):
        return machine.captures(network, config.train.precision)


@pytest.mark.parametrize(
    ("options", "captures"),
    [
        ({}, True),
        ({"model__name": "gcn-ak-s"}, True),
        ({"model__encodings": ("centroid", "context")}, True),
        ({"model__name": "gcn"}, False),
        ({"model__plain_conv": True}, False),
        ({"model__encodings": ("context",)}, False),
        ({"model__mlp_layers": 0}, False),
        ({"model__dropout": 0.5}, False),
        ({"train__precision": "64"}, False),
        ({"train__precision": "bf16"}, False),
    ],
)
def test_machine_captures_gcn_where_it_is_fused(options, captures, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("gnnak.fast.step.capability.has_triton", lambda: True)
    config = small_config(**({"model__name": "gcn-ak+"} | options))
    assert is_captured_by(Machine(), config) is captures
    monkeypatch.setattr("gnnak.fast.step.capability.has_triton", lambda: False)
    assert not is_captured_by(Machine(), config)


def test_make_trainer_leaves_clipping_to_captured_steps(tmp_path):
    config = small_config(train__clip=2.0)
    for captured, clip in ((False, 2.0), (True, None)):
        trainer = make_trainer(config, Machine("cpu"), [], tmp_path, captured)
        assert trainer.gradient_clip_val == clip


def test_make_trainer_names_the_package_for_tensorboard(monkeypatch, tmp_path):
    def missing(*_, **__):
        raise ModuleNotFoundError("tensorboard")

    monkeypatch.setattr(machine, "TensorBoardLogger", missing)
    with pytest.raises(MissingPackageError, match=r"gnnak\[tensorboard\]"):
        make_trainer(small_config(), Machine("cpu", tensorboard=True), [], tmp_path)


@pytest.mark.parametrize(
    ("options", "inside"), [({}, "high"), ({"tf32": False}, "highest")]
)
def test_matmul_precision_is_restored(options, inside, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with matmul_precision(Machine(**options)):
        assert torch.get_float32_matmul_precision() == inside
    assert torch.get_float32_matmul_precision() == "highest"


def test_quiet_lightning_restores_log_levels_after_a_failure():
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    with pytest.raises(ZeroDivisionError), quiet_lightning():
        1 / (logger.level - logging.ERROR)
    assert logger.level == before
