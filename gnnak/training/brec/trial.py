"""Train a network on one pair of graphs, and test whether it distinguishes them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnnak.graphs.named import Graph
from gnnak.models.factory import build_model
from gnnak.models.network import Network
from gnnak.models.options import ModelOptions
from gnnak.nn.features import Categorical
from gnnak.subgraphs import EgoNets
from gnnak.training.brec.paired_test import paired_test, verdict
from gnnak.training.brec.relabel import Batch, collate, relabellings
from gnnak.typing import check_count


@dataclass(frozen=True)
class TrialOptions:
    """Options of the network and of its training on one pair; the defaults are BREC's.

    The defaults of the network are those of GNN-AK in the BREC paper.
    """

    model: str = "gin-ak+"
    """Name of the network, as in `build_model`."""
    num_hops: int = 6
    """Radius of the egonets."""
    num_layers: int = 4
    """Number of layers."""
    base_layers: int = 2
    """Number of layers of the base GNN in each layer."""
    channels: int = 32
    """Width of the node states."""
    lr: float = 1e-4
    """Learning rate of Adam."""
    epochs: int = 20
    """Largest number of epochs."""
    relabellings: int = 32
    """How often each graph is relabelled, q."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "base_layers", "channels", "epochs"):
            check_count(name, getattr(self, name), least=1)
        check_count("num_hops", self.num_hops)
        check_count("relabellings", self.relabellings, least=2)


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
        """Whether relabellings of one and the same graph are not distinguished."""
        return self._verdict(corrected)[1]

    def _verdict(self, corrected: bool) -> tuple[bool, bool]:
        if corrected:
            return verdict(self.corrected, self.same_corrected)
        return verdict(self.released, self.same_released)

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

    Difference from BREC: embeddings are tested in float64, not in float32.

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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _network(options).to(device)
    mixed = [graph for pair_of_two in zip(*both, strict=True) for graph in pair_of_two]
    batches = _batches(mixed, network, options, device)
    epochs, loss = _train(network, batches, options)
    rows = _embeddings(network, batches)
    others = _embeddings(network, _batches(same, network, options, device))
    found, check = (
        paired_test(rows[::2], rows[1::2]),
        paired_test(others[:count], others[count:]),
    )
    values = (found.released, found.corrected, check.released, check.corrected)
    return TrialResult(*values, found.singular, epochs, loss)


def _network(options: TrialOptions) -> Network:
    chosen = ModelOptions(
        num_layers=options.num_layers,
        base_layers=options.base_layers,
        channels=options.channels,
        subgraphs=EgoNets(options.num_hops),
        dropout=0.0,
    )
    return build_model(options.model, Categorical((1,)), None, OUT_CHANNELS, chosen)


def _batches(
    graphs: Sequence[Graph],
    network: Network,
    options: TrialOptions,
    device: torch.device,
) -> list[Batch]:
    """Collect graphs in batches, with their egonets if the network uses egonets."""
    found = []
    for start in range(0, len(graphs), BATCH_SIZE):
        batch = collate(graphs[start : start + BATCH_SIZE], device)
        if network.shared is not None and network.drop is None:
            extract = EgoNets(options.num_hops)
            subs = extract(batch.edge_index, batch.x.size(0))
            batch = batch._replace(subgraphs=subs)
        found.append(batch)
    return found


def _train(
    network: Network, batches: Sequence[Batch], options: TrialOptions
) -> tuple[int, float]:
    """Train the network in place; return the number of epochs and the last loss."""
    optimizer = torch.optim.Adam(
        network.parameters(), lr=options.lr, weight_decay=WEIGHT_DECAY
    )
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    network.train()
    epochs, mean = 0, float("inf")
    while epochs < options.epochs and mean >= STOP_LOSS:
        total = torch.zeros((), device=batches[0].x.device)
        for batch in batches:
            optimizer.zero_grad()
            rows = _embed(network, batch)
            target = -torch.ones(rows.size(0) // 2, device=rows.device)
            loss = functional.cosine_embedding_loss(rows[::2], rows[1::2], target)
            loss.backward()
            optimizer.step()
            total += loss.detach() * target.numel()
        mean = 2 * float(total) / sum(batch.num_graphs for batch in batches)
        scheduler.step(mean)
        epochs += 1
    return epochs, mean


def _embeddings(network: nn.Module, batches: Sequence[Batch]) -> Tensor:
    """Return the embeddings of all graphs in evaluation mode, [graphs, channels].

    They are computed in float64, so that rounding errors are far smaller than any
    difference that the network learned.
    """
    network.double().eval()
    with torch.no_grad():
        return torch.cat([_embed(network, batch) for batch in batches])


def _embed(network: nn.Module, batch: Batch) -> Tensor:
    return network(
        batch.x,
        batch.edge_index,
        batch=batch.batch,
        subgraphs=batch.subgraphs,
        num_graphs=batch.num_graphs,
    )
