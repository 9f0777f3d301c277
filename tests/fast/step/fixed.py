"""Items of one shape and a training step for them, without loader and Lightning."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.optim import Adam

from gnnak.fast.step.captured import CapturedStep
from gnnak.graphs.real import RealCounts
from gnnak.loading.items import Item, Shape, like, tensors_of
from gnnak.loop.step import make_ready, make_step
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.egonets import EgoNets
from gnnak.subgraphs.rooted import RootedSubgraphs
from gnnak.training.config.run_config import RunConfig
from gnnak.training.module import GraphTask, build_network
from tests.fast.recorders import make_recorder
from tests.training.small import edge_counts, small_config

MODELS = ["gin-ak+", "gin", "gin-ak+-s"]
Step = Callable[[Item], Tensor]


def fixed_config(model: str, **options: object) -> RunConfig:
    return small_config(data__name="edges", model__name=model, **options)


def fixed_items(config: RunConfig, count: int, device: str = "cpu") -> list[Item]:
    """Return the same graphs `count` times, with random features, without padding."""
    store = edge_counts(8).store
    batch = store[torch.arange(len(store))]
    subgraphs = None
    if "-ak" in config.model.name:
        subgraphs = EgoNets(1)(batch.edge_index, batch.num_nodes)
    if config.model.name.endswith("-s"):
        draw = torch.Generator().manual_seed(0)
        subgraphs = SubgraphDrop()(subgraphs, batch.edge_index, draw)
    sizes = (batch.num_graphs, batch.num_nodes, batch.num_edges)
    if subgraphs is not None:
        sizes += (subgraphs.num_subgraphs, subgraphs.num_copies, len(subgraphs.edge))
    sizes += (0,) * (6 - len(sizes))
    real = RealCounts(torch.tensor(sizes))
    batch = replace(batch, real=real)
    if subgraphs is not None:
        subgraphs = replace(subgraphs, real=real)
    first = Item(batch, subgraphs, Shape(*sizes))
    draw = torch.Generator().manual_seed(1)
    return [_another(first, draw, config, device) for _ in range(count)]


def _another(item: Item, draw: torch.Generator, config: RunConfig, device: str) -> Item:
    fresh = like(item, [tensor.clone() for tensor in tensors_of(item)])
    assert fresh.batch.x is not None
    assert fresh.batch.y is not None
    fresh.batch.x.copy_(torch.randint(3, fresh.batch.x.shape, generator=draw))
    fresh.batch.y.copy_(torch.rand(fresh.batch.y.shape, generator=draw))
    tensors = [tensor.to(device) for tensor in tensors_of(fresh)]
    if config.train.precision == "64":
        tensors = [t.double() if t.is_floating_point() else t for t in tensors]
    moved = like(fresh, tensors)
    if moved.subgraphs is not None:
        _keep(moved.subgraphs)
    return moved


def _keep(subgraphs: RootedSubgraphs) -> None:
    """Compute and cache the derived fields, as the loader of padded batches does."""
    for axis in ("subgraph", "node", "target", "source", "edge"):
        subgraphs.by(axis)  # type: ignore[arg-type]
    assert subgraphs.centroid is not None
    assert subgraphs.max_hop >= 0
    assert subgraphs.in_order or subgraphs.root.numel()


def fixed_step(
    config: RunConfig, device: str = "cpu", captured: bool = True
) -> tuple[Step, Adam]:
    """Return the step of a new network, captured or not, and its optimizer."""
    torch.manual_seed(config.train.seed)
    info = edge_counts(8).info
    network = build_network(config, info)
    task = GraphTask(config, info, network, capture=True).to(device).train()
    there = next(task.parameters()).device
    optimizer = task.configure_optimizers()
    make_ready(optimizer, there, captured=True)
    told = config.train.precision, config.train.clip
    step = make_step(task.loss_of, optimizer, there, *told)
    if not captured:
        return step, optimizer
    return CapturedStep(step, make_recorder(there), optimizer.zero_grad), optimizer


def trained(config: RunConfig, captured: bool, device: str = "cpu") -> Tensor:
    step, _ = fixed_step(config, device, captured)
    torch.manual_seed(3)
    losses = torch.stack([step(item) for item in fixed_items(config, 20, device)])
    assert losses.isfinite().all()
    assert not isinstance(step, CapturedStep) or not step.gave_up
    return losses
