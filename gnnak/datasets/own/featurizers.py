"""Featurizers: how molecules become graphs with the features that a network needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gnnak.datasets.record import DatasetInfo
from gnnak.errors import OptionError
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.smiles import (
    ATOM_FEATURES,
    ATOM_TYPES,
    BOND_FEATURES,
    BOND_TYPES,
    from_molecules,
    zinc_from_molecules,
)
from gnnak.nn.features import Categorical


class Featurizer(NamedTuple):
    """One way to convert molecules to graphs."""

    convert: Callable[[Sequence[Any]], GraphStore]
    """Converts rdkit molecules to graphs."""
    nodes: Categorical
    """Description of the node features."""
    edges: Categorical
    """Description of the edge features."""


FEATURIZERS = {
    "ogb": Featurizer(
        from_molecules,
        Categorical(tuple(size for _, size, _ in ATOM_FEATURES)),
        Categorical(tuple(size for _, size, _ in BOND_FEATURES)),
    ),
    "zinc": Featurizer(
        zinc_from_molecules,
        Categorical((len(ATOM_TYPES),)),
        Categorical((len(BOND_TYPES) + 1,)),
    ),
}
"""The featurizers by name: `ogb`, the features of the Open Graph Benchmark, and `zinc`,
the atom and bond types of the data set ZINC."""


def find_featurizer(info: DatasetInfo) -> str | None:
    """Return the name of the featurizer that makes graphs like those of a data set.

    Returns:
        The name; None if no featurizer does.
    """
    for name, kind in FEATURIZERS.items():
        fits = (info.node_features, info.edge_features) == (kind.nodes, kind.edges)
        # The features of ZINC are so simple that other graphs may have the same sizes.
        if fits and (name == "ogb" or (info.name == name and not info.own_data)):
            return name
    return None


def need_featurizer(info: DatasetInfo) -> str:
    """Return `find_featurizer(info)`.

    Raises:
        OptionError: If no featurizer makes graphs like those of the data set.
    """
    found = find_featurizer(info)
    if found is None:
        raise OptionError(
            f"this network was trained on {info.name} with other features than those "
            "of SMILES strings; give graphs."
        )
    return found
