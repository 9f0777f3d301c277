"""Two processes on the fast path train a network as one process does."""

from dataclasses import replace
from functools import partial
from itertools import islice

import pytest
import torch
import torch.distributed as dist

from gnnak.backend import PLAIN, Backend
from gnnak.fast.backend import cpu_backend
from gnnak.fast.step.captured import CapturedStep
from gnnak.loading.assembler import find_subgraphs
from gnnak.loading.graph_loader import Loader
from gnnak.loading.order import BatchSampler, Epochs
from gnnak.loop.step import make_ready, make_step
from gnnak.training.data import in_double
from gnnak.training.module import GraphTask, build_network
from tests.fast.backends import fused_everywhere
from tests.fast.recorders import make_recorder
from tests.gpu import GPU
from tests.training.small import edge_counts, small_config
from tests.two_processes import results_of

STEPS = 20
TOLERANCES = {"64": 1e-10, "32": 1e-5}
MODELS = ["gin-ak+", "gcn-ak+", "gin-ak", "sswl+-gin", "gin"]
DOUBLE = ["pna*-ak+"]
"""Models whose gradients amplify rounding errors, here by square roots near 0."""


def config_of(name, precision):
    return small_config(
        data__name="edges",
        model__name=name,
        train__precision=precision,
        train__clip=0.5,
    )


def items_of(config, network, rank, processes, device, padded):
    """Yield batches of this process, as `gnnak train` does."""
    store = edge_counts(24).store
    targets = store.y.clone()
    targets[::5] = torch.nan  # Processes have different numbers of known targets.
    store = replace(store, y=targets)
    if config.train.precision == "64":
        store = in_double(store)
    store = store.to(device)
    subgraphs = find_subgraphs(store, network.extractor, network.drop)
    sampler = BatchSampler(torch.arange(24), 9, 0, rank, processes)
    epoch = 0
    epochs = Epochs(lambda: epoch, STEPS)
    loader = Loader(store, sampler, subgraphs=subgraphs, padded=padded, epochs=epochs)
    for epoch in range(STEPS):  # noqa: B007 (`epochs` reads it)
        yield from loader
    loader.close()


def train(rank, config, device, processes=2, backend=None, padded=True):
    """Train; return losses, state and the operations that were fused."""
    torch.manual_seed(0)
    used = []
    info = edge_counts(24).info
    network = build_network(config, info, degrees=(0, 1, 2, 3, 4, 5))
    backend = backend or fused_everywhere(used)
    task = GraphTask(config, info, network, capture=True, backend=backend).to(device)
    task.train()
    optimizer = task.configure_optimizers()
    # With the usual eps, Adam would amplify gradients that are rounding errors only,
    # such as those of biases before a norm.
    optimizer.param_groups[0]["eps"] = 1e-3
    there = next(task.parameters()).device
    make_ready(optimizer, there, captured=True)
    precision, clip = config.train.precision, config.train.clip
    step = make_step(task.loss_of, optimizer, there, precision, clip)
    step = CapturedStep(step, make_recorder(there), optimizer.zero_grad)
    items = items_of(config, network, rank, processes, device, padded)
    losses = [float(step(item)) for item in islice(items, STEPS)]
    assert not step.gave_up, step.reason
    state = {name: value.cpu() for name, value in network.state_dict().items()}
    shapes = [buffers.replay is not None for buffers in step._buffers.values()]
    return losses, state, used, shapes


def assert_close_states(found, wanted, tolerance, model="the model"):
    for name, value in found.items():
        # The relative error of a variance is twice that of its values.
        limit = tolerance * (2 if name.endswith("running_var") else 1)
        message = partial("{}, {}: {}".format, model, name)
        torch.testing.assert_close(
            value, wanted[name], rtol=limit, atol=tolerance, msg=message
        )


def train_all(rank, configs, device):
    return [train(rank, config, device) for config in configs]


DEVICES = [
    pytest.param("cpu", marks=pytest.mark.slow),
    pytest.param("cuda", marks=[*GPU, pytest.mark.slow]),
]


@pytest.mark.parametrize("device", DEVICES)
def test_two_processes_train_as_one_on_the_fast_path(tmp_path, device):
    configs = [config_of(name, "32") for name in MODELS]
    if device == "cpu":
        configs += [config_of(name, "64") for name in MODELS + DOUBLE]
    found = results_of(train_all, tmp_path, configs, device)
    for config, here, there in zip(configs, *found, strict=True):
        tolerance = TOLERANCES[config.train.precision]
        close = {"rtol": tolerance, "atol": tolerance}
        losses, wanted, used, shapes = train(0, config, device, processes=1)
        for process in (here, there):
            assert_close_states(process[1], wanted, tolerance, config.model.name)
            assert set(process[2]) == set(used), config.model.name
            assert any(process[3]), "no step was captured"
        assert any(shapes)
        # The loss of a process is its share of the sum, times the number of processes.
        both = torch.tensor([here[0], there[0]], dtype=torch.double).mean(dim=0)
        torch.testing.assert_close(both.tolist(), losses, **close)


@pytest.mark.parametrize(
    ("device", "connection"),
    [("cpu", "gloo"), pytest.param("cuda", "nccl", marks=GPU)],
)
def test_sums_over_one_process_change_nothing(monkeypatch, device, connection):
    """NCCL cannot connect two processes on one GPU, so here is only one."""
    config = config_of("gin-ak+", "32")
    losses, wanted, *_ = train(0, config, device, processes=1)
    for module in ("gnnak.nn.norm", "gnnak.training.losses"):
        monkeypatch.setattr(f"{module}.several_processes", lambda: True)
    store = dist.HashStore()
    dist.init_process_group(connection, store=store, rank=0, world_size=1)
    try:
        found, state, *_ = train(0, config, device, processes=1)
    finally:
        dist.destroy_process_group()
    torch.testing.assert_close(found, losses, rtol=1e-5, atol=1e-5)
    assert_close_states(state, wanted, 1e-5)


def train_on_cpu(rank, config):
    """Train with the backend for CPUs; also return whether all layers were fused."""
    fused, encode = [], cpu_backend().implementations["encode"]

    def counted(*given):
        found = encode(*given)
        fused.append(found is not NotImplemented)
        return found

    backend = Backend("cpu", {"encode": counted})
    _, state, *_ = train(rank, config, "cpu", backend=backend, padded=False)
    return state, len(fused) > 0 and all(fused)


@pytest.mark.slow
def test_processes_with_few_node_copies_are_fused_on_cpus(tmp_path):
    """All processes fuse all layers, although one process would fuse none of them."""
    config = config_of("gin-ak+", "64")
    found = results_of(train_on_cpu, tmp_path, config)
    options = {"processes": 1, "backend": PLAIN, "padded": False}
    wanted = train(0, config, "cpu", **options)[1]
    for state, fused in found:
        assert fused
        torch.testing.assert_close(state, wanted, rtol=1e-10, atol=1e-10)
