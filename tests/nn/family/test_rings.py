import pytest
import torch

from gnnak.loading.padder import Shapes
from gnnak.loading.splitting import split, split_padded
from gnnak.loading.windows import make_window
from gnnak.nn.family.khop import find_rings
from gnnak.subgraphs import EgoNets, WholeGraphs
from gnnak.subgraphs.cached import cache_subgraphs
from tests.training.small import triangles

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_rings_of_a_path_by_hand():
    """Root 0 has the rings {0}, {1}, {2}; root 1 has {1}, {0, 2}; root 2 as root 0."""
    rings = find_rings(EgoNets(2)(PATH, 3), 2)
    assert [ring.tolist() for ring in rings.node] == [[0, 1, 2], [1, 0, 2, 1], [2, 0]]
    assert rings.num_rows == (None, None, None)
    edges = {key: ends.t().tolist() for key, ends in rings.edges.items()}
    assert edges[1, 0] == [[0, 0], [1, 1], [2, 1], [3, 2]]
    assert edges[2, 1] == [[0, 0], [1, 3]]
    assert edges[1, 1] == edges[2, 2] == []


@pytest.mark.parametrize("extractor", [EgoNets(2), WholeGraphs()], ids=str)
def test_padded_rings_are_the_rings_with_padding_after_them(extractor):
    """Nodes of whole graphs that are too far from the root are in no ring."""
    store = triangles(4).store
    subgraphs = cache_subgraphs(store, extractor)[:6]
    window = make_window(store[:6], subgraphs, [3, 3])
    shapes = Shapes().of(window, 2, 2)
    items = zip(split(window), split_padded(window, shapes), strict=True)
    for plain, padded in items:
        exact, found = (find_rings(each.subgraphs, 2) for each in (plain, padded))
        for node, wanted, count in zip(
            found.node, exact.node, found.num_rows, strict=True
        ):
            assert int(count) == wanted.numel() < node.numel()
            assert torch.equal(node[: wanted.numel()], wanted)
        for (source, target), ends in found.edges.items():
            rows = torch.stack([found.num_rows[source], found.num_rows[target]])
            real = (ends < rows[:, None]).all(dim=0)
            assert ((ends >= rows[:, None]).all(dim=0) | real).all()
            assert torch.equal(ends[:, real], exact.edges[source, target])
            assert ends[0].max() < found.node[source].numel()
            assert ends[1].max() < found.node[target].numel()
