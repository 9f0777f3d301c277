"""What a captured step of a subgraph GNN must not do, and what its encodings are."""

from itertools import chain

import pytest
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode

from gnnak.fast.step.captured import CapturedStep
from gnnak.loading.forms import padded_form
from gnnak.loading.graph_loader import GraphLoader
from gnnak.loading.items import like, tensors_of
from gnnak.loading.padder import Shapes
from gnnak.loading.windows import make_window, split, split_padded
from gnnak.loop.step import make_ready, make_step
from gnnak.models.members import MEMBERS
from gnnak.subgraphs.cached import cache_subgraphs
from gnnak.subgraphs.encodings import without_encodings
from gnnak.training.data import in_double
from gnnak.training.module import GraphTask, build_network
from tests.fast.recorders import make_recorder
from tests.gpu import needs_gpu
from tests.training.small import edge_counts, small_config

READS = {
    **{f"{name}-gin": None for name in MEMBERS},
    "ds-gin": ["mark", "distance", "rrwp", "resistance"],
    "gin-ak+": ["distance", "rrwp", "resistance", "distance-counts"],
    "gcn-ak+": ["distance-counts"],
}
"""The models, with the option `pairs` if it is not the default."""
COMPUTES = ("nested-gin", "ds-gin", "id-fast-gin", "gin-ak+", "gcn-ak+")
"""Models with encodings that synchronise if the forward pass computes them."""
SUMS = ("sswl+-gin", "l2fgnn-gin")
"""Models with layers that are fused as a whole, in training."""

SLOW = ("khop-gin", "sun-gin")


class HostCopies(TorchDispatchMode):
    """Count the tensors that are made from numbers of the host."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.lift_fresh.default
        return func(*args, **(kwargs or {}))


def config_of(model, **options):
    if READS[model] is not None:
        section = "model" if model.endswith("-ak+") else "model__family"
        options[f"{section}__pairs"] = READS[model]
    return small_config(
        data__name="edges", model__name=model, model__subgraphs__num_hops=3, **options
    )


def network_of(model):
    torch.manual_seed(0)
    data = edge_counts(8)
    network = build_network(config_of(model), data.info)
    return network.double().train(), data.store


def items_of(network, store, encoded=True):
    """A batch without and with padding, as a loader assembles them."""
    extractor = network.extractor
    if not encoded:
        extractor = without_encodings(extractor)
    positions = torch.arange(6)
    subgraphs = cache_subgraphs(store, extractor)[positions]
    window = make_window(store[positions], subgraphs, [6])
    (plain,), (padded,) = (
        split(window),
        split_padded(window, Shapes().of(window, 1, 1)),
    )
    return plain, padded


def run_fake(network, item):
    """Run both passes on tensors without values; return the host's copies."""
    with FakeTensorMode() as mode, HostCopies() as copies:
        state = {
            name: mode.from_tensor(value).requires_grad_(value.requires_grad)
            for name, value in chain(
                network.named_parameters(), network.named_buffers()
            )
        }
        item = like(item, [mode.from_tensor(tensor) for tensor in tensors_of(item)])
        given = {"subgraphs": item.subgraphs}
        out = functional_call(network, state, (item.batch,), given)
        out.sum().backward()
    assert out.shape[0] == item.shape.graphs
    return copies.count


@pytest.fixture
def no_checks(monkeypatch):
    """Leave out the checks of a batch that run on the CPU only."""
    range_check = "gnnak.nn.features.CategoricalEncoder._check_range"
    monkeypatch.setattr(range_check, lambda *_: None)
    monkeypatch.setattr("gnnak.models.network._check_graph", lambda *_: None)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(model, marks=pytest.mark.heavy if model in SLOW else ())
        for model in READS
    ],
)
def test_passes_of_subgraph_gnns_do_not_synchronise(model, no_checks):
    network, store = network_of(model)
    _, padded = items_of(network, store)
    assert run_fake(network, padded) == 0
    with FakeTensorMode(), HostCopies() as copies:
        torch.tensor([1])
    assert copies.count == 1


@pytest.mark.parametrize("model", COMPUTES)
def test_passes_that_compute_encodings_synchronise(model, no_checks):
    """Without the encodings, so that the test above would notice."""
    network, store = network_of(model)
    _, padded = items_of(network, store, encoded=False)
    unknown = (DataDependentOutputException, DynamicOutputShapeException)
    with pytest.raises(unknown):
        run_fake(network, padded)


@pytest.mark.parametrize("model", [*COMPUTES, "khop-gin"])
def test_outputs_do_not_depend_on_where_encodings_are_computed(model):
    """Before the step, with and without padding, or in the forward pass."""
    network, store = network_of(model)
    plain, padded = items_of(network, store)
    bare, bare_padded = items_of(network, store, encoded=False)
    weights, count = list(network.parameters()), plain.batch.num_graphs

    def passes(*given, **subgraphs):
        """The outputs of the real graphs, and the gradients of the weights."""
        out = network(*given, **subgraphs)[:count]
        return out, *torch.autograd.grad(out.sin().sum(), weights)

    wanted = passes(plain.batch)
    assert all(value.isfinite().all() for value in wanted)
    for item in (plain, padded, bare, bare_padded):
        found = passes(item.batch, subgraphs=item.subgraphs)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def trained(model, captured, device, precision):
    """The losses of a few epochs on padded batches of a loader."""
    torch.manual_seed(0)
    config, data = config_of(model, train__precision=precision), edge_counts(24)
    task = GraphTask(config, data.info, build_network(config, data.info), capture=True)
    task, there = task.to(device).train(), torch.device(device)
    optimizer = task.configure_optimizers()
    make_ready(optimizer, there, captured=True)
    told = config.train.precision, config.train.clip
    step = make_step(task.loss_of, optimizer, there, *told)
    if captured:
        step = CapturedStep(step, make_recorder(there), optimizer.zero_grad)
    store = in_double(data.store) if precision == "64" else data.store
    extractor = task.network.extractor
    loader = GraphLoader(store, 4, True, device=device, subgraphs=extractor, pad=True)
    found = [step(padded_form(batch).item) for _ in range(4) for batch in loader]
    if captured:
        assert not step.gave_up, step.reason
        assert any(each.replay is not None for each in step._buffers.values())
    return torch.stack(found).cpu()


@pytest.mark.heavy
@pytest.mark.parametrize(
    "model", [*COMPUTES, pytest.param("khop-gin", marks=pytest.mark.slow)]
)
def test_steps_that_read_buffers_equal_steps_on_each_batch(model):
    found, wanted = (trained(model, each, "cpu", "64") for each in (True, False))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@needs_gpu
@pytest.mark.parametrize("precision", ["32", "64"])
@pytest.mark.parametrize("model", [*COMPUTES, *SUMS, "khop-gin"])
def test_captured_steps_equal_steps_on_each_batch(model, precision):
    found, wanted = (trained(model, each, "cuda", precision) for each in (True, False))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
