"""The devices and processes of a run, and the Lightning trainer that uses them."""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import DDPStrategy
from torch import nn

from gnnak.backend import PLAIN, Backend
from gnnak.errors import OptionError
from gnnak.loop.step import can_capture
from gnnak.optional import missing_package
from gnnak.training.config.run_config import Precision, RunConfig
from gnnak.training.processes.workers import (
    become_main,
    follow_main,
    is_worker,
    start_heartbeats,
)
from gnnak.typing import check_choice, check_count

Accelerator = Literal["auto", "cpu", "gpu"]
"""The kind of device; `auto` means a GPU if there is one, else the CPU."""
PRECISIONS: dict[Precision, str] = {
    "32": "32-true",
    "64": "32-true",  # the network has float64 weights
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}
"""Lightning's argument `precision` for each value of `train.precision`."""


@dataclass(frozen=True)
class Machine:
    """How a run is executed; no option changes the results, except for rounding."""

    accelerator: Accelerator = "auto"
    devices: int = 1
    """Number of GPUs per machine; on the CPU, number of processes per machine."""
    num_nodes: int = 1
    deterministic: bool = False
    """Whether repeated runs give bitwise equal results; runs are then slower."""
    tf32: bool = True
    """Whether float32 matrix products on a GPU may use TF32, which is less precise."""
    tensorboard: bool = False
    recompute: bool = False
    """Whether the backward pass recomputes activations, to save memory."""
    max_copies: int | None = None
    """Approximate number of node copies in a slice; if None, there are no slices."""
    fast: bool = True
    """Whether a GPU uses fused kernels and captured steps instead of plain PyTorch."""
    jobs: int = 1
    """Number of runs that share the device; only written to the records."""

    def __post_init__(self) -> None:
        check_choice("accelerator", self.accelerator, get_args(Accelerator))
        for name in ("devices", "num_nodes", "jobs"):
            check_count(name, getattr(self, name), least=1)
        if self.max_copies is not None:
            check_count("max_copies", self.max_copies, least=1)
        if self.accelerator == "gpu" and not torch.cuda.is_available():
            raise OptionError("there is no GPU here; use --accelerator cpu.")
        if self.is_gpu and self.devices > torch.cuda.device_count():
            raise OptionError(
                f"devices is {self.devices}, but there are {torch.cuda.device_count()} "
                "GPUs here; use fewer devices, or --accelerator cpu."
            )
        started = int(os.environ.get("WORLD_SIZE", "1"))
        in_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
        if in_torchrun and started != self.devices * self.num_nodes:
            raise OptionError(
                f"torchrun started {started} processes, but devices x num_nodes is "
                f"{self.devices} x {self.num_nodes}; give --devices the number of "
                "processes per machine, and --num-nodes the number of machines."
            )

    @property
    def is_gpu(self) -> bool:
        return self.accelerator != "cpu" and torch.cuda.is_available()

    @property
    def is_single_process(self) -> bool:
        return self.devices * self.num_nodes == 1

    @property
    def device(self) -> torch.device:
        return torch.device("cuda" if self.is_gpu else "cpu")

    @property
    def backend(self) -> Backend | None:
        return None if self.fast else PLAIN

    def captures(self, network: nn.Module, precision: Precision) -> bool:
        """Return whether training steps of a network are captured as CUDA graphs."""
        # To recompute, the backward pass synchronises: it restores the random state.
        if not self.fast or self.recompute:
            return False
        return can_capture(network, self.device, precision)


def make_trainer(
    config: RunConfig,
    machine: Machine,
    callbacks: list[Callback],
    folder: Path,
    captured: bool = False,
) -> Trainer:
    """Build the Lightning trainer, which clips gradients if steps are not captured."""
    gpu, train = machine.is_gpu, config.train
    if train.precision == "16" and not gpu:
        raise OptionError("train.precision=16 needs a GPU; use bf16 or 32 on a CPU.")
    strategy: str | DDPStrategy = "auto"
    if not machine.is_single_process:
        become_main()
        start_heartbeats()
        strategy = AveragingStrategy() if captured else "ddp"
    if is_worker():
        follow_main()
    return Trainer(
        accelerator="gpu" if gpu else "cpu",
        devices=machine.devices,
        num_nodes=machine.num_nodes,
        strategy=strategy,
        precision=PRECISIONS[train.precision],  # type: ignore[arg-type]
        max_epochs=train.epochs,
        gradient_clip_val=None if captured else train.clip,
        deterministic=machine.deterministic,
        callbacks=callbacks,
        logger=_tensorboard(folder) if machine.tensorboard else False,
        default_root_dir=folder,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        num_sanity_val_steps=0,
        log_every_n_steps=0,
        use_distributed_sampler=False,
    )


class AveragingStrategy(DDPStrategy):
    """DDP without `DistributedDataParallel`: the training step averages gradients.

    The hooks of `DistributedDataParallel` cannot be captured. All processes build the
    same weights, or load them from the same checkpoint.
    """

    def configure_ddp(self) -> None:
        """Leave the module as it is."""


def _tensorboard(folder: Path) -> TensorBoardLogger:
    try:
        return TensorBoardLogger(folder, name="", version="tensorboard")
    except ModuleNotFoundError as error:
        use = "logging for TensorBoard needs"
        raise missing_package(use, "tensorboard") from error


@contextmanager
def matmul_precision(machine: Machine) -> Iterator[None]:
    """Context manager: float32 matrix products on a GPU use TF32, if `machine.tf32`."""
    before = torch.get_float32_matmul_precision()
    if machine.is_gpu and machine.tf32:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Context manager: suppress hints and warnings of Lightning and torchmetrics."""
    loggers = [logging.getLogger(f"lightning.{part}") for part in ("pytorch", "fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        warnings.filterwarnings("ignore", module="torchmetrics")
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
