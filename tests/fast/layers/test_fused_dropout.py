"""Fused layers with dropout against plain PyTorch, with the same masks."""

from itertools import count

import pytest
import torch

from gnnak import LayerOptions
from gnnak.typing import LAYER_PAIRS
from tests.fast.backends import assert_fused_equals_plain, num_fused_layers, outcome
from tests.fast.kernels.kernel_inputs import assert_same
from tests.fast.layers.fused_layers import (
    assert_padding_is_ignored,
    inputs,
    make_layer,
    random_graph,
)


@pytest.fixture
def masks(monkeypatch):
    """Derive masks from the number of the call; return a function that counts anew."""
    calls = [count(1)]

    def dropout(values, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return values
        row, column = (torch.arange(size).double() for size in values.shape)
        phase = (12.9898 * row[:, None] + 78.233 * column).add(next(calls[0])).sin()
        random = (43758.5453 * phase).remainder(1)
        return values * (random >= p) / (1 - p)

    monkeypatch.setattr("torch.nn.functional.dropout", dropout)

    def restart():
        calls[0] = count(1)

    return restart


@pytest.mark.parametrize(
    ("base", "layer"), [(0.4, 0.0), (0.0, 0.4), (0.2, 0.6), (0.6, 0.2)]
)
@pytest.mark.parametrize("mlp_layers", [1, 2])
@pytest.mark.parametrize("convs", [1, 2])
def test_dropout_matches_plain(fused_operations, masks, base, layer, mlp_layers, convs):
    options = LayerOptions(mlp_layers=mlp_layers, gate_centroid=True, dropout=layer)
    module = make_layer(convs=convs, dropout=base, options=options)
    given, found = inputs(*random_graph()), []
    for fused in (True, False):
        masks()
        found.append(outcome(module, *given, fused=fused))
    assert_same(*found)
    assert num_fused_layers(fused_operations) == 1


@pytest.mark.parametrize("mlp_layers", [1, 2])
def test_dropout_with_pairs_matches_plain(fused_operations, masks, mlp_layers):
    options = LayerOptions(mlp_layers=mlp_layers, gate_centroid=True, dropout=0.4)
    module = make_layer(dropout=0.2, options=options, pairs=LAYER_PAIRS)
    given, found = inputs(*random_graph()), []
    for fused in (True, False):
        masks()
        found.append(outcome(module, *given, fused=fused))
    assert_same(*found)
    assert num_fused_layers(fused_operations) == 1


def test_fused_dropout_is_off_in_evaluation(fused_operations, masks):
    options = LayerOptions(mlp_layers=1, dropout=0.5)
    module = make_layer(dropout=0.5, options=options).eval()
    assert_fused_equals_plain(module, *inputs(*random_graph()), close=1e-9)


@pytest.mark.parametrize("name", ["gin-ak+", "gin-ak+-s"])
def test_fused_dropout_ignores_padding(masks, name):
    assert_padding_is_ignored(name, before=masks, dropout=0.3, base_layers=2)
