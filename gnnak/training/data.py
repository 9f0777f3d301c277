"""The Lightning data modules: batches of many graphs, or of the nodes of one graph."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch_geometric.data import Data

from gnnak.datasets.record import Dataset
from gnnak.errors import OptionError
from gnnak.graphs import GraphBatch, GraphStore
from gnnak.graphs.ragged import narrow, pointers
from gnnak.loading.assembler import Subgraphs, find_subgraphs
from gnnak.loading.graph_loader import Loader
from gnnak.loading.items import Item, Shape
from gnnak.loading.order import BatchSampler, Epochs
from gnnak.loading.root_loader import RootLoader
from gnnak.models.network import Network
from gnnak.nn.uplift import GNNAK
from gnnak.training.config.run_config import RunConfig, TrainConfig
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
        captured: bool = False,
    ) -> None:
        super().__init__()
        self.store, self.parts = dataset.store, parts
        self.config, self.train = config, config.train
        if self.train.precision == "64":
            self.store = in_double(self.store)
        self.network, self.clock, self.captured = network, clock, captured
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
        self._training = Loader(
            self.store,
            self._sampler(self.parts.train, self.train.seed),
            lambda: self.clock.time("data"),
            Subgraphs() if inside else self.subgraphs,
            single=inside,
            padded=self.captured and not inside,
            epochs=self._epochs(),
        )
        return self._training

    def _epochs(self) -> Epochs:
        trainer: Any = self.trainer
        return Epochs(
            # After a resume, `current_epoch` lags behind.
            lambda: trainer.fit_loop.epoch_progress.current.processed,
            self.train.epochs,
            self.train.seed,
            lambda: trainer.lightning_module.steps_done,
        )

    def teardown(self, *_: Any, stage: str = "") -> None:
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


def layers_read(network: Network, config: RunConfig) -> tuple[int, bool]:
    """Return the arguments `num_layers` and `context` of `RootLoader` for a network."""
    model = config.model
    if network.extractor is None:
        # Convs that normalise by the degrees of neighbours read one hop more.
        return model.num_layers * model.base_layers + 1, False
    uplifted = [each for each in network.modules() if isinstance(each, GNNAK)]
    if not uplifted and not config.train.num_neighbors:
        raise OptionError(
            f"layers of {model.name} read nodes farther away than a mini-batch has; "
            "leave out train.batch_size, or add train.num_neighbors, such as [10, 10]."
        )
    # A conv on the whole graph may also read the degrees of neighbours.
    layers = model.num_layers + model.plain_conv
    return layers, any("context" in each.encodings for each in uplifted)


def seed_loader(
    graph: GraphBatch, rows: Tensor, network: Network, config: RunConfig, shuffle: bool
) -> RootLoader:
    """Return a loader of mini-batches for the nodes `rows` of one graph."""
    train = config.train
    data = Data(x=graph.x, edge_index=graph.edge_index, edge_attr=graph.edge_attr)
    data.y = graph.y
    num_layers, context = layers_read(network, config)
    return RootLoader(
        data,
        rows,
        train.batch_size or rows.numel(),
        shuffle,
        mode="scope" if train.num_neighbors else "shared",
        num_layers=None if train.num_neighbors else num_layers,
        num_neighbors=train.num_neighbors or None,
        subgraphs=network.extractor,
        context=context,
        seed=train.seed,
    )


def as_item(batch: Any) -> Item:
    """Convert a `RootLoader` mini-batch to an `Item`; `Item.rows` are the seeds."""
    scope = batch.batch if "batch" in batch else torch.zeros_like(batch.n_id)
    scopes = batch.batch_size if "batch" in batch else 1
    # The rows of a scope are not contiguous; no layer of a node task needs that.
    graph = GraphBatch(
        batch.x,
        batch.edge_index,
        batch.edge_attr,
        batch.y,
        scope,
        pointers(torch.bincount(scope, minlength=scopes)),
    )
    assert graph.num_nodes == batch.n_id.numel()
    subgraphs = batch.subgraphs if "subgraphs" in batch else None
    rows = torch.arange(batch.batch_size, device=scope.device)
    return Item(graph, subgraphs, rows=rows)


def is_full_batch(train: TrainConfig, rows: Tensor) -> bool:
    """Return whether a step trains on all nodes `rows`, and on the whole graph."""
    most = train.batch_size or rows.numel()
    return most >= rows.numel() and not train.num_neighbors


def has_fixed_subgraphs(network: Network) -> bool:
    """Return whether all steps on a graph have the same subgraphs, or none."""
    extractor = network.extractor
    return extractor is None or not (extractor.random or network.drop)


class WholeGraph:
    def __init__(self, item: Item, epochs: Epochs | None) -> None:
        self.item, self.epochs = item, epochs or Epochs()

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Item | None]:
        yield None if self.epochs.done() else self.item


class Seeds:
    """Yields batches of seed nodes, or None for a batch that a resumed run skips."""

    def __init__(
        self,
        loader: RootLoader,
        epochs: Epochs | None,
        timed: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        self.loader, self.epochs, self.timed = loader, epochs or Epochs(), timed

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Item | None]:
        self.loader.set_epoch(self.epochs.now())
        done, batches = self.epochs.done(), iter(self.loader)
        for number in range(len(self)):
            with self.timed():
                batch = next(batches)
                item = None if number < done else as_item(batch)
            yield item


class NodeData(GraphData):
    """Batches of one graph whose nodes are split into training, validation and test."""

    graph: GraphBatch

    def setup(self, stage: str) -> None:
        assert self.trainer is not None
        device = self.trainer.strategy.root_device
        if self.store.device != device or not hasattr(self, "graph"):
            self.store = self.store.to(device)
            self.graph = self.store.union()

    def train_dataloader(self) -> Any:
        rows, epochs = self.parts.train, self._epochs()
        if is_full_batch(self.train, rows):
            with self.clock.time("data"):
                return self._whole_graph(rows, epochs, self.captured)
        loader = seed_loader(self.graph, rows, self.network, self.config, True)
        return Seeds(loader, epochs, lambda: self.clock.time("data"))

    def _evaluation_loader(self, positions: Tensor, size: int | None = None) -> Any:
        if not self.train.num_neighbors:
            return self._whole_graph(positions)
        loader = seed_loader(self.graph, positions, self.network, self.config, False)
        return Seeds(loader, None)

    def _whole_graph(
        self, rows: Tensor, epochs: Epochs | None = None, captured: bool = False
    ) -> WholeGraph:
        graph, shared, subgraphs, shape = self.graph, self.network.shared, None, None
        size = graph.num_nodes
        if shared is not None and has_fixed_subgraphs(self.network):
            subgraphs = shared.get(graph.edge_index, size, False, batch=graph.batch)
        if captured:
            shape = Shape(1, size, graph.num_edges)
        rows = rows.to(graph.device)
        item = Item(graph, subgraphs, shape, rows=rows, fixed=captured)
        return WholeGraph(item, epochs)
