import torch
from torch_geometric import nn as pyg

from gnnak import EgoNets, RandomWalks, uplift
from gnnak.sampling.shared import SharedSubgraphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_shared_subgraphs_take_tensors_of_inference_mode():
    net = uplift(pyg.GCN(4, 4, 2), num_hops=1).eval()
    with torch.inference_mode():
        x, edge_index = torch.rand(3, 4), PATH.clone()
        assert net(x, edge_index).shape == (3, 4)


def test_shared_subgraphs_keep_egonets_from_training_to_evaluation():
    shared = SharedSubgraphs(EgoNets(1))
    first = shared.get(PATH, 3, training=True)
    assert shared.get(PATH, 3, training=False) is first


def test_shared_subgraphs_do_not_evaluate_on_walks_drawn_in_training():
    clique = torch.combinations(torch.arange(9)).t()
    clique = torch.cat([clique, clique.flip(0)], dim=1)
    shared = SharedSubgraphs(RandomWalks(length=2, repeats=1))
    fixed = shared.get(clique, 9, training=False).node.tolist()
    shared.forget()
    drawn = shared.get(clique, 9, training=True).node.tolist()
    assert drawn != fixed
    assert shared.get(clique, 9, training=False).node.tolist() == fixed
