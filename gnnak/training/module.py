"""The Lightning module: network, loss, metric, learning rate and training step."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gnnak.backend import Backend, use_backend
from gnnak.datasets.record import DatasetInfo
from gnnak.graphs import GraphBatch
from gnnak.loading.items import Item
from gnnak.loading.order import epoch_seed
from gnnak.loop.step import (
    Step,
    make_captured,
    make_ready,
    make_step,
    set_rate,
)
from gnnak.models.factory import build_model
from gnnak.models.network import Network
from gnnak.nn.recompute import frozen_running_statistics
from gnnak.subgraphs.extractors import Extractor
from gnnak.training.config.run_config import RunConfig, TrainConfig
from gnnak.training.losses import Scaler, make_loss
from gnnak.training.metrics import make_metric, why_undefined

THRESHOLD = 1e-4
"""A validation score counts as better than the best one before only if it is better by
this share of that one, as in PyTorch's `ReduceLROnPlateau`."""


def learning_rate(
    train: TrainConfig,
    epoch: int,
    scores: Sequence[float] = (),
    lower_is_better: bool = True,
) -> float:
    """Return the learning rate of an epoch.

    Args:
        train: The schedule (`train.schedule`) and its options.
        epoch: Number of finished epochs.
        scores: The validation scores of all finished epochs; only the schedule
            "plateau" uses them.
        lower_is_better: Whether a lower score is better.

    >>> halving = TrainConfig(step=2, learning_rate=8.0)
    >>> [learning_rate(halving, epoch) for epoch in range(5)]
    [8.0, 8.0, 4.0, 4.0, 2.0]
    """
    if train.schedule == "cosine":
        return train.learning_rate * (1 + math.cos(math.pi * epoch / train.epochs)) / 2
    halvings = epoch // train.step
    if train.schedule == "plateau":
        halvings = _plateaus(scores, train.patience, lower_is_better)
    return train.learning_rate * 0.5**halvings


def _plateaus(scores: Sequence[float], patience: int, lower_is_better: bool) -> int:
    """Count how often more than `patience` epochs brought no better score.

    After each such plateau, the count of epochs starts again at 0.
    """
    plateaus = waited = 0
    best = math.inf if lower_is_better else -math.inf
    for score in scores:
        if lower_is_better:
            better = score < best * (1 - THRESHOLD)
        else:
            better = score > best * (1 + THRESHOLD)
        best, waited = (score, 0) if better else (best, waited + 1)
        if waited > patience:
            plateaus, waited = plateaus + 1, 0
    return plateaus


class GraphTask(LightningModule):
    """The Lightning module of a run: network, loss, optimiser and metric.

    The random numbers of an epoch depend only on the seed of the run, the number of the
    epoch and the rank of the process. The learning rate depends only on the number of
    the epoch and, for some schedules, on the validation scores of all epochs before. A
    resumed run therefore continues as if it had never stopped.

    Args:
        config: The options of the run.
        info: Task, metric and feature sizes of the data set.
        network: The network that is trained.
        batch_statistics: Whether batch norms also use the statistics of the batch in
            evaluation; False = running statistics.
        capture: Whether training steps on padded batches (batches of a fixed size) are
            captured as CUDA graphs and replayed.
        backend: Chooses fused kernels or plain PyTorch for the network; None = the
            default backend.

    Attributes:
        curve: The validation scores of all finished epochs. `RunHistory` sets this
            attribute, so that the list also has the epochs before a run was resumed.
    """

    def __init__(
        self,
        config: RunConfig,
        info: DatasetInfo,
        network: Network,
        batch_statistics: bool = False,
        capture: bool = False,
        backend: Backend | None = None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = not capture
        self.captured: Step | None = None
        self.backend = backend
        self.config, self.info = config, info
        self.batch_statistics = batch_statistics
        self.network = network
        self.loss = make_loss(info, config.train.loss)
        self.metric = make_metric(info)
        if config.train.precision == "64":
            self.metric.set_dtype(torch.double)
        self.scaler = None if info.scaling is None else Scaler(info.scaling)
        self.scores: dict[str, float] = {}
        self.curve: list[float] = []
        self.undefined: dict[str, str] = {}
        self.losses: list[Tensor] = []
        self.generator: torch.Generator | None = None

    def configure_optimizers(self) -> Optimizer:
        """Build Adam for the weights of the network (called by Lightning)."""
        train, weights = self.config.train, self.network.parameters()
        return Adam(weights, train.learning_rate, weight_decay=train.weight_decay)

    def on_train_start(self) -> None:
        """Prepare the optimiser and, if wanted, the step captured as CUDA graphs.

        The optimiser must be prepared because its state may have been loaded from a
        checkpoint that was written on another device.
        """
        optimizer, capture = self.trainer.optimizers[0], not self.automatic_optimization
        make_ready(optimizer, self.device, capture)
        if capture:
            train = self.config.train
            precision, clip = str(train.precision), train.clip
            step = make_step(self.loss_of, optimizer, self.device, precision, clip)
            self.captured = make_captured(step, self.device, optimizer.zero_grad)

    def on_train_end(self) -> None:
        """Free the gradients and the CUDA graphs of the training step."""
        self.captured = None
        self.zero_grad(set_to_none=True)

    def on_train_epoch_start(self) -> None:
        """Set the random seeds and the learning rate of this epoch."""
        train, epoch = self.config.train, self.current_epoch
        seed = epoch_seed(train.seed, epoch, self.global_rank)
        torch.manual_seed(seed)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        set_rate(self.trainer.optimizers[0], self.learning_rate(epoch))
        self.losses = []

    def learning_rate(self, epoch: int) -> float:
        """Return the learning rate after `epoch` finished epochs."""
        lower = self.info.lower_is_better
        return learning_rate(self.config.train, epoch, self.curve, lower)

    def training_step(self, item: Item, _: int) -> Tensor | None:
        """Train on one batch.

        Returns:
            The loss, with which Lightning runs the backward pass and the optimiser.
            None if the step is captured as a CUDA graph, which already contains the
            backward pass and the optimiser. This method then also increments
            Lightning's step counter.
        """
        if self.captured is None:
            loss = self.loss_of(item)
            self.losses.append(loss.detach())
            return loss
        self.losses.append(self.captured(item))
        steps = self.trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
        steps.increment_ready()
        steps.increment_completed()
        return None

    def loss_of(self, item: Item) -> Tensor:
        """Return the loss of one batch; padding nodes and graphs are ignored."""
        batch, real = item.batch, item.batch.real
        with use_backend(self.backend):
            outputs = self.network(
                batch, subgraphs=item.subgraphs, generator=self.generator
            )
        outputs = _as_float32(outputs)
        targets, rows = self._targets(batch, outputs), None
        if self.scaler is not None:
            targets = self.scaler.normalise(targets)
        if real is not None:
            rows = real.nodes if self.info.node_task else real.graphs
        return self.loss(outputs, targets, rows)

    def validation_step(self, item: Item, _: int) -> None:
        """Run the network on one batch and update the metric with the outputs."""
        batch, subgraphs = item.batch, item.subgraphs
        if not batch.num_graphs:
            return
        with (
            use_backend(self.backend),
            batch_statistics(self.network, self.batch_statistics),
        ):
            outputs = self.network(batch, subgraphs=subgraphs)
        outputs = _as_float32(outputs)
        if self.scaler is not None:
            outputs = self.scaler.restore(outputs)
        self.metric.update(outputs, self._targets(batch, outputs))

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        """Store the score of all validation batches in `scores`; log the score."""
        self.scores["validation"] = float(self.metric.compute())
        self.metric.reset()
        self.log("validation", self.scores["validation"], rank_zero_only=True)

    def on_test_epoch_end(self) -> None:
        """Store the score of all test batches in `scores`.

        If the score is not finite, store the reason in `undefined`.
        """
        metric, score = self.metric, float(self.metric.compute())
        if not math.isfinite(score):
            reason = why_undefined(metric, self.info.metric, "test", score)
            self.undefined["test"] = reason
        metric.reset()
        self.scores["test"] = score

    @property
    def extractor(self) -> Extractor | None:
        """The extractor of rooted subgraphs; None if the network uses no subgraphs."""
        return self.network.extractor

    def train_loss(self) -> float:
        """Return the mean loss of this epoch's batches, averaged over processes.

        In distributed training, all processes must call this method together.
        """
        mean = torch.stack(self.losses).mean()
        return float(self.trainer.strategy.reduce(mean, reduce_op="mean"))

    def _targets(self, batch: GraphBatch, outputs: Tensor) -> Tensor:
        assert batch.y is not None
        if self.info.task == "classification":
            return batch.y
        return batch.y.view(outputs.shape).to(outputs.dtype)


def build_network(
    config: RunConfig, info: DatasetInfo, degrees: tuple[int, ...] | None = None
) -> Network:
    """Build the network of a run, with new random weights.

    Args:
        config: The options of the run; with `train.precision` 64, weights are float64.
        info: Task and feature sizes of the data set.
        degrees: Entry d is the number of nodes of in-degree d in the training graphs;
            needed only if the base GNN is `pna`.
    """
    network = build_model(
        config.model.name,
        info.node_features,
        info.edge_features,
        info.num_outputs,
        config.model,
        info.node_task,
        degrees,
    )
    return network.double() if config.train.precision == "64" else network


def _as_float32(outputs: Tensor) -> Tensor:
    """Convert outputs in half precision to float32; leave float64 unchanged."""
    return outputs if outputs.dtype == torch.double else outputs.float()


@contextmanager
def batch_statistics(network: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Context manager: batch norms use the statistics of the batch, as in training.

    The running statistics of the batch norms are not updated.

    Args:
        network: The network with the batch norms.
        wanted: Whether to use these statistics; False = no effect.
    """
    if not wanted:
        yield
        return
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm1d)]
    before = [norm.training for norm in norms]
    for norm in norms:
        norm.training = True
    try:
        with frozen_running_statistics(network):
            yield
    finally:
        for norm, training in zip(norms, before, strict=True):
            norm.training = training
