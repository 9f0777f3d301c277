"""The Lightning module: network, loss, metric, learning rate and training step."""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.swa_utils import get_ema_multi_avg_fn

from gnnak.backend import Backend, use_backend
from gnnak.datasets.record import DatasetInfo
from gnnak.loading.items import Item
from gnnak.loading.order import epoch_seed
from gnnak.loop.step import Step, make_captured, make_ready, make_step, set_rate
from gnnak.models.factory import build_model
from gnnak.models.network import Network
from gnnak.nn.recompute import frozen_running_statistics
from gnnak.training.config.run_config import RunConfig, TrainConfig
from gnnak.training.losses import Scaler, make_loss
from gnnak.training.metrics import make_metric

THRESHOLD = 1e-4
"""Relative improvement that makes a score a new best, as in `ReduceLROnPlateau`."""


def learning_rate(
    train: TrainConfig,
    epoch: int,
    scores: Sequence[float] = (),
    lower_is_better: bool = True,
) -> float:
    """Return the learning rate after `epoch` epochs, which had validation `scores`."""
    if epoch < train.warm_up:
        return train.learning_rate * (epoch + 1) / (train.warm_up + 1)
    epoch, scores = epoch - train.warm_up, scores[train.warm_up :]
    if train.schedule == "cosine":
        share = epoch / (train.epochs - train.warm_up)
        return train.learning_rate * (1 + math.cos(math.pi * share)) / 2
    if train.schedule == "plateau":
        plateaus = _plateaus(scores, train.patience, lower_is_better)
        return train.learning_rate * train.factor**plateaus
    return train.learning_rate * 0.5 ** (epoch // train.step)


def _plateaus(scores: Sequence[float], patience: int, lower_is_better: bool) -> int:
    """Count plateaus: more than `patience` epochs in a row without a new best score."""
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


class WeightAverage(nn.Module):
    r"""A copy of a network, whose weights are exponential moving averages.

    After each step, $\bar w \leftarrow d \bar w + (1 - d) w$ with the decay $d$, for
    all weights and running statistics $w$.
    """

    def __init__(self, network: Network, decay: float) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).requires_grad_(False)
        self._average = get_ema_multi_avg_fn(decay)
        # Averages and weights, listed in the first step: listing them takes long.
        self._tensors: tuple[list[Tensor], ...] = ()

    def update(self, network: Network) -> None:
        """Add the weights of `network` to the average, without synchronising."""
        if not self._tensors:
            self._tensors = _float_tensors(self.network), _float_tensors(network)
        self._average(*self._tensors, None)


def _float_tensors(network: Network) -> list[Tensor]:
    tensors = (*network.parameters(), *network.buffers())
    return [each for each in tensors if each.is_floating_point()]


class GraphTask(LightningModule):
    """The Lightning module of a run: network, loss, optimiser and metric.

    A resumed run continues as if it had never stopped. In every epoch, the random
    generators start from seed, epoch and rank. The learning rate depends on the epoch
    and on earlier validation scores. A checkpoint within an epoch also has the losses
    of the finished steps and the states of all random number generators.
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
        self.average = None
        if config.train.average is not None:
            self.average = WeightAverage(network, config.train.average)
        self.loss = make_loss(info, config.train.loss)
        self.metric = make_metric(info)
        if config.train.precision == "64":
            self.metric.set_dtype(torch.double)
        self.scaler = None if info.scaling is None else Scaler(info.scaling)
        self.scores: dict[str, float] = {}
        self.curve: list[float] = []
        self.losses: list[Tensor] = []
        self.steps_done = 0
        self.generator: torch.Generator | None = None
        # The unfinished epoch of a checkpoint, one dict per process; [] if none.
        self._unfinished: list[dict[str, Any]] = []
        # Lightning's counters after the last finished epoch.
        self._counters: dict[str, Any] = {}

    @property
    def scored(self) -> Network:
        """The network that is scored and stored: of averaged weights, if there are."""
        return self.network if self.average is None else self.average.network

    def configure_optimizers(self) -> Optimizer:
        train, weights = self.config.train, self.network.parameters()
        kind = AdamW if train.optimizer == "adamw" else Adam
        return kind(weights, train.learning_rate, weight_decay=train.weight_decay)

    def optimizer_step(self, *given: Any, **named: Any) -> None:
        super().optimizer_step(*given, **named)
        self._update_average()

    def _update_average(self) -> None:
        if self.average is not None:
            self.average.update(self.network)

    def on_train_start(self) -> None:
        """Prepare the optimiser and, if `capture` was set, the captured step."""
        self._counters = self.trainer.fit_loop.state_dict()
        optimizer, capture = self.trainer.optimizers[0], not self.automatic_optimization
        make_ready(optimizer, self.device, capture)
        if capture:
            train = self.config.train
            precision, clip = str(train.precision), train.clip
            step = make_step(self.loss_of, optimizer, self.device, precision, clip)
            self.captured = make_captured(step, self.device, optimizer.zero_grad)

    def on_train_end(self) -> None:
        self.captured = None
        self.zero_grad(set_to_none=True)

    def on_train_epoch_start(self) -> None:
        train, epoch = self.config.train, self.current_epoch
        seed = epoch_seed(train.seed, epoch, self.global_rank)
        torch.manual_seed(seed)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        set_rate(self.trainer.optimizers[0], self.learning_rate(epoch))
        self.losses = []
        if self._unfinished:
            self._restore(self._unfinished)
        self.steps_done, self._unfinished = len(self.losses), []

    def _restore(self, states: list[dict[str, Any]]) -> None:
        losses = torch.stack([state["losses"] for state in states])
        if len(states) == self.trainer.world_size:
            losses, found = losses[self.global_rank], states[self.global_rank]["random"]
            generators = self._generators()
            if generators.keys() == found.keys():  # not from another kind of device
                for name, generator in generators.items():
                    generator.set_state(found[name])
        else:
            losses = losses.mean(dim=0)
        self.losses = list(losses.to(self.device))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the state of an unfinished epoch; all processes must call this."""
        if not self.losses:
            return
        random = {name: each.get_state() for name, each in self._generators().items()}
        mine = {"losses": torch.stack(self.losses).cpu(), "random": random}
        states = [mine] * self.trainer.world_size
        if len(states) > 1:
            dist.all_gather_object(states, mine)
        checkpoint["unfinished"] = states
        checkpoint["loops"]["fit_loop"] = self._counters

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._unfinished = checkpoint.get("unfinished", [])

    def _generators(self) -> dict[str, torch.Generator]:
        assert self.generator is not None
        found = {
            "cpu": torch.default_generator,
            self.device.type + "-own": self.generator,
        }
        if self.device.type == "cuda":
            found["cuda"] = torch.cuda.default_generators[self.device.index or 0]
        return found

    def learning_rate(self, epoch: int) -> float:
        lower = self.info.lower_is_better
        return learning_rate(self.config.train, epoch, self.curve, lower)

    def training_step(self, item: Item, _: int) -> Tensor | None:
        """Train on one batch; return the loss, or None after a captured step."""
        if self.captured is None:
            loss = self.loss_of(item)
            self.losses.append(loss.detach())
            return loss
        self.losses.append(self.captured(item))
        self._update_average()
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
        outputs, targets = self._chosen(item, outputs)
        rows = None
        if self.scaler is not None:
            targets = self.scaler.normalise(targets)
        if real is not None:
            rows = real.nodes if self.info.node_task else real.graphs
        return self.loss(outputs, targets, rows)

    def validation_step(self, item: Item, _: int) -> None:
        batch, subgraphs = item.batch, item.subgraphs
        if not batch.num_graphs:
            return
        with (
            use_backend(self.backend),
            batch_statistics(self.scored, self.batch_statistics),
        ):
            outputs = self.scored(batch, subgraphs=subgraphs)
        outputs, targets = self._chosen(item, outputs)
        if self.scaler is not None:
            outputs = self.scaler.restore(outputs)
        self.metric.update(outputs, targets)

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        self.scores["validation"] = float(self.metric.compute())
        self.metric.reset()
        self.log("validation", self.scores["validation"], rank_zero_only=True)

    def on_test_epoch_end(self) -> None:
        self.metric.compute()  # over all processes; the metric stores the result

    def finish_epoch(self) -> float:
        """End the epoch and return its mean loss; all processes must call this."""
        mean = torch.stack(self.losses).mean()
        self.losses, self._counters = [], self.trainer.fit_loop.state_dict()
        return float(self.trainer.strategy.reduce(mean, reduce_op="mean"))

    def _chosen(self, item: Item, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the outputs and targets of `item.rows`; if it is None, of all rows."""
        outputs = outputs if outputs.dtype == torch.double else outputs.float()
        targets = item.batch.y
        assert targets is not None
        if self.info.task != "classification":
            targets = targets.view(outputs.shape).to(outputs.dtype)
        if item.rows is None:
            return outputs, targets
        return outputs.index_select(0, item.rows), targets.index_select(0, item.rows)


def build_network(
    config: RunConfig, info: DatasetInfo, degrees: tuple[int, ...] | None = None
) -> Network:
    """Build the network with random weights; the base GNN `pna` needs `degrees`."""
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


@contextmanager
def batch_statistics(network: nn.Module, wanted: bool = True) -> Iterator[None]:
    """Context manager: if `wanted`, batch norms use batch statistics and store none."""
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
