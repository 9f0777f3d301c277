"""Attributes of a `GraphLoader` that cannot be changed after it is built."""

import pytest
import torch
from torch_geometric.data import Data

from gnnak import EgoNets, GraphLoader
from gnnak.errors import OptionError

NONE = torch.zeros(2, 0, dtype=torch.long)
GRAPHS = [Data(x=torch.rand(n, 1), edge_index=NONE, number=n) for n in range(1, 8)]
OTHER = {
    "graphs": GRAPHS[:3],
    "batch_size": 3,
    "shuffle": False,
    "device": "cpu",
    "subgraphs": EgoNets(1),
    "drop": None,
    "seed": 5,
    "pad": True,
    "drop_last": True,
    "multithreaded_backward": True,
    "dataset": GRAPHS[:3],
    "padded": True,
}
"""Other values of all arguments and attributes, by name."""


@pytest.mark.parametrize("name", OTHER)
def test_an_argument_of_a_built_loader_cannot_be_changed(name):
    loader = GraphLoader(GRAPHS, 2, shuffle=True)
    state, text = loader.state_dict(), repr(loader)
    with pytest.raises(
        OptionError, match=f"^{name} of a GraphLoader cannot be changed; build another "
    ):
        setattr(loader, name, OTHER[name])
    assert loader.state_dict() == state
    assert repr(loader) == text


def test_the_epoch_of_a_built_loader_can_be_changed():
    loader = GraphLoader(GRAPHS, 2, shuffle=True)
    loader.epoch = 3
    loader.note = "attributes of the user are allowed"
    assert loader.state_dict()["epoch"] == 3


def test_a_loader_has_the_attributes_of_its_arguments():
    loader = GraphLoader(GRAPHS, 2, shuffle=True, seed=5, drop_last=True)
    assert (loader.dataset, loader.batch_size) == (GRAPHS, 2)
    assert (loader.shuffle, loader.seed, loader.drop_last) == (True, 5, True)
    assert (loader.subgraphs, loader.drop, loader.padded) == (None, None, False)
