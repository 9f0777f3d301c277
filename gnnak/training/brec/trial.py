"""Train a network on one pair of graphs, and test whether their embeddings differ."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from gnnak.graphs.families import Graph
from gnnak.loading.items import Item, Shape
from gnnak.loading.splitting import split
from gnnak.loading.windows import make_window
from gnnak.models.factory import build_model
from gnnak.models.network import Network
from gnnak.nn.family.khop import KHopLayer
from gnnak.nn.features import Categorical
from gnnak.subgraphs.extractors import extract
from gnnak.training.brec.cost import is_large
from gnnak.training.brec.options import TrialOptions
from gnnak.training.brec.paired_test import paired_test, verdict
from gnnak.training.brec.relabel import collate, relabellings
from gnnak.training.callbacks.recalibrate import recalibrate
from gnnak.training.config.run_config import TrainConfig
from gnnak.training.optimizer import make_optimizer, make_ready
from gnnak.training.step import can_capture, make_captured, make_step

NO_FEATURES = Categorical((1,))
"""The graphs of BREC have no features: all nodes are of one category."""
OUT_CHANNELS, WEIGHT_DECAY, BATCH_SIZE, STOP_LOSS = 16, 1e-4, 16, 0.2
"""Width of the embeddings, weight decay of Adam, number of graphs in a batch (half of
them are relabellings of each graph), and the loss below which training stops."""


@dataclass(frozen=True)
class TrialResult:
    """The outcome for one pair of graphs and one seed."""

    released: float
    """Value of the paired test for the pair, as in BREC's released code."""
    corrected: float
    """Value of the paired test for the pair, with the factor q."""
    same_released: float
    """`released` for relabellings of one and the same graph: the reliability check."""
    same_corrected: float
    """`corrected` for relabellings of one and the same graph."""
    singular: bool
    """Whether the covariance of the pair's embeddings is singular."""
    epochs: int
    """Number of epochs of training."""
    loss: float
    """Mean loss of the last epoch."""

    def distinguished(self, corrected: bool) -> bool:
        """Whether the network distinguishes the pair, and passes the reliability check.

        Args:
            corrected: Whether to use the test with the factor q.
        """
        return all(self._verdict(corrected))

    def reliable(self, corrected: bool) -> bool:
        """Whether relabellings of one and the same graph are not distinguished.

        Args:
            corrected: Whether to use the test with the factor q.
        """
        return self._verdict(corrected)[1]

    def _verdict(self, corrected: bool) -> tuple[bool, bool]:
        """Return whether the pair is distinguished, and passes the check.

        Mean embeddings that are equal up to rounding errors count as equal in both
        tests; `corrected` is then 0. The released test alone would compare one rounding
        error with another.
        """
        if corrected:
            return verdict(self.corrected, self.same_corrected)
        value = self.released if self.corrected else 0.0
        return verdict(value, self.same_released if self.same_corrected else 0.0)

    def as_dict(self) -> dict[str, float | int | bool]:
        """Return all fields as a dict that can be written as JSON."""
        return asdict(self)


def run_trial(
    pair: tuple[Graph, Graph], options: TrialOptions, seed: int, device: torch.device
) -> TrialResult:
    """Train a new network on a pair of graphs, and test whether it distinguishes them.

    Each graph is relabelled q times. Batches alternate between both graphs. Adam
    minimises the cosine embedding loss, max(0, cos(h_G, h_H)), over pairs of relabelled
    graphs; the learning rate is reduced when the loss stops falling. The network is
    tested on the graphs that it was trained on, in evaluation mode.

    Differences from BREC: embeddings are tested in float64, not in float32, and the
    running statistics of batch norms are recomputed from the training graphs before the
    test. After so few training steps, moving averages can be wrong by many standard
    deviations, so that ReLUs set to zero everything that differs between the graphs.

    Args:
        pair: The two graphs, as (edge_index, num_nodes).
        options: Options of the network and of its training.
        seed: Seed of the weights and the relabellings.
        device: Where to train.
    """
    generator = torch.Generator().manual_seed(seed)
    count = options.relabellings
    both = [relabellings(graph, count, generator) for graph in pair]
    chosen = pair[int(torch.randint(2, (), generator=generator))]
    same = relabellings(chosen, 2 * count, generator)
    alternating = [graph for two in zip(*both, strict=True) for graph in two]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        sizes = (NO_FEATURES, None, OUT_CHANNELS)
        given = (*sizes, options.model_options())
        network = build_model(options.model, *given, degrees=_degrees(pair)).to(device)
        batches = _batches(alternating, network, device)
        network.save_memory(recompute=is_large(batches[0].subgraphs, options, device))
        epochs, loss = _train(network, batches, options)
    # Rounding errors in float64 are far smaller than any learned difference.
    network.double().eval()
    recalibrate(network, batches)
    rows = _embeddings(network, batches)
    others = _embeddings(network, _batches(same, network, device))
    found, check = (
        paired_test(rows[::2], rows[1::2]),
        paired_test(others[:count], others[count:]),
    )
    values = (found.released, found.corrected, check.released, check.corrected)
    return TrialResult(*values, found.singular, epochs, loss)


def _degrees(pair: tuple[Graph, Graph]) -> tuple[int, ...]:
    """Return the number of nodes of a pair with each in-degree, for the base GNN PNA.

    >>> path = (torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    >>> _degrees((path, path))
    (0, 4, 2)
    """
    counts = [torch.bincount(ends[1], minlength=size) for ends, size in pair]
    return tuple(torch.cat(counts).bincount().tolist())


def _batches(
    graphs: Sequence[Graph], network: Network, device: torch.device
) -> list[Item]:
    """Collect graphs in batches, with their rooted subgraphs if the network has any."""
    whole = collate(graphs).to(device)
    subgraphs = None
    if network.shared is not None and network.drop is None:
        given = (whole.edge_index, whole.num_nodes, None, whole.batch)
        subgraphs = extract(network.shared.extractor, *given)
    starts = range(0, len(graphs), BATCH_SIZE)
    sizes = [min(BATCH_SIZE, len(graphs) - start) for start in starts]
    window = make_window(whole, subgraphs, sizes)
    return [
        replace(item, shape=_shape(item))
        for item in split(window, groups=subgraphs is not None)
    ]


def _shape(item: Item) -> Shape:
    """Return the sizes of a batch, which has no padding.

    All batches of a pair have the same sizes, except a smaller last batch, so that a
    training step can be captured as a CUDA graph.
    """
    batch, subgraphs = item.batch, item.subgraphs
    sizes = (batch.num_graphs, batch.num_nodes, batch.num_edges)
    if subgraphs is None:
        return Shape(*sizes)
    copies = (subgraphs.num_copies, subgraphs.num_edge_copies)
    return Shape(*sizes, subgraphs.num_subgraphs, *copies)


def _train(
    network: Network, batches: Sequence[Item], options: TrialOptions
) -> tuple[int, float]:
    """Train the network in place; return the number of epochs and the last loss.

    Training synchronises once per epoch, to read the loss. On a GPU, steps are captured
    as CUDA graphs if the network allows that.
    """
    device = batches[0].batch.device
    network.train()
    train = TrainConfig(learning_rate=options.lr, weight_decay=WEIGHT_DECAY)
    optimizer = make_optimizer(network.parameters(), train)
    captured = _is_capturable(network, device)
    make_ready(optimizer, device, captured)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)

    def loss_of(item: Item) -> Tensor:
        """Return the loss of a batch, in which graphs of the pair alternate."""
        rows = network(item.batch, subgraphs=item.subgraphs)
        target = rows.new_full((rows.size(0) // 2,), -1)
        return functional.cosine_embedding_loss(rows[::2], rows[1::2], target)

    step = make_step(loss_of, optimizer, train, device)
    if captured:
        step = make_captured(step, device, optimizer.zero_grad)
    counts = [item.batch.num_graphs for item in batches]
    epochs, mean = 0, float("inf")
    while epochs < options.epochs and mean >= STOP_LOSS:
        total = torch.zeros((), device=device)
        for item, count in zip(batches, counts, strict=True):
            total += step(item) * count
        mean = float(total) / sum(counts)
        scheduler.step(mean)
        epochs += 1
    return epochs, mean


def _is_capturable(network: Network, device: torch.device) -> bool:
    """Return whether training steps on batches without padding can be captured.

    SubgraphDrop samples subgraphs in each step, and the k-hop GNN counts the rows of
    its rings if they have no padding: both synchronise with the device.
    """
    if network.recompute or network.drop is not None:
        return False
    if any(isinstance(module, KHopLayer) for module in network.modules()):
        return False
    return can_capture(network, device, "32")


def _embeddings(network: Network, batches: Sequence[Item]) -> Tensor:
    """Run the network without gradients on all batches.

    Returns:
        One row per graph, [g, channels]: the output of the network.
    """
    with torch.no_grad():
        rows = [network(item.batch, subgraphs=item.subgraphs) for item in batches]
    return torch.cat(rows)
