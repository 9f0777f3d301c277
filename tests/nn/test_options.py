from dataclasses import fields

import pytest
import torch
from torch_geometric.nn import GCNConv

from gnnak import GNNAK, PAPER, PUBLISHED, EgoNets, LayerOptions
from gnnak.errors import OptionError
from gnnak.models import ModelOptions
from gnnak.nn.options import LayerChanges
from gnnak.testing import small_graphs


def test_layer_options_of_the_paper_are_none():
    assert LayerOptions(mlp_layers=0, gate_centroid=False, dropout=0.0) == PAPER
    assert LayerOptions(mlp_layers=1, gate_centroid=True, dropout=0.0) == PUBLISHED


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"mlp_layers": -1}, "mlp_layers is -1; give a whole number"),
        ({"mlp_layers": 1.5}, "mlp_layers is 1.5; give a whole number"),
        ({"dropout": 1.0}, "dropout is 1.0; give a number with 0 <= dropout < 1"),
        ({"dropout": -0.1}, "dropout is -0.1; give a number"),
        ({"dropout": "half"}, "dropout is 'half'; give a number"),
        ({"dropout": float("nan")}, "dropout is nan; give a number"),
    ],
)
def test_layer_options_answers_a_wrong_option_in_a_sentence(options, wanted):
    with pytest.raises(OptionError, match=wanted):
        LayerOptions(**options)


def test_layer_options_dropout_is_passed_on_to_the_fuse():
    data = small_graphs(4, dtype=torch.float)["star"]
    subgraphs = EgoNets(1)(data.edge_index, data.num_nodes)
    layer_options = LayerOptions(dropout=0.999999)
    layer = GNNAK(GCNConv(4, 4), 4, 4, hop="add", options=layer_options)
    assert not layer(data.x, subgraphs).any()
    assert layer.eval()(data.x, subgraphs).any()


def test_layer_changes_names_every_option():
    names = {field.name for field in fields(LayerOptions)}
    assert LayerChanges.__annotations__.keys() == names
    assert names < {field.name for field in fields(ModelOptions)}


def test_a_single_option_may_be_given_by_name_and_a_wrong_one_is_named():
    layer = GNNAK(GCNConv(4, 4), 4, 4, hop_channels=0, options=PUBLISHED)
    assert layer.options == PUBLISHED.changed(hop_channels=0)
    with pytest.raises(OptionError, match="no option 'reduse'; did you mean 'reduce'"):
        GNNAK(GCNConv(4, 4), 4, 4, reduse="mean")
