"""Which models with random weights, in float64, distinguish which graphs."""

import pytest
import torch

from gnnak.graphs.named import four_regular_pair, rook, shrikhande
from gnnak.models import ModelOptions, build_model
from gnnak.nn import Categorical
from gnnak.subgraphs import EgoNets

PAIRS = {"4-regular": four_regular_pair(), "rook, Shrikhande": (rook(), shrikhande())}


def difference(model: str, pair: str, num_hops: int = 1, seed: int = 0) -> float:
    """Return the largest relative difference of the two graphs' embeddings."""
    torch.manual_seed(seed)
    options = ModelOptions(
        num_layers=2, base_layers=2, channels=16, subgraphs=EgoNets(num_hops)
    )
    net = build_model(model, Categorical((1,)), None, 8, options).double().eval()
    net.requires_grad_(False)
    first, second = (
        net(torch.zeros(num_nodes, 1, dtype=torch.long), edge_index)
        for edge_index, num_nodes in PAIRS[pair]
    )
    return float((first - second).abs().max() / first.abs().max())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", ["gin-ak", "gin-ak+"])
def test_gin_ak_distinguishes_the_regular_pair(model, seed):
    assert difference(model, "4-regular", seed=seed) > 1e-6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", ["gin", "gcn", "pna*", "sage", "gat"])
def test_message_passing_does_not_distinguish_the_regular_pair(model, seed):
    assert difference(model, "4-regular", seed=seed) < 1e-11


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", ["ppgn-ak", "ppgn-ak+"])
def test_ppgn_ak_distinguishes_rook_and_shrikhande(model, seed):
    assert difference(model, "rook, Shrikhande", seed=seed) > 1e-6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", ["gin", "gin-ak", "gin-ak+", "ppgn"])
def test_models_bounded_by_3wl_do_not_distinguish_rook_and_shrikhande(model, seed):
    assert difference(model, "rook, Shrikhande", seed=seed) < 1e-11
