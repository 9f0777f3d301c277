"""Train a network on one pair of BREC, and test whether it distinguishes the graphs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import Adam

from gnnak.datasets.cache import with_node_features
from gnnak.errors import OptionError
from gnnak.graphs.named import Graph
from gnnak.graphs.ragged import counts_of
from gnnak.graphs.store import store_graphs
from gnnak.loading.items import Item, Shape
from gnnak.loading.windows import make_window, split
from gnnak.loop.step import can_capture, make_captured, make_ready, make_step
from gnnak.models.factory import build_model, parse_name
from gnnak.models.members import MEMBERS
from gnnak.models.network import Network
from gnnak.models.options import (
    FamilyOptions,
    ModelOptions,
    SubgraphKind,
    SubgraphOptions,
)
from gnnak.nn.family.khop import KHopLayer
from gnnak.nn.features import Categorical
from gnnak.subgraphs import RootedSubgraphs
from gnnak.subgraphs.extractors import extract
from gnnak.training.callbacks import recalibrate
from gnnak.typing import PairEncoding, Reduce, check_choice, check_count, check_positive


@dataclass(frozen=True)
class TrialOptions:
    """Options of a network and its training. Defaults: GNN-AK's in the BREC paper."""

    model: str = "gin-ak+"
    num_hops: int = 6
    """Radius of egonets and masked egonets; other kinds of subgraphs ignore it."""
    num_layers: int = 4
    base_layers: int = 2
    """Number of layers of the base GNN in each layer of the network."""
    channels: int = 32
    lr: float = 1e-4
    epochs: int = 20
    """Largest number of epochs; 0 means that the weights stay random."""
    relabellings: int = 32
    """Number q of copies of each graph with permuted nodes; BREC uses 32."""
    subgraphs: SubgraphKind = "egonets"
    """Kind of subgraphs; must not depend on random numbers or the order of nodes."""
    pairs: tuple[PairEncoding, ...] | None = None
    """Encodings of pairs (root, node); if None, as published. For GNN-AK+ and other
    subgraph GNNs."""
    max_distance: int = 5
    """The encoding "distance" replaces all larger distances by this number."""
    reduce: Reduce | None = None
    """How states are pooled; None: as published. GNN-AK ignores this option."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "base_layers", "channels"):
            check_count(name, getattr(self, name), least=1)
        check_count("num_hops", self.num_hops)
        check_count("epochs", self.epochs)
        check_count("relabellings", self.relabellings, least=2)
        check_positive("lr", self.lr)
        kinds = set(get_args(SubgraphKind)) - {"walks", "pagerank"}
        check_choice("subgraphs", self.subgraphs, sorted(kinds))
        self.model_options()

    def model_options(self) -> ModelOptions:
        given: dict[str, Any] = {}
        pairs, form = self.pairs, parse_name(self.model)
        if pairs is not None and form.distances:
            given, pairs = {"pairs": pairs}, None
        elif pairs is not None and not (
            form.member and MEMBERS[form.member].takes_pairs
        ):
            raise OptionError(
                f"{self.model} reads no encodings of pairs; leave pairs out, or use a "
                "model with the suffix -ak+, or a subgraph GNN such as sswl+-gin."
            )
        family = FamilyOptions(pairs, self.max_distance, reduce=self.reduce)
        return ModelOptions(
            num_layers=self.num_layers,
            base_layers=self.base_layers,
            channels=self.channels,
            subgraphs=SubgraphOptions(self.subgraphs, self.num_hops),
            dropout=0.0,
            family=family,
            **given,
        )

    def build_network(self, degrees: tuple[int, ...]) -> Network:
        """Build the network; `degrees` has the counts of in-degrees, for base PNA."""
        # The graphs of BREC have no features: all nodes are of one category.
        features, options = Categorical((1,)), self.model_options()
        return build_model(
            self.model, features, None, OUT_CHANNELS, options, degrees=degrees
        )


PUBLISHED: dict[str, dict[str, Any]] = {
    "nested": {"num_hops": 1, "num_layers": 6, "channels": 16, "pairs": ()},
    "ds": {"num_layers": 10},
    "dss": {"num_layers": 9},
    "sun": {"num_layers": 9},
    "sswl": {
        "subgraphs": "whole",
        "num_layers": 8,
        "channels": 64,
        "max_distance": 8,
        "lr": 1e-5,
    },
}
"""Maps subgraph GNNs to the options of the BREC paper that are not the defaults."""
PUBLISHED["sswl+"] = PUBLISHED["sswl"]


def trial_options(model: str = "gin-ak+", **given: Any) -> TrialOptions:
    """Return the BREC paper's options, changed by all in `given` that are not None."""
    form = parse_name(model)
    options: dict[str, Any] = {}
    if form.member is not None:
        options = {"subgraphs": form.kind, "base_layers": 1}
        options |= PUBLISHED.get(form.member, {})
    elif form.uplifted and form.has_node_pairs:
        # With a base PPGN of fewer layers, strongly regular graphs look the same.
        options = {"num_hops": 2, "num_layers": 2, "base_layers": 4}
    changed = {name: value for name, value in given.items() if value is not None}
    if "pairs" in changed:
        changed["pairs"] = tuple(changed["pairs"])
        if not {"distance", "distance-counts"} & set(changed["pairs"]):
            options.pop("max_distance", None)
    for name in ("subgraphs", "num_hops"):
        if name in changed and form.member is None and not form.uplifted:
            told = f"{model} has no rooted subgraphs, so {name} has no effect"
            raise OptionError(f"{told}; leave it out, or choose {model}-ak+.")
    return TrialOptions(model, **options | changed)


ATTEMPTS = 20
"""At most this many random permutations are tried, on average, per relabelled graph."""


def relabellings(graph: Graph, count: int, generator: torch.Generator) -> list[Graph]:
    """Return copies of a graph with permuted nodes, all distinct if possible."""
    edge_index, num_nodes = graph
    found: list[Graph] = []
    seen = set()
    for attempt in range(ATTEMPTS * count):
        if len(found) == count:
            break
        order = torch.randperm(num_nodes, generator=generator)
        ends = order[edge_index]
        key = torch.sort(ends[0] * num_nodes + ends[1]).values.numpy().tobytes()
        if key not in seen or attempt >= (ATTEMPTS - 1) * count:
            seen.add(key)
            found.append((ends, num_nodes))
    return found


THRESHOLD = 72.34
"""With 32 relabellings, the test distinguishes two graphs if its value exceeds this."""
RIDGE = 1e-8
"""Ridge added to a singular covariance, relative to the embeddings' mean square."""
ROUNDING = 1e-6
"""Largest relative difference of mean embeddings that counts as a rounding error."""
CLOSE = 1e-6
"""Two values of the paired test that differ by at most this number count as equal."""


class PairedTest(NamedTuple):
    """The result of BREC's paired test for two graphs, each with q relabellings."""

    released: float
    """The test statistic as in BREC's released code, which omits the factor q."""
    corrected: float
    """The test statistic with the factor q; 0 if the mean embeddings are equal."""
    singular: bool
    """Whether the covariance is singular; BREC's code then misses some differences."""


def paired_test(first: Tensor, second: Tensor) -> PairedTest:
    """Test whether the embeddings of two graphs, each [q, channels], differ."""
    if first.shape != second.shape or first.dim() != 2 or first.size(0) < 2:
        raise OptionError(
            f"the embeddings have shapes {list(first.shape)} and {list(second.shape)}; "
            "give two equal shapes [q, d] with q of at least 2."
        )
    first, second = first.detach().double().cpu(), second.detach().double().cpu()
    difference = first - second
    mean, covariance = difference.mean(dim=0), torch.cov(difference.T)
    covariance = covariance.view(mean.numel(), mean.numel())
    released = float(mean @ torch.linalg.pinv(covariance) @ mean)
    singular = int(torch.linalg.matrix_rank(covariance, hermitian=True)) < mean.numel()
    square = float(torch.cat([first, second]).square().mean())
    if float(mean.abs().max()) <= ROUNDING * square**0.5:
        return PairedTest(released, 0.0, singular)
    if singular:
        covariance = covariance + RIDGE * square * torch.eye(mean.numel()).double()
    value = mean @ torch.linalg.solve(covariance, mean)
    return PairedTest(released, difference.size(0) * float(value), singular)


def verdict(value: float, same_graph: float) -> tuple[bool, bool]:
    """Return (distinguished, reliable) from test values of a pair and of one graph."""
    apart = value > THRESHOLD and abs(value - same_graph) > CLOSE
    return apart, same_graph < THRESHOLD


PER_NODE_COPY, PER_EDGE_COPY, PER_NODE_PAIR = 30, 8, 14
"""Rough numbers of vectors, [channels], that a base GNN layer saves for backward."""
LARGE_BYTES = 4 << 30
"""If activations need at least this many bytes, the backward pass recomputes them."""
GPU_SHARE = 1 / 6
"""Activations of less than this share of a GPU's memory are never recomputed."""


def layer_bytes(subgraphs: RootedSubgraphs | None, options: TrialOptions) -> int:
    if subgraphs is None:
        return 0
    copies = PER_NODE_COPY * subgraphs.num_copies
    edges = PER_EDGE_COPY * subgraphs.num_edge_copies
    pairs = 0
    if parse_name(options.model).has_node_pairs:
        sizes = counts_of(subgraphs.subgraph, subgraphs.num_subgraphs)
        pairs = PER_NODE_PAIR * int(sizes.square().sum())
    return 4 * options.channels * options.base_layers * (copies + edges + pairs)


def large_bytes(device: torch.device) -> int:
    """Return how large activations must be for the backward pass to recompute them."""
    if device.type != "cuda":
        return LARGE_BYTES
    total = torch.cuda.get_device_properties(device).total_memory
    return max(LARGE_BYTES, int(GPU_SHARE * total))


def step_bytes(
    graph: Graph, options: TrialOptions, batch_size: int, device: torch.device
) -> int:
    subgraphs = None
    if parse_name(options.model).uplifted:
        subgraphs = extract(options.model_options().extractor, *graph)
    layer = batch_size * layer_bytes(subgraphs, options)
    total = options.num_layers * layer
    # The states between layers are a small part of what a layer saves.
    return total if total < large_bytes(device) else layer + total // PER_NODE_COPY


OUT_CHANNELS, WEIGHT_DECAY, BATCH_SIZE, STOP_LOSS = 16, 1e-4, 16, 0.2


@dataclass(frozen=True)
class TrialResult:
    """Values of the paired test on one pair of graphs, as in `PairedTest`."""

    released: float
    corrected: float
    same_released: float
    """Like `released`, but for two sets of relabelled copies of a single graph."""
    same_corrected: float
    singular: bool
    epochs: int
    loss: float | None
    """Mean loss of the last epoch; None if there was no training."""

    def distinguished(self, corrected: bool) -> bool:
        """Return whether the test is reliable and finds that the graphs differ."""
        return all(self._verdict(corrected))

    def reliable(self, corrected: bool) -> bool:
        """Return whether the test finds no difference between copies of one graph."""
        return self._verdict(corrected)[1]

    def _verdict(self, corrected: bool) -> tuple[bool, bool]:
        if corrected:
            return verdict(self.corrected, self.same_corrected)
        # The released test alone would compare one rounding error with another.
        value = self.released if self.corrected else 0.0
        return verdict(value, self.same_released if self.same_corrected else 0.0)


def run_trial(
    pair: tuple[Graph, Graph], options: TrialOptions, seed: int, device: torch.device
) -> TrialResult:
    """Train a new network on a pair of graphs, and test whether it distinguishes them.

    With `epochs=0`, the network is not trained, but has random weights.

    Difference from BREC: the embeddings are computed in float64 and with recomputed
    batch-norm statistics, since moving averages are far off after so few steps.
    """
    generator = torch.Generator().manual_seed(seed)
    count = options.relabellings
    both = [relabellings(graph, count, generator) for graph in pair]
    chosen = pair[int(torch.randint(2, (), generator=generator))]
    same = relabellings(chosen, 2 * count, generator)
    alternating = [graph for two in zip(*both, strict=True) for graph in two]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        network = options.build_network(_degrees(pair)).to(device)
        batches = _batches(alternating, network, device)
        total = options.num_layers * layer_bytes(batches[0].subgraphs, options)
        network.save_memory(recompute=total >= large_bytes(device))
        epochs, loss = _train(network, batches, options)
    # Rounding errors in float64 are far smaller than any learned difference.
    network.double().eval()
    recalibrate(network, batches)
    rows = _embeddings(network, batches)
    others = _embeddings(network, _batches(same, network, device))
    found = paired_test(rows[::2], rows[1::2])
    check = paired_test(others[:count], others[count:])
    return TrialResult(*found[:2], *check[:2], found.singular, epochs, loss)


def _degrees(pair: tuple[Graph, Graph]) -> tuple[int, ...]:
    counts = [torch.bincount(ends[1], minlength=size) for ends, size in pair]
    return tuple(torch.cat(counts).bincount().tolist())


def _batches(
    graphs: Sequence[Graph], network: Network, device: torch.device
) -> list[Item]:
    whole = with_node_features(store_graphs(graphs)).union().to(device)
    subgraphs = None
    if network.extractor is not None and network.drop is None:
        edge_index, num_nodes, batch = whole.edge_index, whole.num_nodes, whole.batch
        subgraphs = extract(network.extractor, edge_index, num_nodes, None, batch)
    starts = range(0, len(graphs), BATCH_SIZE)
    sizes = [min(BATCH_SIZE, len(graphs) - start) for start in starts]
    window = make_window(whole, subgraphs, sizes)
    items = split(window, groups=subgraphs is not None)
    return [replace(item, shape=_shape(item)) for item in items]


def _shape(item: Item) -> Shape:
    batch, subgraphs = item.batch, item.subgraphs
    sizes = [batch.num_graphs, batch.num_nodes, batch.num_edges]
    if subgraphs is not None:
        sizes += [subgraphs.num_subgraphs, subgraphs.num_copies]
        sizes.append(subgraphs.num_edge_copies)
    return Shape(*sizes)


def _train(
    network: Network, batches: Sequence[Item], options: TrialOptions
) -> tuple[int, float | None]:
    device = batches[0].batch.device
    network.train()
    optimizer = Adam(network.parameters(), options.lr, weight_decay=WEIGHT_DECAY)
    captured = _is_capturable(network, device)
    make_ready(optimizer, device, captured)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)

    def loss_of(item: Item) -> Tensor:
        """Return the loss of a batch, in which copies of both graphs alternate."""
        rows = network(item.batch, subgraphs=item.subgraphs)
        target = rows.new_full((rows.size(0) // 2,), -1)
        return functional.cosine_embedding_loss(rows[::2], rows[1::2], target)

    step = make_step(loss_of, optimizer, device, precision="32", clip=None)
    if captured:
        step = make_captured(step, device, optimizer.zero_grad)
    counts = [item.batch.num_graphs for item in batches]
    epochs, mean = 0, None
    while epochs < options.epochs and (mean is None or mean >= STOP_LOSS):
        total = torch.zeros((), device=device)
        for item, count in zip(batches, counts, strict=True):
            total += step(item) * count
        mean = float(total) / sum(counts)  # synchronises once per epoch
        scheduler.step(mean)
        epochs += 1
    return epochs, mean


def _is_capturable(network: Network, device: torch.device) -> bool:
    if network.recompute or network.drop is not None:
        return False
    # Without padding, the k-hop GNN synchronises to count the rows of its rings.
    if any(isinstance(module, KHopLayer) for module in network.modules()):
        return False
    return can_capture(network, device, "32")


def _embeddings(network: Network, batches: Sequence[Item]) -> Tensor:
    with torch.no_grad():
        rows = [network(item.batch, subgraphs=item.subgraphs) for item in batches]
    return torch.cat(rows)
