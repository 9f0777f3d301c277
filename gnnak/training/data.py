"""The Lightning data module: one data set, cut into parts, on the run's device."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from gnnak.datasets.record import Dataset
from gnnak.graphs import GraphStore
from gnnak.graphs.narrow import narrow_store
from gnnak.loading.epochs import Epochs, epoch_seed
from gnnak.loading.items import Item
from gnnak.loading.loader import Loader, Subgraphs
from gnnak.loading.sampler import BatchSampler
from gnnak.sampling.cached_plan import CachedPlans, cache_plans
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.cached import CachedSubgraphs, cache_if_small
from gnnak.subgraphs.extractors import Extractor
from gnnak.training.clock import Clock
from gnnak.training.config import TrainConfig
from gnnak.training.protocols import Parts

LARGER = 4
"""How many times larger batches are in evaluation, on a GPU."""


class GraphData(LightningDataModule):
    """Batches for training, validation and test.

    The whole store moves to the run's device once; batches are put together there.

    Args:
        dataset: The graphs.
        parts: Which of them are for what.
        train: Batch size, seed and precision.
        clock: Told the seconds that putting batches together takes.
        extractor: What makes rooted subgraphs, for models that want them. Those that
            are always the same, and not too many, are extracted once and kept.
        drop: Which of those that are kept are used in training; None = all.
        padded: Whether training batches are padded to a few shapes, for one process:
            with several nothing is padded.
    """

    def __init__(
        self,
        dataset: Dataset,
        parts: Parts,
        train: TrainConfig,
        clock: Clock,
        extractor: Extractor | None = None,
        drop: SubgraphDrop | None = None,
        padded: bool = False,
    ) -> None:
        super().__init__()
        self.store = dataset.store
        if train.precision == "64":
            self.store = in_double(self.store)
        self.parts, self.train, self.clock = parts, train, clock
        self.extractor, self.drop, self.padded = extractor, drop, padded
        self.kept: CachedSubgraphs | None = None
        self.plans: CachedPlans | None = None
        self._training: Loader | None = None

    def setup(self, stage: str) -> None:
        """Move the store to the device, and extract there; `stage` does not matter."""
        assert self.trainer is not None
        device = self.trainer.strategy.root_device
        if self.store.device != device:
            self.store = narrow_store(self.store).to(device)
        if self.extractor is not None and self.kept is None:
            with self.clock.time("data"):
                self.kept = cache_if_small(self.store, self.extractor)
                if self.kept is not None and self.drop is not None:
                    self.plans = cache_plans(self.kept, self.drop)

    def train_dataloader(self) -> Loader:
        """Training batches, in a new order each epoch."""
        assert self.trainer is not None
        self._close()
        seed, rank = self.train.seed, self.trainer.global_rank
        extracts = self.kept is None and self.store.device.type == "cuda"
        subgraphs = Subgraphs(
            self.kept,
            self.extractor if extracts else None,
            self.drop,
            self.plans,
            lambda epoch: epoch_seed(seed, epoch, rank),
        )
        inside = self.extractor is not None and self.kept is None and not extracts
        plain = inside or self.trainer.world_size > 1
        self._training = Loader(
            self.store,
            self._sampler(self.parts.train, lambda epoch: epoch_seed(seed, epoch)),
            self.clock,
            subgraphs,
            single=inside,
            padded=self.padded and not plain,
            epochs=Epochs(self._epoch, self.train.epochs),
        )
        return self._training

    def _epoch(self) -> int:
        """The number of the epoch whose batches are about to be cut.

        That epochs are processed is known before that they are complete: a resumed run
        cuts its first batches in between.
        """
        assert self.trainer is not None
        progress: Any = self.trainer.fit_loop.epoch_progress.current
        return progress.processed

    def teardown(self, stage: str) -> None:
        """Make no more batches; `stage` does not matter."""
        self._close()

    def on_exception(self, exception: BaseException) -> None:
        """Make no more batches."""
        self._close()

    def _close(self) -> None:
        if self._training is not None:
            self._training.close()

    def val_dataloader(self) -> Loader:
        """Validation batches."""
        return self._evaluated(self.parts.validation)

    def test_dataloader(self) -> Loader:
        """Test batches."""
        return self._evaluated(self.parts.test)

    def transfer_batch_to_device(
        self, batch: Item, device: torch.device, dataloader_idx: int
    ) -> Item:
        """Items are put together on the device: nothing is moved."""
        return batch

    def _evaluated(self, positions: Tensor) -> Loader:
        # Seconds of evaluation batches belong to the evaluation: no clock.
        single = self.extractor is not None and self.kept is None
        size = self.train.batch_size
        on_gpu = self.store.device.type == "cuda"
        if on_gpu and not single and not self.parts.batch_statistics:
            # Scores do not depend on it, and few large steps are faster.
            size *= LARGER
        sampler = self._sampler(positions, size=size)
        return Loader(self.store, sampler, None, Subgraphs(self.kept), single)

    def _sampler(
        self,
        positions: Tensor,
        order: Callable[[int], int] | None = None,
        size: int | None = None,
    ) -> BatchSampler:
        assert self.trainer is not None
        return BatchSampler(
            positions,
            size or self.train.batch_size,
            order,
            self.trainer.global_rank,
            self.trainer.world_size,
        )


def in_double(store: GraphStore) -> GraphStore:
    """The store with all real numbers in float64."""
    fields = {
        name: value.double()
        for name in ("x", "edge_attr", "y")
        if (value := getattr(store, name)) is not None and value.is_floating_point()
    }
    return replace(store, **fields)


def degree_counts(store: GraphStore, positions: Tensor) -> tuple[int, ...]:
    """How many nodes of these graphs have each in-degree, from 0 up."""
    batch = store[positions]
    degree = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
    return tuple(torch.bincount(degree).tolist())
