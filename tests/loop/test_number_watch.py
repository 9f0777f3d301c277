"""Numbers of a model that change between steps are noticed, wherever they are."""

from argparse import Namespace
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from gnnak import uplift
from gnnak.loop.changes import NumberWatch
from tests.loop.models import Gine


@dataclass
class Options:
    p: float = 0.1
    rates: list = field(default_factory=lambda: [0.1, 0.2])


@dataclass(frozen=True)
class Frozen:
    p: float = 0.1
    rates: list = field(default_factory=lambda: [0.1, 0.2])


@dataclass(slots=True)
class Slots:
    p: float = 0.1


class Net(nn.Module):
    """A module with numbers in containers of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature, self.sizes = 1.0, (3, 4)
        self.config = {"p": 0.1, "deep": {"norm": "batch", 3: [True, None]}}
        self.rates, self.mixed = [0.1, 0.2], (torch.ones(2), {"p": 0.1})
        self.options, self.frozen, self.slots = Options(), Frozen(), Slots()
        self.args, self.space = Namespace(p=0.1), SimpleNamespace(p=0.1)
        self.tensors = [torch.ones(2), torch.zeros(2)]
        self.table = {f"word {number}": number for number in range(1000)}
        self.inside = nn.Dropout(0.5)


CHANGES = {
    "Net.temperature": lambda net: setattr(net, "temperature", 2.0),
    "Net.sizes": lambda net: setattr(net, "sizes", (3, 5)),
    "Dropout.p": lambda net: setattr(net.inside, "p", 0.1),
    "Net.config['p']": lambda net: net.config.update(p=0.2),
    "Net.config['deep']['norm']": lambda net: net.config["deep"].update(norm="layer"),
    "Net.config['deep'][3][0]": lambda net: net.config["deep"][3].reverse(),
    "Net.rates[1]": lambda net: net.rates.__setitem__(1, 0.3),
    "Net.mixed[1]['p']": lambda net: net.mixed[1].update(p=0.2),
    "Net.options.p": lambda net: setattr(net.options, "p", 0.2),
    "Net.options.rates[0]": lambda net: net.options.rates.insert(0, 0.2),
    "Net.frozen.rates[1]": lambda net: net.frozen.rates.pop(),
    "Net.slots.p": lambda net: setattr(net.slots, "p", 0.2),
    "Net.args.p": lambda net: setattr(net.args, "p", 0.2),
    "Net.space.p": lambda net: setattr(net.space, "p", 0.2),
}
REPLACED = {
    "Net.config['p']": lambda net: setattr(net, "config", {**net.config, "p": 0.2}),
    "Net.rates[0]": lambda net: setattr(net, "rates", net.rates[::-1]),
    "Net.frozen.p": lambda net: setattr(net, "frozen", replace(net.frozen, p=0.2)),
    "Net.temperature": lambda net: setattr(net, "temperature", torch.ones(2)),
    "Net.args.p": lambda net: setattr(net, "args", None),
}
UNCHANGED = {
    "nothing": lambda net: None,
    "an equal number": lambda net: setattr(net, "temperature", float("1.0")),
    "an equal config": lambda net: setattr(net, "config", {**net.config}),
    "a new entry": lambda net: net.rates.append(0.3),
    "a tensor": lambda net: net.tensors.__setitem__(0, torch.zeros(2)),
    "a large table": lambda net: net.table.clear(),
    "the mode": lambda net: net.eval(),
}


def watched() -> tuple[Net, NumberWatch]:
    net = Net()
    watch = NumberWatch(net)
    watch.remember()
    return net, watch


@pytest.mark.parametrize("changes", [CHANGES, REPLACED], ids=["changed", "replaced"])
def test_number_watch_names_the_number_that_has_changed(changes):
    for name, change in changes.items():
        net, watch = watched()
        assert watch.changed() is None
        change(net)
        assert watch.changed() == name
        watch.remember()
        assert watch.changed() is None


@pytest.mark.parametrize("change", UNCHANGED.values(), ids=UNCHANGED)
def test_number_watch_ignores_what_is_no_change_of_a_number(change):
    net, watch = watched()
    change(net)
    assert watch.changed() is None


def test_number_watch_reads_the_container_that_replaced_another_one():
    net, watch = watched()
    net.config = {**net.config}
    assert watch.changed() is None
    net.config["p"] = 0.2
    assert watch.changed() == "Net.config['p']"


def test_number_watch_ignores_entries_that_calls_change():
    net, watch = watched()
    with watch.during_call():
        net.config["p"] += 1
    net.config["p"] += 1
    assert watch.changed() is None
    net.config["deep"]["norm"] = "layer"
    assert watch.changed() == "Net.config['deep']['norm']"


def test_number_watch_notices_a_change_before_a_call_that_changes_nothing():
    net, watch = watched()
    net.config["p"] = 0.2
    with watch.during_call():
        pass
    net.config["p"] = 0.3
    assert watch.changed() == "Net.config['p']"


def test_number_watch_looks_at_a_bounded_number_of_entries():
    net = nn.Identity()
    net.tables = [list(range(200)) for _ in range(100)]
    net.tables[0].append(net.tables)
    net.p = 0.1
    watch = NumberWatch(net)
    watch.remember()
    assert len(watch._numbers) <= 301
    net.p = 0.2
    assert watch.changed() == "Identity.p"


def test_number_watch_reads_no_containers_of_pytorch_and_pyg():
    watch = NumberWatch(uplift(Gine(), num_hops=1))
    watch.remember()
    names = {place.name.split(".")[0] for place in watch._places.values()}
    assert not {name for name in names if "[" in name}
    assert {"options", "calling", "binding"} <= names


class Strict(dict):
    """A dict whose `get` raises errors."""

    def get(self, key, default=None):
        raise KeyError(key)


def test_containers_with_methods_of_their_own_are_read():
    model = nn.Linear(1, 1)
    model.options = Strict(p=0.1)
    watch = NumberWatch(model)
    watch.remember()
    assert watch.changed() is None
    model.options["p"] = 0.2
    assert watch.changed() == "Linear.options['p']"


def test_a_number_that_becomes_a_tensor_of_the_same_value_is_noticed():
    model = nn.Linear(1, 1)
    model.scale = 2.0
    watch = NumberWatch(model)
    watch.remember()
    model.scale = torch.tensor(2.0)
    assert watch.changed() == "Linear.scale"
