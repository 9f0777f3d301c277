"""On what a run runs: devices, processes, and Lightning's trainer for them."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import TensorBoardLogger

from gnnak.errors import MissingPackageError, OptionError
from gnnak.optional import has_triton
from gnnak.training.config import Precision, RunConfig
from gnnak.training.workers import become_main, follow_main, is_worker
from gnnak.typing import check_choice, check_count

Accelerator = Literal["auto", "cpu", "gpu"]
PRECISIONS: dict[Precision, str] = {
    "32": "32-true",
    "64": "32-true",  # the network itself is made of float64
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}
WAITING = ("gcn", "gat", "ppgn")
"""Base GNNs that wait for the device: they count self loops, or nodes of graphs."""
FUSED = ("gcn",)
"""Those of them that do not wait in fused kernels."""


@dataclass(frozen=True)
class Machine:
    """Devices, processes and memory: what is computed stays the same, to rounding."""

    accelerator: Accelerator = "auto"
    """`auto` takes a GPU where there is one."""
    devices: int = 1
    """GPUs, or processes on the CPU, of this machine."""
    num_nodes: int = 1
    """Machines."""
    deterministic: bool = False
    """Whether to choose the same bits over speed."""
    tf32: bool = True
    """Whether matrix products on a GPU may round their inputs to TF32."""
    tensorboard: bool = False
    """Whether to log for TensorBoard."""
    recompute: bool = False
    """Whether to keep less in training and compute it again in the backward pass."""
    max_copies: int | None = None
    """In evaluation, about how many node copies are computed at a time; None = all."""
    fast: bool = True
    """Fused kernels and captured steps on a GPU; the same results to rounding."""

    def __post_init__(self) -> None:
        check_choice("accelerator", self.accelerator, get_args(Accelerator))
        check_count("devices", self.devices, least=1)
        check_count("num_nodes", self.num_nodes, least=1)
        if self.max_copies is not None:
            check_count("max_copies", self.max_copies, least=1)
        if self.accelerator == "gpu" and not torch.cuda.is_available():
            raise OptionError("there is no GPU here; use --accelerator cpu.")
        if self.is_gpu and self.devices > torch.cuda.device_count():
            raise OptionError(
                f"devices is {self.devices}, but there are {torch.cuda.device_count()} "
                "GPUs here; use fewer devices, or --accelerator cpu."
            )

    @property
    def is_gpu(self) -> bool:
        """Whether the run is on GPUs."""
        return self.accelerator != "cpu" and torch.cuda.is_available()

    @property
    def is_one(self) -> bool:
        """Whether the run is one process."""
        return self.devices * self.num_nodes == 1

    def captures(self, config: RunConfig) -> bool:
        """Whether steps of training on padded batches are captured.

        Not those that wait for the device: to scale losses, to store the generator's
        state for what is computed once more, or in the base GNN.
        """
        waits = config.train.precision == "16" or self.recompute
        base = config.model.name.split("-")[0]
        if base in WAITING:
            waits |= base not in FUSED or not _runs_fused(config)
        return self.fast and self.is_gpu and self.is_one and not waits


def _runs_fused(config: RunConfig) -> bool:
    """Whether base GNNs are run on rooted subgraphs alone, all in fused kernels."""
    model, precision = config.model, config.train.precision
    uplifted = "-ak" in model.name and not model.plain_conv
    several = model.encodings is None or len(model.encodings) > 1
    transformed = several and model.mlp_layers > 0 and model.dropout == 0
    return uplifted and transformed and precision == "32" and has_triton()


def make_trainer(
    config: RunConfig,
    machine: Machine,
    callbacks: list[Callback],
    folder: Path,
    captured: bool = False,
) -> Trainer:
    """Lightning's trainer of one run; a captured step clips gradients itself."""
    gpu, train = machine.is_gpu, config.train
    if train.precision == "16" and not gpu:
        raise OptionError("train.precision=16 needs a GPU; use bf16 or 32 on a CPU.")
    if gpu and machine.tf32:
        torch.set_float32_matmul_precision("high")
    if not machine.is_one:
        become_main()
    if is_worker():
        follow_main()
    return Trainer(
        accelerator="gpu" if gpu else "cpu",
        devices=machine.devices,
        num_nodes=machine.num_nodes,
        strategy="auto" if machine.is_one else "ddp",
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


def _tensorboard(folder: Path) -> TensorBoardLogger:
    try:
        return TensorBoardLogger(folder, name="", version="tensorboard")
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "logging for TensorBoard needs a package: pip install 'gnnak[tensorboard]'."
        ) from error


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Keep Lightning's notes about devices and loaders off the screen."""
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
