from dataclasses import replace

import pytest

from gnnak.datasets.own.molecules import FEATURIZERS, find_featurizer, need_featurizer
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import OptionError
from gnnak.graphs.readers.smiles import parse_smiles
from gnnak.nn.features import Categorical, Continuous

pytest.importorskip("rdkit")


def info_of(name, nodes, edges):
    return DatasetInfo(name, name, "regression", "mae", 1, nodes, edges, "a file")


@pytest.mark.parametrize("name", FEATURIZERS)
def test_features_lie_in_the_described_ranges(name):
    kind = FEATURIZERS[name]
    store = kind.convert(parse_smiles(["CC(N)C(=O)[O-]", "[U]", "N->[Fe+3]", "*"]))
    for values, sizes in (
        (store.x, kind.nodes.sizes),
        (store.edge_attr, kind.edges.sizes),
    ):
        assert values.size(1) == len(sizes)
        assert values.min() >= 0
        assert (values.max(dim=0).values < values.new_tensor(sizes)).all()


def test_find_featurizer_knows_zinc_and_data_of_the_open_graph_benchmark():
    zinc, ogb = FEATURIZERS["zinc"], FEATURIZERS["ogb"]
    assert find_featurizer(info_of("zinc", zinc.nodes, zinc.edges)) == "zinc"
    assert find_featurizer(info_of("molhiv", ogb.nodes, ogb.edges)) == "ogb"


def test_find_featurizer_does_not_guess_from_sizes_alone():
    zinc = FEATURIZERS["zinc"]
    mine = info_of("mine", zinc.nodes, zinc.edges)
    assert find_featurizer(mine) is None
    own = replace(info_of("zinc", zinc.nodes, zinc.edges), own_data=True)
    assert find_featurizer(own) is None
    assert find_featurizer(info_of("zinc", Continuous(3), None)) is None


def test_need_featurizer_says_what_to_give():
    with pytest.raises(OptionError, match="trained on mine with other features"):
        need_featurizer(info_of("mine", Categorical((2,)), None))
