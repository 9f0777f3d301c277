"""The devices and processes of a run, and the Lightning trainer that uses them."""

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
from torch import nn

from gnnak.backend import PLAIN, Backend
from gnnak.errors import MissingPackageError, OptionError
from gnnak.training.config.run_config import Precision, RunConfig
from gnnak.training.processes.workers import become_main, follow_main, is_worker
from gnnak.training.step import can_capture
from gnnak.typing import check_choice, check_count

Accelerator = Literal["auto", "cpu", "gpu"]
"""Where a run computes; `auto` uses a GPU if there is one."""
PRECISIONS: dict[Precision, str] = {
    "32": "32-true",
    "64": "32-true",  # the network has float64 weights
    "bf16": "bf16-mixed",
    "16": "16-mixed",
}
"""The precision that Lightning is given for each value of `train.precision`."""


@dataclass(frozen=True)
class Machine:
    """How a run is executed: devices, processes, memory and kernels.

    None of these options changes the results, except for rounding.
    """

    accelerator: Accelerator = "auto"
    """The kind of device; `auto` uses a GPU if there is one."""
    devices: int = 1
    """Number of GPUs per machine; on the CPU, number of processes per machine."""
    num_nodes: int = 1
    """Number of machines."""
    deterministic: bool = False
    """Whether repeated runs give bitwise equal results; runs are then slower."""
    tf32: bool = True
    """Whether matrix products on a GPU may round their inputs to TF32."""
    tensorboard: bool = False
    """Whether to write the validation scores to a TensorBoard log."""
    recompute: bool = False
    """Whether the backward pass recomputes activations, to save memory."""
    max_copies: int | None = None
    """In evaluation, about how many node copies (a node as seen in one rooted subgraph)
    a GNN-AK layer computes at a time; None = all node copies of a batch at once."""
    fast: bool = True
    """Whether a GPU uses fused kernels and captured training steps (CUDA graphs);
    False = plain PyTorch."""
    jobs: int = 1
    """Number of runs that use the device at the same time. It changes nothing, but is
    written to the records: shared runs are slower."""

    def __post_init__(self) -> None:
        check_choice("accelerator", self.accelerator, get_args(Accelerator))
        check_count("devices", self.devices, least=1)
        check_count("num_nodes", self.num_nodes, least=1)
        check_count("jobs", self.jobs, least=1)
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
        """Whether the run uses GPUs: there is one, and `accelerator` is not `cpu`."""
        return self.accelerator != "cpu" and torch.cuda.is_available()

    @property
    def is_single_process(self) -> bool:
        """Whether the run has only one process: one device on one machine."""
        return self.devices * self.num_nodes == 1

    @property
    def device(self) -> torch.device:
        """`cuda` or `cpu`, without a device index."""
        return torch.device("cuda" if self.is_gpu else "cpu")

    @property
    def backend(self) -> Backend | None:
        """The network's backend: None (the default) if `fast`, else plain PyTorch."""
        return None if self.fast else PLAIN

    def captures(self, network: nn.Module, precision: Precision) -> bool:
        """Return whether training steps of a network are captured as CUDA graphs.

        Only single-process runs with `fast` capture steps. Runs with `recompute` do
        not: their backward pass restores the state of the random number generator,
        which synchronises with the device.
        """
        if not self.fast or not self.is_single_process or self.recompute:
            return False
        return can_capture(network, self.device, precision)


def make_trainer(
    config: RunConfig,
    machine: Machine,
    callbacks: list[Callback],
    folder: Path,
    captured: bool = False,
) -> Trainer:
    """Build the Lightning trainer of a run.

    Args:
        config: The options of the run.
        machine: Devices and processes.
        callbacks: The callbacks of the trainer.
        folder: The parent folder of the TensorBoard log.
        captured: Whether training steps are captured as CUDA graphs. A captured step
            clips the gradients itself, so the trainer then does not clip them.

    Raises:
        OptionError: If `train.precision` is `16` and the run is not on a GPU.
        MissingPackageError: If the log is wanted, but TensorBoard is not installed.
    """
    gpu, train = machine.is_gpu, config.train
    if train.precision == "16" and not gpu:
        raise OptionError("train.precision=16 needs a GPU; use bf16 or 32 on a CPU.")
    if not machine.is_single_process:
        become_main()
    if is_worker():
        follow_main()
    return Trainer(
        accelerator="gpu" if gpu else "cpu",
        devices=machine.devices,
        num_nodes=machine.num_nodes,
        strategy="auto" if machine.is_single_process else "ddp",
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
def matmul_precision(machine: Machine) -> Iterator[None]:
    """Context manager: float32 matrix products on a GPU use TF32, if `machine.tf32`.

    Changes PyTorch's global setting within the `with` block only.
    """
    if not (machine.is_gpu and machine.tf32):
        yield
        return
    before = torch.get_float32_matmul_precision()
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
