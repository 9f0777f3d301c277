"""The Lightning data module: batches of one data set, assembled on the device."""

from dataclasses import replace
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from gnnak.datasets.record import Dataset
from gnnak.graphs import GraphStore
from gnnak.graphs.ragged import narrow
from gnnak.loading.assembler import Subgraphs, find_subgraphs
from gnnak.loading.graph_loader import Loader
from gnnak.loading.items import Item
from gnnak.loading.order import BatchSampler, Epochs
from gnnak.models.network import Network
from gnnak.training.config.run_config import RunConfig
from gnnak.training.protocols import Parts
from gnnak.training.timing import Clock

EVALUATION_FACTOR = 4
"""On a GPU, evaluation batches are this many times as large as training batches."""


class GraphData(LightningDataModule):
    """Batches for training, validation and test, assembled on the device."""

    def __init__(
        self,
        dataset: Dataset,
        parts: Parts,
        config: RunConfig,
        network: Network,
        clock: Clock,
        padded: bool = False,
    ) -> None:
        super().__init__()
        self.store, self.parts = dataset.store, parts
        self.config, self.train = config, config.train
        if self.train.precision == "64":
            self.store = in_double(self.store)
        self.network, self.clock, self.padded = network, clock, padded
        self.subgraphs = Subgraphs()
        self._training: Loader | None = None

    def setup(self, stage: str) -> None:
        """Move the graphs to the device; cache their subgraphs if possible."""
        assert self.trainer is not None
        device = self.trainer.strategy.root_device
        if self.store.device != device:
            edge_index = narrow(self.store.edge_index)
            self.store = replace(self.store, edge_index=edge_index).to(device)
        extractor, drop = self.network.extractor, self.network.drop
        if extractor is not None and self.subgraphs.cached is None:
            with self.clock.time("data"):
                self.subgraphs = find_subgraphs(self.store, extractor, drop)

    def train_dataloader(self) -> Loader:
        assert self.trainer is not None
        self.teardown()
        # On a CPU, the network itself extracts subgraphs that are not cached.
        on_gpu = self.store.device.type == "cuda"
        inside = self.subgraphs.extractor is not None and not on_gpu
        plain = inside or self.trainer.world_size > 1
        self._training = Loader(
            self.store,
            self._sampler(self.parts.train, self.train.seed),
            lambda: self.clock.time("data"),
            Subgraphs() if inside else self.subgraphs,
            single=inside,
            padded=self.padded and not plain,
            epochs=Epochs(
                self._epoch, self.train.epochs, self.train.seed, self._steps_done
            ),
        )
        return self._training

    def _epoch(self) -> int:
        """Return the epoch of the next batches; `current_epoch` lags after a resume."""
        assert self.trainer is not None
        progress: Any = self.trainer.fit_loop.epoch_progress.current
        return progress.processed

    def _steps_done(self) -> int:
        assert self.trainer is not None
        module: Any = self.trainer.lightning_module
        return module.steps_done

    def teardown(self, *_: Any, stage: str = "") -> None:
        """Stop the prefetching of training batches."""
        if self._training is not None:
            self._training.close()

    on_exception = teardown  # type: ignore[assignment]

    def val_dataloader(self) -> Loader:
        return self._evaluation_loader(self.parts.validation)

    def test_dataloader(self) -> Loader:
        return self._evaluation_loader(self.parts.test)

    def statistics_dataloader(self) -> Loader:
        """Return a loader of training graphs with all subgraphs, for `recalibrate`."""
        return self._evaluation_loader(self.parts.train, self.train.batch_size)

    def transfer_batch_to_device(
        self, batch: Item, device: torch.device, dataloader_idx: int
    ) -> Item:
        return batch

    def _evaluation_loader(self, positions: Tensor, size: int | None = None) -> Loader:
        # No clock here: the assembly of evaluation batches counts as evaluation time.
        cached, single = self.subgraphs.cached, self.subgraphs.extractor is not None
        on_gpu = self.store.device.type == "cuda"
        if size is None and on_gpu and not single and not self.parts.batch_statistics:
            # Scores do not depend on the batch size, and few large steps are faster.
            size = self._size(positions) * EVALUATION_FACTOR
        sampler = self._sampler(positions, size=size)
        return Loader(self.store, sampler, subgraphs=Subgraphs(cached), single=single)

    def _size(self, positions: Tensor) -> int:
        return self.train.batch_size or max(positions.numel(), 1)

    def _sampler(
        self, positions: Tensor, seed: int | None = None, size: int | None = None
    ) -> BatchSampler:
        assert self.trainer is not None
        return BatchSampler(
            positions,
            size or self._size(positions),
            seed,
            self.trainer.global_rank,
            self.trainer.world_size,
        )


def in_double(store: GraphStore) -> GraphStore:
    fields = {
        name: value.double()
        for name in ("x", "edge_attr", "y")
        if (value := getattr(store, name)) is not None and value.is_floating_point()
    }
    return replace(store, **fields)
