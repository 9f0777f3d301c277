"""Networks with further encodings of pairs (root, node) against plain PyTorch."""

import pytest

from gnnak.optional import interprets_triton
from tests.fast.backends import assert_fused_equals_plain, num_fused_layers
from tests.models.zoo import molecule_batch, small_network


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("pairs", [("distance", "rrwp"), ("distance-counts",)])
@pytest.mark.parametrize("name", ["gin-ak+", "gcn-ak+", "pna*-ak+", "gin-ak+-s"])
def test_networks_with_pairs_match_plain(fused_operations, name, pairs, training):
    """Only the base GNNs are fused, since gates are no tables with a row per hop."""
    if interprets_triton() and (name, training) != ("gin-ak+", True):
        pytest.skip("Triton's interpreter is slow; plain PyTorch runs all networks")
    network = small_network(name, base_layers=2, pairs=pairs).train(training)
    assert_fused_equals_plain(network, molecule_batch(), close=1e-9, seed=0)
    assert fused_operations.count("embed") == 2
    assert num_fused_layers(fused_operations) == 0
