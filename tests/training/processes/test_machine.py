import logging

import pytest
import torch

from gnnak.errors import MissingPackageError, OptionError
from gnnak.training.processes import machine
from gnnak.training.processes.machine import (
    Machine,
    make_trainer,
    matmul_precision,
    quiet_lightning,
)
from tests.training.small import small_config


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


def test_make_trainer_leaves_clipping_to_captured_steps(tmp_path):
    config = small_config(train__clip=2.0)
    for captured, clip in ((False, 2.0), (True, None)):
        trainer = make_trainer(config, Machine("cpu"), [], tmp_path, captured)
        assert trainer.gradient_clip_val == clip


def test_make_trainer_names_the_package_for_tensorboard(monkeypatch, tmp_path):
    def missing(*_, **__):
        raise ModuleNotFoundError("tensorboard")

    monkeypatch.setattr(machine, "TensorBoardLogger", missing)
    with pytest.raises(MissingPackageError, match="pip install tensorboard"):
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
