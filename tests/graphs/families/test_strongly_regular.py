import pytest

from gnnak.graphs import read_graph6
from gnnak.graphs.families import is_strongly_regular, srg16, srg25, srg26, srg28
from gnnak.wl import partition
from gnnak.wl.families import classes

SRG = {
    srg16: (2, 6, 2, 2),
    srg25: (15, 12, 5, 6),
    srg26: (10, 10, 3, 4),
    srg28: (4, 12, 6, 4),
}


@pytest.mark.parametrize("build", SRG, ids=lambda build: build.__name__)
def test_strongly_regular_families_are_complete_and_pairwise_unlike(build):
    count, *parameters = SRG[build]
    graphs = build()
    assert len(graphs) == count
    assert partition("subgraph-1-wl", graphs) == list(range(count))
    assert all(is_strongly_regular(graph, *parameters) for graph in graphs)


@pytest.mark.slow
def test_srg25_are_the_graphs_of_the_data_set(data_dir):
    path = data_dir / "sr25.g6"
    if not path.exists():
        pytest.skip("needs sr25.g6 in GNNAK_DATA")
    store = read_graph6(path)
    ends = store.edge_index.split(store.num_edges.tolist(), dim=1)
    known = [(edge_index, 25) for edge_index in ends]
    found = classes([*srg25(), *known])
    assert sorted(found[:15]) == sorted(found[15:])
    assert len(set(found)) == 15
