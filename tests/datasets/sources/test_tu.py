import pytest

from gnnak.datasets import load_dataset
from gnnak.datasets.sources.published import fetch_tu
from gnnak.errors import FileFormatError
from tests.datasets.sources.internet import zipped

MUTAG = {
    "A": "1, 2\n2, 1\n2, 1\n3, 3\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "3\n4\n5\n3\n3\n6\n",
    "edge_labels": "0\n0\n0\n0\n0\n0\n",
}


def archive(title, parts):
    return zipped({f"{title}/{title}_{part}.txt": text for part, text in parts.items()})


def test_tu_by_hand(internet, tmp_path):
    internet.contents["MUTAG.zip"] = archive("MUTAG", MUTAG)
    store = fetch_tu("mutag", tmp_path).store
    assert store.num_nodes.tolist() == [3, 3]
    assert store.num_edges.tolist() == [2, 2]
    assert store.edge_index.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert store.x.tolist() == [[0], [1], [2], [0], [0], [3]]
    assert store.y.tolist() == [0, 1]
    assert store.edge_attr is None


def test_tu_is_downloaded_with_random_folds_and_degrees(internet):
    parts = {
        "A": "".join(f"{i}, {i + 1}\n{i + 1}, {i}\n" for i in range(1, 61, 3)),
        "graph_indicator": "".join(f"{i}\n" * 3 for i in range(1, 21)),
        "graph_labels": "1\n2\n" * 10,
    }
    internet.contents["IMDB-BINARY.zip"] = archive("IMDB-BINARY", parts)
    found = load_dataset("imdb-b")
    assert found.info.source == "downloaded, folds drawn (seed 0)"
    assert found.folds.sum(dim=0).tolist() == [1] * 20
    assert found.store.x[:3].tolist() == [[1], [1], [0]]
    assert found.store.y.tolist() == [0, 1] * 10


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"A": "1, 9\n"}, "an edge joins a node beyond the 6 nodes"),
        ({"A": "1, x\n"}, "is not a data set of the TU collection"),
        ({"graph_indicator": "2\n1\n1\n1\n1\n1\n"}, "the nodes are not sorted"),
        ({"graph_indicator": "1\n1\n1\n1\n1\n9\n"}, "the nodes are not sorted"),
        ({"A": "1, 4\n4, 1\n"}, "edge_index joins nodes"),
    ],
)
def test_damaged_tu_archives_raise_a_clear_error(change, sentence, internet):
    internet.contents["MUTAG.zip"] = archive("MUTAG", MUTAG | change)
    with pytest.raises(FileFormatError, match=sentence) as caught:
        load_dataset("mutag")
    assert "\n" not in str(caught.value)
