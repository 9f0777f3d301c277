"""Loaders that were pickled or copied: before, after and in the middle of an epoch."""

import copy
import pickle
from collections.abc import Iterable

import pytest
from torch_geometric.data import Batch

from gnnak import Budget, EgoNets, GraphLoader, RandomWalks, SubgraphDrop
from gnnak.loading.forms import PaddedForm, padded_form
from tests.loading.test_pickled_batches import saved_and_loaded
from tests.loading.test_prefetch import ended
from tests.loop.models import molecules

GRAPHS = molecules(7)
for number, each in enumerate(GRAPHS):
    each.number = number
WAYS = {
    "pickle": lambda loader: pickle.loads(pickle.dumps(loader)),
    "torch.save": saved_and_loaded,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}
LOADERS = {
    "plain": {},
    "budget": {"batch_size": Budget(nodes=12)},
    "padded": {"subgraphs": EgoNets(1), "pad": True},
    "drop": {"subgraphs": EgoNets(1), "drop": SubgraphDrop("random", 1)},
    "walks": {"subgraphs": RandomWalks(3, 2)},
}
MOMENTS = ["before", "middle", "break", "last", "after"]


def with_slow(cases: Iterable[str], *slow: str) -> list:
    """Return cases to parametrise a test, some of them for the slow tests."""
    marked = {name: pytest.param(name, marks=pytest.mark.slow) for name in slow}
    return [marked.get(name, name) for name in cases]


def build(kind: str) -> GraphLoader:
    return GraphLoader(GRAPHS, **{"batch_size": 2, "shuffle": True, **LOADERS[kind]})


def shown(batch: Batch) -> tuple:
    subgraphs = batch.get("subgraphs")
    nodes = None if subgraphs is None else subgraphs.node.tolist()
    return batch.number.tolist(), nodes


@pytest.fixture(params=["plain", "threads"])
def used(request):
    """All streams used so far; with threads, windows are prefetched as on a GPU."""
    return request.getfixturevalue("streams") if request.param == "threads" else []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("way", with_slow(WAYS, "torch.save"))
@pytest.mark.parametrize("kind", with_slow(LOADERS, "budget", "walks"))
def test_a_copied_loader_continues_as_its_state_says(kind, way, moment, used):
    loader, other = build(kind), build(kind)
    count, batches = len(loader), iter(loader)
    taken = {"before": 0, "middle": 2, "break": 2, "last": count}
    for _ in range(taken.get(moment, 0)):
        next(batches)
    if moment == "after":
        assert len([*batches]) == count
    if moment == "break":
        batches.close()
    state = loader.state_dict()
    copied = WAYS[way](loader)
    assert copied.state_dict() == state
    assert repr(copied) == repr(loader)
    rest = [shown(batch) for batch in batches]
    other.load_state_dict(state)
    for epoch in range(2):
        found = [shown(batch) for batch in copied]
        assert found == [shown(batch) for batch in other]
        if moment == "middle" and not epoch:
            assert found == rest
    assert copied.state_dict() == other.state_dict()


@pytest.mark.parametrize("way", WAYS)
def test_a_copied_loader_does_not_change_the_first_one(way, used):
    loader, other = build("drop"), build("drop")
    batches, wanted = iter(loader), iter(other)
    assert shown(next(batches)) == shown(next(wanted))
    copied = WAYS[way](loader)
    state = loader.state_dict()
    assert len([*copied]) == 3
    assert loader.state_dict() == state
    del copied
    assert [shown(b) for b in batches] == [shown(b) for b in wanted]
    assert [shown(b) for b in loader] == [shown(b) for b in other]


@pytest.mark.parametrize("way", WAYS)
def test_a_copied_loader_ends_its_threads(way, used):
    loader = build("drop")
    copied = WAYS[way](loader)
    assert len([*copied]) == 4
    count = len(used)
    del copied
    assert all(ended(thread) for stream in used for thread in stream.threads)
    assert len([*loader]) == 4
    assert len(used) == 2 * count


@pytest.mark.parametrize("way", WAYS)
def test_a_copied_loader_pads_its_batches(way):
    loader = build("padded")
    assert len([*loader]) == 4
    for batch in WAYS[way](loader):
        if batch.num_graphs == 2:
            assert isinstance(padded_form(batch), PaddedForm)
