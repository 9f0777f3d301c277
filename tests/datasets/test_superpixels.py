import numpy as np
import pytest
import torch

from gnnak.datasets.superpixels import superpixel_edges
from gnnak.graphs import GraphStore, read_npz


def random_superpixels(sizes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(256, (sum(sizes), 5), generator=generator)
    empty = torch.zeros(len(sizes), dtype=torch.long)
    return GraphStore(torch.tensor(sizes), empty, torch.empty(2, 0).long(), x=x)


def literal(x):
    """The recipe in numpy, one graph at a time."""
    x = x.numpy() / 255
    size = len(x)
    scaled = []
    for values in (x[:, 3:], x[:, :3]):
        distance = np.linalg.norm(values[:, None] - values[None], axis=2)
        nearest = np.sort(distance, axis=1)[:, 1:9]
        scaled.append(distance / nearest.mean(axis=1, keepdims=True))
    similarity = np.exp(-(scaled[0] ** 2) - scaled[1] ** 2)
    similarity = (similarity + similarity.T) / 2
    np.fill_diagonal(similarity, -1)
    edges = set()
    for node in range(size):
        for other in np.argsort(-similarity[node], kind="stable")[:8]:
            if other != node:
                edges |= {(node, int(other)), (int(other), node)}
    return edges


def test_superpixel_edges_equal_the_recipe_graph_by_graph():
    store = random_superpixels([30, 12, 50], seed=3)
    built = superpixel_edges(store).check()
    first = 0
    for index, size in enumerate([30, 12, 50]):
        batch = built[index]
        assert set(map(tuple, batch.edge_index.t().tolist())) == literal(
            store.x[first : first + size]
        )
        first += size


def test_superpixel_edges_of_small_graphs_are_all_pairs():
    built = superpixel_edges(random_superpixels([0, 1, 2, 5])).check()
    assert built.num_edges.tolist() == [0, 0, 2, 20]


@pytest.mark.heavy
def test_superpixel_edges_of_real_images_are_as_many_as_known(data_dir):
    file = read_npz(data_dir / "cifar10-superpixels.npz", allow_no_edges=True)
    built = superpixel_edges(file.store.subset(slice(500)))
    mean = float(built.num_edges.double().mean())
    assert abs(mean - 1130) < 40
