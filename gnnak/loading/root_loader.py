"""`RootLoader`: mini-batches of seed nodes of one large graph."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data, FeatureStore, GraphStore

from gnnak.errors import OptionError, SizeError, counted
from gnnak.graphs.adjacency import Neighbors, check_edge_index, incoming
from gnnak.loading.forms import FORM
from gnnak.loading.large_graph import read_large_graph, read_seeds
from gnnak.loading.order import GraphOrder, HasEpochs, epoch_seed
from gnnak.loading.prefetch import prefetch
from gnnak.loading.sources import refuse_others, usable_device
from gnnak.subgraphs.attached import attach
from gnnak.subgraphs.encodings import PART, WithEncodings
from gnnak.subgraphs.extractors import BUILT_IN, Extractor, check_extractor, extract
from gnnak.subgraphs.neighborhood import Hop, sample_neighborhood
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.typing import as_count, check_choice, check_flag

Mode = Literal["shared", "scope"]
"""Whether the seeds of a batch share one neighbourhood, or each seed has its own, which
is called its scope."""
MODES: tuple[Mode, ...] = ("shared", "scope")
ALONE = "samples neighbours uniformly, without replacement and without worker processes"
"""Completes the message that a `RootLoader` lacks an option of PyG's loaders."""
Sample = tuple[dict[str, Any], RootedSubgraphs | None]
"""The fields of a batch by name, and its rooted subgraphs."""


class RootLoader(HasEpochs):
    r"""Iterate over mini-batches of seed nodes of one large graph.

    The counterpart of PyG's `NeighborLoader` and `ShaDowKHopSampler`, for plain and for
    uplifted models, without compiled extension packages. A batch has some seeds, and
    the nodes and edges around them, from which a model computes the outputs of the
    seeds. Train on the outputs of the seeds, the first `batch.batch_size` rows.

    The search for these nodes begins at the seeds and follows edges backwards, hop by
    hop. If no neighbours are left out, the outputs of the seeds are the same as on the
    whole graph (in evaluation, without operations over all nodes of a batch, such as
    GraphNorm). For a model with $L$ layers, the search then needs

    - $L$ hops for a plain model, and one more if its layers read the degrees of
      neighbours, as `GCNConv` does;
    - $kL$ hops for a model that is uplifted with `EgoNets(k)` and without the context
      encoding, since a layer reads the states of all nodes in the subgraph of a root;
    - $2kL$ hops with the context encoding: the context of a node also needs the
      subgraphs of all roots at most $k$ hops away in the direction of the edges.

    In mode "shared", the seeds share one neighbourhood, which is sampled as in PyG's
    `NeighborLoader`. In mode "scope", each seed has a sampled neighbourhood of its own,
    which is called its scope, as in ShaDow-GNN. A batch is then the disjoint union of
    the scopes. A model of any depth can run on the scopes, since they do not grow with
    the number of layers.

    A batch is a PyG `Data` with every field of the graph, but only the rows of the
    batch's own nodes and edges, and with

    - `n_id`, `e_id`: the node or edge of the large graph in each row;
    - `batch_size`: the number of seeds, which are in the first rows;
    - `input_id`: the number of each seed in the large graph; or, if `input_nodes` is a
      list of node numbers, the position of the seed in `input_nodes`;
    - `batch`, in mode "scope" only: the number of the scope that each node is in.

    In mode "shared" without `subgraphs`, a batch has only the edges that the search has
    followed. Otherwise, it has all edges between its nodes. With `subgraphs`, a batch
    also has the field `subgraphs`, its rooted subgraphs. An uplifted model that is
    called with the batch's `edge_index` uses these subgraphs. In mode "shared", the
    subgraph of a node found in the last $k$ hops is only its root: no seed needs more.

    Neighbours are sampled on the device of the batches. The memory that a batch needs
    does not depend on the size of the graph: the fields of the graph stay where they
    are, for example in a memory-mapped NumPy file, and a batch gathers its rows.

    Each iteration is one epoch, with new samples, which depend only on `seed` and
    `epoch`. In distributed training (`torch.distributed`), each process gets its share
    of the seeds. A few seeds occur in two processes if the seeds cannot be divided
    evenly. No call of `set_epoch` is needed.

    Args:
        data: A PyG `Data`, whose fields may be tensors or NumPy arrays; or a pair of a
            `FeatureStore` and a `GraphStore` with one type of nodes and edges.
        input_nodes: The seeds, as a mask, [n], or as node numbers, each at most once.
            If None, all nodes are seeds.
        batch_size: Number of seeds per batch, in each process.
        shuffle: Whether the seeds are in a random order, a new one in each epoch.
        mode: "shared" or "scope", see above.
        num_layers: Number of layers of the model. Together with `subgraphs` and
            `context`, it determines the number of hops, see above. If it is None, and
            `num_neighbors` is not a list, the number of layers is taken to be 2. If the
            model has more layers, its outputs differ from those on the whole graph;
            there is no warning, since a loader does not know the model.
        num_neighbors: Largest number of neighbours that are sampled per node and hop.
            If -1 or None, all neighbours are taken. If a list, it has one number per
            hop and determines the number of hops, so leave out `num_layers`.
        subgraphs: Extracts the rooted subgraphs of a batch, for example `EgoNets(2)`;
            give the extractor of the uplifted model. None means no subgraphs.
        context: Whether the uplifted model uses the context encoding.
        drop_last: Whether to leave out a last batch that is smaller than the others.
        device: The device of the batches and of the search; the edges are copied to it
            once. If None, the device of the edges.
        seed: Random seed of the order and of all samples.
        others: Not allowed. An option of PyG's loaders, such as `num_workers`, raises
            an error with the name of the option.

    Attributes:
        epoch: Number of the next epoch.

    >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    >>> data = Data(x=torch.rand(4, 8), edge_index=path, y=torch.tensor([0, 1, 0, 1]))
    >>> loader = RootLoader(data, input_nodes=[0, 3], batch_size=1, num_layers=1)
    >>> [batch.n_id.tolist() for batch in loader]
    [[0, 1], [3, 2]]
    """

    def __init__(
        self,
        data: Data | tuple[FeatureStore, GraphStore],
        input_nodes: Tensor | Sequence[int] | None = None,
        batch_size: int = 1024,
        shuffle: bool = False,
        *,
        mode: Mode = "shared",
        num_layers: int | None = None,
        num_neighbors: int | Sequence[int] | None = None,
        subgraphs: Extractor | None = None,
        context: bool = True,
        drop_last: bool = False,
        device: torch.device | str | None = None,
        seed: int = 0,
        **others: object,
    ) -> None:
        refuse_others(RootLoader, others, ALONE)
        check_choice("mode", mode, MODES)
        for name, flag in (("shuffle", shuffle), ("drop_last", drop_last)):
            check_flag(name, flag)
        check_flag("context", context)
        check_subgraphs(subgraphs)
        self.batch_size = as_count("batch_size", batch_size, least=1)
        self.shuffle, self.mode, self.subgraphs = shuffle, mode, subgraphs
        self.seed, self.epoch = as_count("seed", seed), 0
        radius = 1 if subgraphs is None else subgraphs.max_hops
        reach = radius * (2 if context and subgraphs is not None else 1)
        most = read_caps(num_neighbors, count_hops(num_layers, num_neighbors, reach))

        self._graph = graph = read_large_graph(data, subgraphs is not None)
        check_edge_index(graph.edge_index, graph.num_nodes)
        self._nodes, self._ids = read_seeds(input_nodes, graph.num_nodes)
        self._order = GraphOrder(
            self.batch_size,
            {},
            self._nodes.numel(),
            self.seed if shuffle else None,
            drop_last,
            what="seed",
        )
        self.device = usable_device(device) or graph.edge_index.device
        edge_index = graph.edge_index.to(self.device)
        self._neighbors = incoming(edge_index, graph.num_nodes)
        backwards = forwards = self._neighbors
        if context and subgraphs is not None:
            forwards = outgoing(edge_index, self._neighbors)
        self._hops = search_plan(most, radius, backwards, forwards)
        # The nodes found so far have complete subgraphs after this many hops.
        self._complete = max(len(self._hops) - radius, 0)

    def __len__(self) -> int:
        return len(self._order.of_epoch(self.epoch))

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, as `DistributedSampler.set_epoch` does."""
        self.epoch = as_count("epoch", epoch)

    def __iter__(self) -> Iterator[Data]:
        # An iterator chooses its epoch when its first batch is requested.
        epoch, self.epoch = self.epoch, self.epoch + 1
        try:
            with closing(prefetch(self._samples(epoch), self.device)) as samples:
                for sample in samples:
                    yield self._make(*sample)
        except torch.OutOfMemoryError as error:
            raise SizeError(
                f"a batch of {counted(self.batch_size, 'seed')} does not fit into the "
                f"memory of {self.device}; lower batch_size or num_neighbors."
            ) from error

    def _samples(self, epoch: int) -> Generator[Sample, None, None]:
        seed = epoch_seed(self.seed, epoch)
        for number, positions in enumerate(self._order.of_epoch(epoch)):
            gradients = torch.is_grad_enabled()
            # A tensor made in inference mode could not be used in training later, and
            # has no version counter, which tells whether its subgraphs are still valid.
            with torch.inference_mode(False), torch.set_grad_enabled(gradients):
                sample = self._sample(positions, seed, number)
            yield sample

    def _sample(self, positions: Tensor, seed: int, number: int) -> Sample:
        found = sample_neighborhood(
            self._nodes[positions].to(self.device),
            self._neighbors,
            self._hops,
            per_seed=self.mode == "scope",
            induced=self.mode == "scope" or self.subgraphs is not None,
            seed=seed,
        )
        # As in PyG, fields of the graph with the names n_id and e_id are gathered.
        fields: dict[str, Any] = {"n_id": found.node, "e_id": found.edge}
        fields |= self._graph.gather(found.node, found.edge, self.device)
        fields |= {
            "edge_index": found.edge_index,
            "input_id": self._ids[positions].to(self.device),
            "batch_size": positions.numel(),
        }
        if self.mode == "scope":
            fields["batch"] = found.scope
        random = torch.Generator(self.device)
        random.manual_seed(epoch_seed(seed, number, self._order.rank))
        if self.subgraphs is None:
            return fields, None
        every = found.node.numel()
        roots = every if self.mode == "scope" else found.found[self._complete]
        subgraphs = subgraphs_of_first(
            self.subgraphs, found.edge_index, every, roots, random
        )
        return fields, subgraphs

    def _make(self, fields: dict[str, Any], subgraphs: RootedSubgraphs | None) -> Data:
        # The other fields of the graph are the same in each batch.
        batch = copy(self._graph.rest)
        batch._store._mapping.update(fields)
        if subgraphs is not None and self.subgraphs is not None:
            batch["subgraphs"] = subgraphs
            with torch.inference_mode(False):
                edges = batch.edge_index.clone()
            attach(batch.edge_index, subgraphs, self.subgraphs, edges)
        shape = self._graph.edge_index.shape
        if self.mode == "scope" or batch.edge_index.shape != shape:
            setattr(batch.edge_index, PART, True)
        batch.__dict__[FORM] = "batches of a RootLoader differ in size"
        return batch

    def __repr__(self) -> str:
        options = {
            "seeds": self._nodes.numel(),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle or None,
            "mode": self.mode,
            "num_neighbors": [-1 if h.most is None else h.most for h in self._hops],
            "subgraphs": self.subgraphs,
            "seed": self.seed or None,
            "device": str(self.device),
        }
        shown = [f"{k}={v!r}" for k, v in options.items() if v is not None]
        return f"RootLoader({', '.join(shown)})"


def check_subgraphs(extractor: object) -> None:
    if extractor is None:
        return
    check_extractor("subgraphs", extractor)
    if isinstance(extractor, WithEncodings):
        names = ", ".join(encoding.name for encoding in extractor.encodings)
        raise OptionError(
            f"the encodings of pairs ({names}) depend on the whole graph, but a batch "
            "is a part of it; leave them out of pairs."
        )
    if getattr(extractor, "reads_batch", False):
        raise OptionError(
            f"subgraphs is {extractor!r}, which reads whole graphs, but a batch is "
            "a part of one graph; use, for example, gnnak.EgoNets(2)."
        )


def count_hops(num_layers: int | None, num_neighbors: object, reach: int) -> int:
    """Return the number of hops: one per listed number, or `reach` for each layer.

    >>> count_hops(None, [5, 5, 5], 2), count_hops(3, 10, 2), count_hops(None, 10, 2)
    (3, 6, 4)
    """
    listed = len(num_neighbors) if isinstance(num_neighbors, list | tuple) else None
    if num_layers is None:
        return 2 * reach if listed is None else listed
    hops = as_count("num_layers", num_layers) * reach
    if listed not in (None, hops):
        raise OptionError(
            f"num_neighbors has {counted(listed, 'number')}, one per hop, but "
            f"num_layers={num_layers} takes {counted(hops, 'hop')}; give one of the "
            f"two, or {counted(hops, 'number')}."
        )
    return hops


def read_caps(num_neighbors: object, num_hops: int) -> list[int | None]:
    """Return the largest number of sampled neighbours for each hop; None means all.

    >>> read_caps(10, 2), read_caps([5, -1, 3], 2)
    ([10, 10], [5, None, 3])
    """
    if num_neighbors is None:
        num_neighbors = -1
    if not isinstance(num_neighbors, list | tuple):
        num_neighbors = [num_neighbors] * num_hops
    counts = [as_count("num_neighbors", each, least=-1) for each in num_neighbors]
    return [None if count == -1 else count for count in counts]


def outgoing(edge_index: Tensor, backwards: Neighbors) -> Neighbors:
    """Find neighbours along outgoing edges; return `backwards` if they are the same."""
    forwards = incoming(edge_index.flip(0), backwards.num_nodes)
    return backwards if torch.equal(forwards.key, backwards.key) else forwards


def search_plan(
    most: Sequence[int | None], radius: int, backwards: Neighbors, forwards: Neighbors
) -> list[Hop]:
    """Return the hops of the search, from the last layer of the model to the first.

    For each layer, `radius` hops forwards find the roots whose subgraphs contain the
    nodes found so far. Then `radius` hops backwards find the nodes of these subgraphs.
    Without the context encoding, all hops go backwards: pass `backwards` twice.
    `most` limits the sampled neighbours of a node in each hop; None means no limit.
    """
    # Counted from the end, since a short search begins within a layer.
    steps = range(len(most))[::-1]
    directions = (backwards, forwards)
    return [
        Hop(directions[step // max(radius, 1) % 2], count)
        for step, count in zip(steps, most, strict=True)
    ]


def subgraphs_of_first(
    extractor: Extractor,
    edge_index: Tensor,
    num_nodes: int,
    num_roots: int,
    generator: torch.Generator,
) -> RootedSubgraphs:
    """Extract a subgraph per node; nodes from `num_roots` on may be alone in theirs."""
    if type(extractor) not in BUILT_IN or num_roots == num_nodes:
        return extract(extractor, edge_index, num_nodes, generator)
    root = torch.arange(num_nodes, device=edge_index.device)
    first, alone = root[:num_roots], root[num_roots:]
    part = extract(extractor, edge_index, num_nodes, generator, roots=first)
    centroid = torch.arange(alone.numel(), device=root.device) + part.num_copies
    return replace(
        part,
        root=root,
        node=torch.cat([part.node, alone]),
        subgraph=torch.cat([part.subgraph, alone]),
        hop=torch.cat([part.hop, torch.zeros_like(alone)]),
    ).assume(
        hop_range=part.hop_range,
        in_order=True,
        centroid=torch.cat([part.centroid, centroid]),
    )
