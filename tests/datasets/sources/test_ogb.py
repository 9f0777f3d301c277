import gzip

import numpy as np
import pytest
import torch

from gnnak.datasets import load_dataset
from gnnak.datasets.sources.published import read_csv
from gnnak.errors import FileFormatError
from tests.datasets.sources.internet import zipped


def archive(title, columns, **changes):
    """Three molecules: a pair of atoms, one atom, and a pair of atoms."""
    label = ",".join(["1.0"] * columns)
    other = "0" if columns == 1 else "," * (columns - 1)
    parts = {
        "raw/edge": "0,1\n0,1\n",
        "raw/num-node-list": "2\n1\n2\n",
        "raw/num-edge-list": "1\n0\n1\n",
        "raw/node-feat": "".join(f"{i},0,0,0,0,0,0,0,0\n" for i in range(5)),
        "raw/edge-feat": "1,0,0\n2,0,1\n",
        "raw/graph-label": f"{label}\n{other}\n{label}\n",
        "split/scaffold/train": "2\n",
        "split/scaffold/valid": "0\n",
        "split/scaffold/test": "1\n",
    } | changes
    return zipped(
        {f"{title}/{k}.csv.gz": gzip.compress(v.encode()) for k, v in parts.items()}
    )


@pytest.mark.parametrize(
    ("name", "title", "columns"), [("molhiv", "hiv", 1), ("molpcba", "pcba", 128)]
)
def test_ogb_archives_are_read_without_the_package_ogb(name, title, columns, internet):
    internet.contents[f"{title}.zip"] = archive(title, columns)
    for found in (load_dataset(name), load_dataset(name)):
        assert found.split.tolist() == [1, 2, 0]
        assert found.store.num_edges.tolist() == [2, 0, 2]
        assert found.store.edge_index.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
        assert found.store.edge_attr[:, 0].tolist() == [1, 1, 2, 2]
        assert found.store.x[:, 0].tolist() == [0, 1, 2, 3, 4]
        assert found.store.y.dtype == torch.float
        assert found.store.y.shape == (3, columns)
        unknown = columns if columns > 1 else 0
        assert found.store.y.isnan().sum(dim=1).tolist() == [0, unknown, 0]
    assert len(internet.opened) == 1


def test_damaged_ogb_archives_raise_a_clear_error(internet):
    internet.contents["hiv.zip"] = archive("hiv", 1, **{"raw/edge": "0,x\n"})
    with pytest.raises(FileFormatError, match="is not a molecule data set of OGB"):
        load_dataset("molhiv")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"1,2\n3,4", [[1, 2], [3, 4]]),
        (b",,\r\n,5,\r\n", [[None] * 3, [None, 5, None]]),
        (b"7\n", [[7]]),
    ],
)
def test_read_csv_by_hand(text, rows):
    found = read_csv(text, np.float32)
    assert [[None if v != v else v for v in row] for row in found.tolist()] == rows
