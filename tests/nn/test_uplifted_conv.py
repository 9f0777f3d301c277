import warnings
from dataclasses import replace

import networkx as nx
import pytest
import torch
from torch import nn
from torch_geometric.nn import GINConv

import gnnak
from gnnak.graphs.real import RealCounts
from gnnak.nn.uplifted_conv import GrowthWatch

GRAPH = nx.barabasi_albert_graph(60, 4, seed=0)
EDGES = torch.tensor(list(GRAPH.edges)).t()
EDGES = torch.cat([EDGES, EDGES.flip(0)], dim=1)


class Net(nn.Module):
    """Three convs, with or without norms."""

    def __init__(self, norm=False):
        super().__init__()
        torch.manual_seed(0)
        self.convs = nn.ModuleList(GINConv(nn.Linear(8, 8)) for _ in range(3))
        self.norms = nn.ModuleList(
            nn.BatchNorm1d(8) if norm else nn.Identity() for _ in range(3)
        )
        self.head = nn.Linear(8, 1)

    def forward(self, x, edge_index):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = norm(conv(x, edge_index)).relu()
        return self.head(x)


def states():
    return torch.rand(60, 8, generator=torch.Generator().manual_seed(0))


def test_states_that_blow_up_are_reported_once_with_what_to_set():
    model = gnnak.uplift(Net(), 3)
    with pytest.warns(UserWarning, match="Set reduce='mean' in gnnak.uplift") as caught:
        model(states(), EDGES)
    (found,) = caught
    assert "3 uplifted convs multiply the size of node states by" in str(found.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(states(), EDGES)


@pytest.mark.parametrize(
    ("norm", "options", "training"),
    [(False, {"reduce": "mean"}, True), (True, {}, True), (False, {}, False)],
    ids=["mean", "norm", "evaluation"],
)
def test_states_that_stay_small_are_not_reported(norm, options, training):
    model = gnnak.uplift(Net(norm), 3, **options).train(training)
    for _ in range(4):
        assert model(states(), EDGES).isfinite().all()


def test_padded_batches_are_not_measured():
    watch, subgraphs = GrowthWatch(), gnnak.EgoNets(1)(torch.zeros(2, 0).long(), 2)
    layer = gnnak.GNNAK(GINConv(nn.Linear(2, 2)), 2, 2, hop_channels=0)
    real = RealCounts(torch.tensor([1, 1, 0, 1, 1, 0]))
    for given, measured in ((subgraphs, 1), (replace(subgraphs, real=real), 1)):
        watch.see("conv", layer, torch.ones(2, 2), torch.ones(2, 2), given)
        assert len(watch._sizes) == measured
