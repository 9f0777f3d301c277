import pytest
import torch
from torch_geometric.data import Batch
from torch_geometric.transforms import RootedEgoNets

from gnnak.errors import SubgraphError
from gnnak.subgraphs import EgoNets, egonets, rooted_from_pyg
from gnnak.subgraphs.attached import same_extractor
from gnnak.subgraphs.rooted import TENSORS
from gnnak.testing import small_graphs


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("num_hops", [1, 2])
def test_rooted_from_pyg_equals_our_egonets(num_hops):
    graphs = [g for name, g in small_graphs(edge_channels=2).items()]
    symmetric = [g for g in graphs if g.num_nodes and g.is_undirected()]
    transform = RootedEgoNets(num_hops)
    batch = Batch.from_data_list([transform(g) for g in symmetric])
    theirs = rooted_from_pyg(batch).check(batch.edge_index, batch.num_nodes)
    ours = egonets(batch.edge_index, batch.num_nodes, num_hops)
    for name in TENSORS:
        assert torch.equal(getattr(theirs, name), getattr(ours, name)), name


def test_rooted_from_pyg_rejects_plain_data():
    with pytest.raises(SubgraphError, match="apply PyG's RootedEgoNets first"):
        rooted_from_pyg(small_graphs()["path"])


class Roots(EgoNets):
    """An extractor that is not an `EgoNets`, although it is derived from it."""

    def __call__(self, *args, **options):
        return EgoNets(0)(*args, **options)


def test_a_subclass_of_an_extractor_is_another_extractor():
    assert not same_extractor(EgoNets(2), Roots(2))
    assert not same_extractor(Roots(2), EgoNets(2))
