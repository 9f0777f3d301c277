"""The Lightning module: network, loss and metric."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim import Optimizer

from gnnak.backend import Backend, use_backend
from gnnak.datasets.record import DatasetInfo
from gnnak.graphs import GraphBatch
from gnnak.loading.epochs import epoch_seed
from gnnak.loading.items import Item
from gnnak.models.factory import build_model
from gnnak.models.network import Network
from gnnak.nn.recompute import frozen_running_statistics
from gnnak.subgraphs.extractors import Extractor
from gnnak.training.config.run_config import RunConfig
from gnnak.training.losses import make_loss
from gnnak.training.metrics import make_metric
from gnnak.training.optimizer import make_optimizer, make_ready, set_rate
from gnnak.training.step import Step, make_captured, make_step


class GraphTask(LightningModule):
    """A network in training.

    The random numbers of an epoch depend on the seed, the epoch and the process only,
    and so does the learning rate: a resumed run continues as if it had never stopped.

    Args:
        config: The run.
        info: Task, metric and feature sizes of the data set.
        network: The network that is trained.
        batch_statistics: Whether to score with the statistics of the batch.
        capture: Whether steps on padded batches are captured and replayed.
        backend: The backend of the network; None = the default one.
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
        self.scores: dict[str, float] = {}
        self.losses: list[Tensor] = []
        self.generator: torch.Generator | None = None

    def configure_optimizers(self) -> Optimizer:
        """Adam."""
        return make_optimizer(self.network.parameters(), self.config.train)

    def on_train_start(self) -> None:
        """Begin, or go on from a checkpoint, which may be of another machine."""
        optimizer, capture = self.trainer.optimizers[0], not self.automatic_optimization
        make_ready(optimizer, self.device, capture)
        if capture:
            step = make_step(self.loss_of, optimizer, self.config.train, self.device)
            self.captured = make_captured(step, self.device, optimizer.zero_grad)

    def on_train_end(self) -> None:
        """Give back what was captured, and the gradients that lie there."""
        self.captured = None
        self.zero_grad(set_to_none=True)

    def on_train_epoch_start(self) -> None:
        """Set what follows from the epoch: seeds and learning rate."""
        train, epoch = self.config.train, self.current_epoch
        seed = epoch_seed(train.seed, epoch, self.global_rank)
        torch.manual_seed(seed)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        rate = train.learning_rate * 0.5 ** (epoch // train.step)
        set_rate(self.trainer.optimizers[0], rate)
        self.losses = []

    def training_step(self, item: Item, _: int) -> Tensor | None:
        """The loss of one batch, for Lightning to go on with; captured, all of it."""
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
        """Return the loss of one batch, over its real rows."""
        batch, real = item.batch, item.batch.real
        with use_backend(self.backend):
            outputs = self.network(
                batch, subgraphs=item.subgraphs, generator=self.generator
            )
        outputs = _widened(outputs)
        targets, asked = self._targets(batch, outputs), None
        if real is not None:
            asked = real.nodes if self.info.node_task else real.graphs
        return self.loss(outputs, targets, asked)

    def validation_step(self, item: Item, _: int) -> None:
        """Take one batch into the score."""
        batch, subgraphs = item.batch, item.subgraphs
        if not batch.num_graphs:
            return
        with (
            use_backend(self.backend),
            batch_statistics(self.network, self.batch_statistics),
        ):
            outputs = self.network(batch, subgraphs=subgraphs)
        outputs = _widened(outputs)
        self.metric.update(outputs, self._targets(batch, outputs))

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        """Note the validation score."""
        self.scores["validation"] = self._score()
        self.log("validation", self.scores["validation"], rank_zero_only=True)

    def on_test_epoch_end(self) -> None:
        """Note the test score."""
        self.scores["test"] = self._score()

    @property
    def extractor(self) -> Extractor | None:
        """What makes the rooted subgraphs of the network; None if it wants none."""
        shared = self.network.shared
        return None if shared is None else shared.extractor

    def train_loss(self) -> float:
        """The mean loss of the epoch's batches; all processes ask for it together."""
        mean = torch.stack(self.losses).mean()
        return float(self.trainer.strategy.reduce(mean, reduce_op="mean"))

    def _score(self) -> float:
        score = float(self.metric.compute())
        self.metric.reset()
        return score

    def _targets(self, batch: GraphBatch, outputs: Tensor) -> Tensor:
        assert batch.y is not None
        if self.info.task == "classification":
            return batch.y
        return batch.y.view(outputs.shape).to(outputs.dtype)


def build_network(
    config: RunConfig, info: DatasetInfo, degrees: tuple[int, ...] | None = None
) -> Network:
    """The network of a run, with fresh weights in the run's precision."""
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


def _widened(outputs: Tensor) -> Tensor:
    """Half precision as float32: losses and scores, and targets with them."""
    return outputs if outputs.dtype == torch.double else outputs.float()


@contextmanager
def batch_statistics(network: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Inside, norms use batch statistics and do not update the running ones."""
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
