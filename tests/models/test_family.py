import copy

import pytest
import torch
from torch import nn

from gnnak import EgoNets
from gnnak.errors import OptionError
from gnnak.models import ModelOptions, build_model
from gnnak.models.factory import parse_name
from gnnak.models.members import MEMBERS
from gnnak.models.options import FamilyOptions, SubgraphOptions
from gnnak.nn import Categorical
from gnnak.subgraphs import MaskedEgoNets, NodeDeletion, WholeGraphs
from gnnak.testing import (
    assert_batching_consistent,
    assert_permutation_equivariant,
    small_graphs,
)
from tests.models.zoo import (
    ATOMS,
    BONDS,
    FAMILY,
    continuous_network,
    molecule_batch,
    small_network,
)

GRAPHS = small_graphs(channels=4, edge_channels=3)
OTHER_BASES = ["ego-gcn", "id-ppgn", "nested-gat", "dss-pna", "sswl+-gatedgcn"]


def published(name):
    """A small network on the subgraphs that the model was published with."""
    return small_network(name, subgraphs=SubgraphOptions(num_hops=2))


@pytest.mark.parametrize("name", FAMILY + OTHER_BASES)
def test_family_networks_are_invariant_and_batching_consistent(name):
    net = continuous_network(name, subgraphs=SubgraphOptions(num_hops=2)).eval()
    for graph in ("directed", "two components"):
        assert_permutation_equivariant(net, GRAPHS[graph])
    assert_batching_consistent(net, list(GRAPHS.values()))


@pytest.mark.parametrize("name", ["sun-gin", "sswl+-gin", "khop-gin", "ego-gin"])
def test_family_networks_serve_node_tasks(name):
    net = small_network(name, node_task=True)
    data = molecule_batch()
    out = net(data)
    assert out.shape == (data.num_nodes, 3)
    out.sum().backward()
    assert all(weight.grad is not None for weight in net.parameters())


@pytest.mark.parametrize(
    ("name", "channels", "wanted"),
    [
        ("sswl-gin", 96, 274e3),
        ("sswl+-gin", 96, 387e3),
        ("l2fgnn-gin", 96, 495e3),
        ("sun-gin", 64, 526e3),
        ("dss-gin", 128, 445e3),
    ],
)
def test_family_networks_have_the_published_number_of_zinc_weights(
    name, channels, wanted
):
    """They lack only biases before BatchNorms and rows of embeddings without use."""
    options = ModelOptions(channels=channels)
    net = build_model(name, Categorical((28,)), Categorical((4,)), 1, options)
    count = sum(weight.numel() for weight in net.parameters())
    assert count == pytest.approx(wanted, rel=0.01)


def test_family_networks_use_the_published_subgraphs():
    def extractor(name, **options):
        net = small_network(name, subgraphs=SubgraphOptions(**options))
        return net.shared.extractor

    assert extractor("sswl+-gin") == WholeGraphs()
    assert extractor("dss-gin") == EgoNets(3)
    assert extractor("ego-gin") == EgoNets(1)
    assert extractor("dss-gin", kind="deletion") == NodeDeletion()
    assert extractor("sun-gin", kind="masked-egonets") == MaskedEgoNets(3)
    assert extractor("sswl-gin", kind="egonets", num_hops=2) == EgoNets(2)


@pytest.mark.parametrize("pairs", [(), ("rrwp",), ("mark", "resistance", "distance")])
def test_family_networks_take_any_pair_encodings(pairs):
    steps = {"num_steps": 3} if "rrwp" in pairs else {}
    net = small_network("ds-gin", family=FamilyOptions(pairs=pairs, **steps))
    assert net.layers[0].start.pairs == pairs
    net(molecule_batch()).sum().backward()
    assert all(weight.grad is not None for weight in net.parameters())


def test_family_networks_pool_by_a_sum_if_asked():
    """With means, two copies of a graph look like one; with sums they do not."""
    data = GRAPHS["path"]
    twice = copy.copy(data)
    twice.x = data.x.repeat(2, 1)
    twice.edge_index = torch.cat([data.edge_index, data.edge_index + 3], dim=1)
    twice.edge_attr = data.edge_attr.repeat(2, 1)
    for reduce, alike in ((None, True), ("sum", False)):
        family = FamilyOptions(reduce=reduce)
        net = continuous_network("dss-gin", family=family).eval()
        assert torch.allclose(net(data), net(twice)) == alike


@pytest.mark.parametrize("name", ["sun-gin", "sswl+-gin", "khop-gin"])
def test_family_networks_recompute_activations(name):
    data, grads = molecule_batch(), []
    for recompute in (False, True):
        net = published(name).train()
        net.save_memory(recompute)
        net(data).sin().sum().backward()
        grads.append([weight.grad for weight in net.parameters()])
    torch.testing.assert_close(grads[0], grads[1])


def test_family_networks_without_norm_have_no_batch_norms():
    batch, none = (
        small_network("l2fgnn-gin", family=FamilyOptions(norm=norm))
        for norm in ("batch", "none")
    )
    assert "BatchNorm" in repr(batch)
    assert "BatchNorm" not in repr(none)
    layer = none.layers[0].layers[0]
    assert all(
        part.bias is not None for part in layer.modules() if isinstance(part, nn.Linear)
    )
    with pytest.raises(OptionError, match=r"family.norm is 'x'; use one of: batch, no"):
        FamilyOptions(norm="x")


def test_build_model_answers_wrong_family_options_in_one_sentence():
    with pytest.raises(OptionError, match=r"in model.family.pairs is 'x'"):
        FamilyOptions(pairs=("x",))
    with pytest.raises(OptionError, match=r"in NodeDeletion\(\) the root has none"):
        small_network("khop-gin", subgraphs=NodeDeletion())
    with pytest.raises(OptionError, match=r"after one of khop, ego, .*sswl\+-gin"):
        build_model("swl-gin", ATOMS, BONDS, 1)
    with pytest.raises(OptionError, match=r"did you mean 'sswl.?-gin'"):
        build_model("sswl++-gin", ATOMS, BONDS, 1)
    with pytest.raises(OptionError, match="dss cannot use the base GNN ppgn; use dss"):
        build_model("dss-ppgn", ATOMS, BONDS, 1)
    with pytest.raises(OptionError, match=r"use khop with one of: gin\."):
        build_model("khop-gcn", ATOMS, BONDS, 1)
    with pytest.raises(OptionError, match="kind is 'stars'; use one of: egonets"):
        SubgraphOptions(kind="stars")


def test_parse_name_finds_the_member_and_the_base():
    form = parse_name("sswl+-pna*")
    assert (form.member, form.base, form.kind) == ("sswl+", "pna*", "whole")
    assert form.unsampled_name == "sswl+-pna*"
    assert parse_name("id-fast-gcn").member == "id-fast"


PLAIN = ["gin", "gin-ak", "gin-ak+", "gin-ak+-s", "ppgn-ak"]
CHANGED = {
    "pairs": {"pairs": ("distance",)},
    "max_distance": {"pairs": ("distance",), "max_distance": 3},
    "num_steps": {"pairs": ("rrwp",), "num_steps": 3},
    "pair_dropout": {"pairs": ("distance",), "pair_dropout": 0.1},
    "reduce": {"reduce": "mean"},
    "order": {"order": "SV"},
    "norm": {"norm": "none"},
    "context": {"context": False},
}
READERS = {
    "pairs": ("id", "nested", "ds", "dss", "sun", "sswl", "sswl+", "l2fgnn"),
    "reduce": tuple(MEMBERS),
    "order": ("sswl", "sswl+"),
    "norm": ("l2fgnn",),
    "context": ("l2fgnn",),
}


@pytest.mark.parametrize("option", READERS)
@pytest.mark.parametrize("name", PLAIN + FAMILY)
def test_build_model_refuses_family_options_that_the_model_ignores(name, option):
    family = FamilyOptions(**CHANGED[option])
    if name.removesuffix("-gin") in READERS[option] and name in FAMILY:
        small_network(name, family=family)
        return
    sentence = rf"model\.family\.{option} is .*, but {name.replace('+', '[+]')} ignores"
    with pytest.raises(OptionError, match=sentence) as error:
        small_network(name, family=family)
    named = str(error.value).rpartition("begins with ")[2].rstrip(".")
    assert tuple(named.replace(" or ", ", ").split(", ")) == READERS[option]


@pytest.mark.parametrize("name", [*PLAIN, *FAMILY])
def test_build_model_takes_default_family_options(name):
    default = FamilyOptions(pairs=None, max_distance=5, num_steps=20, order="VS")
    small_network(name, family=default)


def test_build_model_refuses_dropout_of_encodings_that_the_input_lacks():
    alone = FamilyOptions(pair_dropout=0.1)
    small_network("ds-gin", family=alone)
    lacks = "input of id-gin has no encoding 'mark' or 'distance' or 'rrwp' or 'resis"
    with pytest.raises(OptionError, match=lacks):
        small_network("id-gin", family=alone)
    with pytest.raises(OptionError, match="pair_dropout is 1; give a number with 0 <="):
        FamilyOptions(pair_dropout=1)


@pytest.mark.parametrize("option", ["max_distance", "num_steps"])
def test_build_model_refuses_the_size_of_an_encoding_that_the_input_lacks(option):
    chosen = CHANGED[option]
    small_network("sun-gin", family=FamilyOptions(**chosen))
    alone = FamilyOptions(**{option: chosen[option]})
    lacks = rf"{option} is 3, but the input of sun-gin has no encoding"
    with pytest.raises(OptionError, match=lacks):
        small_network("sun-gin", family=alone)
    if option == "max_distance":
        small_network("sswl-gin", family=alone)
    with pytest.raises(OptionError, match=f"{option} is 3, but gin ignores"):
        small_network("gin", family=alone)
