import pytest
import torch
from torch_geometric.data import Batch

from gnnak.errors import SizeError
from gnnak.subgraphs import EgoNets, WholeGraphs, resistance, root_mark, rrwp
from gnnak.subgraphs.encodings import closed_walks, short_distance
from gnnak.testing import small_graphs

GRAPHS = small_graphs()
PATH = GRAPHS["path"].edge_index


def matrix_of(data):
    """The adjacency matrix: entry (v, u) counts the edges u -> v."""
    found = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.double)
    for source, target in data.edge_index.t().tolist():
        found[target, source] += 1
    return found


def test_root_mark_and_short_distance_by_hand():
    subgraphs = WholeGraphs(max_hops=2)(GRAPHS["two components"].edge_index, 5)
    first = slice(0, 5)
    assert root_mark(subgraphs)[first].tolist() == [1, 0, 0, 0, 0]
    assert short_distance(subgraphs, 2)[first].tolist() == [0, 1, 2, 2, 2]
    assert short_distance(subgraphs, 4)[first].tolist() == [0, 1, 4, 4, 4]


@pytest.mark.parametrize("extractor", [EgoNets(1), WholeGraphs()], ids=str)
@pytest.mark.parametrize("name", GRAPHS)
def test_rrwp_and_closed_walks_are_powers_of_dense_matrices(name, extractor):
    data = GRAPHS[name]
    subgraphs = extractor(data.edge_index, data.num_nodes)
    dense = matrix_of(data)
    walk = dense / dense.sum(dim=1, keepdim=True).clamp(min=1)
    powers = [torch.linalg.matrix_power(walk, k) for k in range(5)]
    wanted = torch.stack(powers, dim=2)[subgraphs.subgraph, subgraphs.node]
    found = rrwp(subgraphs, data.edge_index, num_steps=4)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    looped = dense + torch.eye(data.num_nodes, dtype=torch.double)
    scale = torch.diag(looped.sum(dim=1) ** -0.5)
    normal = scale @ looped @ scale
    closed = [torch.linalg.matrix_power(normal, k).diagonal() for k in (1, 2, 3)]
    found = closed_walks(subgraphs, data.edge_index, num_steps=3)
    torch.testing.assert_close(found, torch.stack(closed, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", GRAPHS)
def test_resistance_is_that_of_the_pseudoinverse(name):
    data = GRAPHS[name]
    subgraphs = WholeGraphs()(data.edge_index, data.num_nodes)
    dense = matrix_of(data)
    dense = (dense + dense.t()) / 2
    inverse = torch.linalg.pinv(torch.diag(dense.sum(dim=1)) - dense)
    own = inverse.diagonal()
    wanted = own[:, None] + own[None, :] - 2 * inverse
    reached = torch.linalg.matrix_power(dense + torch.eye(len(dense)).double(), 9) > 0
    wanted = torch.where(reached, wanted, -1.0).flatten()
    found = resistance(subgraphs, data.edge_index)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_resistance_of_a_path_is_its_length():
    subgraphs = WholeGraphs()(PATH, 3)
    found = resistance(subgraphs, PATH).reshape(3, 3)
    wanted = torch.tensor([[0, 1, 2], [1, 0, 1], [2, 1, 0]]).double()
    torch.testing.assert_close(found, wanted)


def test_encodings_of_a_batch_are_those_of_its_graphs():
    graphs = list(GRAPHS.values())
    whole = Batch.from_data_list(graphs)
    subgraphs = EgoNets(2)(whole.edge_index, whole.num_nodes)
    for encode in (rrwp, resistance, closed_walks):
        alone = [
            encode(EgoNets(2)(data.edge_index, data.num_nodes), data.edge_index)
            for data in graphs
        ]
        found = encode(subgraphs, whole.edge_index, whole.batch)
        torch.testing.assert_close(found, torch.cat(alone))


def test_resistance_of_many_graphs_is_that_of_smaller_groups(monkeypatch):
    whole = Batch.from_data_list([*GRAPHS.values(), *GRAPHS.values()])
    given = (whole.edge_index, whole.num_nodes)
    wanted = resistance(EgoNets(2)(*given), whole.edge_index, whole.batch)
    for entries in (1, 40):  # one or a few Laplacians at a time
        monkeypatch.setattr("gnnak.subgraphs.encodings.CHUNK_ENTRIES", entries)
        found = resistance(EgoNets(2)(*given), whole.edge_index, whole.batch)
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("encode", "sentence"),
    [
        (resistance, "distances of a graph with 60,000 nodes take 144.0 GB, more than"),
        (rrwp, "from every node of 60,000 nodes, .* take 864.0 GB, more than the 1.0"),
        (closed_walks, "more than the 1.0 GB of free memory; leave out the encoding"),
    ],
    ids=["resistance", "rrwp", "closed walks"],
)
def test_encodings_of_a_large_graph_are_refused_before_memory_is_spent(
    encode, sentence, monkeypatch
):
    monkeypatch.setattr("gnnak.subgraphs.copy_limit.free_bytes", lambda _: 10**9)
    ends = torch.arange(60_000)
    forth = torch.stack([ends[:-1], ends[1:]])
    path = torch.cat([forth, forth.flip(0)], dim=1)
    with pytest.raises(SizeError, match=sentence):
        encode(EgoNets(1)(path, 60_000), path)


def test_rrwp_of_many_pairs_is_refused_before_memory_is_spent(monkeypatch):
    monkeypatch.setattr("gnnak.subgraphs.copy_limit.UNCHECKED_BYTES", 0)
    monkeypatch.setattr("gnnak.subgraphs.copy_limit.free_bytes", lambda _: 5000)
    with pytest.raises(SizeError, match="walks of 99 steps between 9 node pairs"):
        rrwp(WholeGraphs()(PATH, 3), PATH, num_steps=99)
