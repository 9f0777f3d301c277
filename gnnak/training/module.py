"""The Lightning module: the network, what it minimises, how it is scored."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gnnak.datasets.record import DatasetInfo
from gnnak.graphs import GraphBatch
from gnnak.models.factory import build_model
from gnnak.models.network import Network
from gnnak.nn.padding import real_rows
from gnnak.nn.recompute import norms_without_memory
from gnnak.subgraphs.extractors import Extractor
from gnnak.training.config import RunConfig
from gnnak.training.items import Item
from gnnak.training.loader import epoch_seed
from gnnak.training.losses import make_loss
from gnnak.training.metrics import make_metric


class GraphTask(LightningModule):
    """A network in training.

    What is random in an epoch follows from the seed, the epoch and the process alone,
    and so does the learning rate: a run taken up at an epoch goes on as if it had
    never stopped.

    Args:
        config: The run.
        info: What is asked of the data.
        degrees: How many training nodes have each in-degree; read by `pna` alone.
        batch_statistics: Whether to score with the statistics of the batch.
    """

    def __init__(
        self,
        config: RunConfig,
        info: DatasetInfo,
        degrees: tuple[int, ...] | None = None,
        batch_statistics: bool = False,
    ) -> None:
        super().__init__()
        self.config, self.info = config, info
        self.batch_statistics = batch_statistics
        self.network = build_network(config, info, degrees)
        self.loss = make_loss(info, config.train.loss)
        self.metric = make_metric(info)
        if config.train.precision == "64":
            self.metric.set_dtype(torch.double)
        self.scores: dict[str, float] = {}
        self.losses: list[Tensor] = []
        self.generator: torch.Generator | None = None

    def configure_optimizers(self) -> Optimizer:
        """Adam."""
        train = self.config.train
        return Adam(
            self.network.parameters(),
            lr=train.learning_rate,
            weight_decay=train.weight_decay,
        )

    def on_train_epoch_start(self) -> None:
        """Set what follows from the epoch: seeds and learning rate."""
        train, epoch = self.config.train, self.current_epoch
        seed = epoch_seed(train.seed, epoch, self.global_rank)
        torch.manual_seed(seed)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        rate = train.learning_rate * 0.5 ** (epoch // train.step)
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = rate
        self.losses = []

    def training_step(self, item: Item, _: int) -> Tensor:
        """The loss of one batch."""
        batch, real = item.batch, item.real
        with real_rows({} if real is None else real.counts()):
            outputs = self.network(
                batch, subgraphs=item.subgraphs, generator=self.generator
            )
        outputs = _widened(outputs)
        targets = self._targets(batch, outputs)
        if real is not None:
            outputs, targets = outputs[: real.num_graphs], targets[: real.num_graphs]
        loss = self.loss(outputs, targets)
        self.losses.append(loss.detach())
        return loss

    def validation_step(self, item: Item, _: int) -> None:
        """Take one batch into the score."""
        batch, subgraphs = item.batch, item.subgraphs
        if not batch.num_graphs:
            return
        with norms_in_training(self.network, self.batch_statistics):
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
    options = config.model.options(node_task=info.node_task, degrees=degrees)
    network = build_model(
        config.model.name,
        info.node_features,
        info.edge_features,
        info.num_outputs,
        options,
    )
    return network.double() if config.train.precision == "64" else network


def _widened(outputs: Tensor) -> Tensor:
    """Half precision as float32: losses and scores, and targets with them."""
    return outputs if outputs.dtype == torch.double else outputs.float()


@contextmanager
def norms_in_training(network: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Inside, norms take the statistics of the batch, and remember nothing of it."""
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm1d) and wanted]
    before = [norm.training for norm in norms]
    for norm in norms:
        norm.training = True
    try:
        with norms_without_memory(network):
            yield
    finally:
        for norm, training in zip(norms, before, strict=True):
            norm.training = training
