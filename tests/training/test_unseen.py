import torch

from gnnak.graphs import GraphStore
from gnnak.models import ModelOptions, build_model
from gnnak.nn.features import Categorical
from gnnak.training.run import fill_unseen


def test_fill_unseen_sets_the_mean_of_the_training_rows():
    options = ModelOptions(num_layers=2, channels=4)
    network = build_model("gin-ak+", Categorical((3, 2)), Categorical((3,)), 1, options)
    before = network.encoder.tables.weight.detach().clone()
    store = GraphStore(
        torch.tensor([3, 1]),
        torch.tensor([1, 0]),
        torch.tensor([[0], [1]]),
        torch.tensor([[0, 1], [0, 1], [1, 1], [2, 0]]),
        torch.tensor([[1]]),
    )
    fill_unseen(network, store, torch.tensor([0]))
    after = network.encoder.tables.weight.detach()
    mean = (2 * before[0] + before[1]) / 3
    assert torch.equal(after[:2], before[:2])
    torch.testing.assert_close(after[2], mean)
    torch.testing.assert_close(after[3], before[4])
    for layer in network.layers:
        table = layer.kernels[0].edge_encoder.tables.weight
        assert torch.equal(table[0], table[1])
        assert torch.equal(table[2], table[1])
