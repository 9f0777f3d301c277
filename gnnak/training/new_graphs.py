"""Convert new graphs of any kind to a batch for a trained network."""

from __future__ import annotations

from typing import Any

from gnnak.datasets.own.features import with_node_features
from gnnak.datasets.own.featurizers import need_featurizer
from gnnak.datasets.own.listed import graphs_in_list
from gnnak.datasets.own.molecules import molecules_in_list
from gnnak.datasets.own.objects import are_smiles, as_items
from gnnak.datasets.own.read import Reading
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import GraphError
from gnnak.graphs import GraphBatch, GraphStore


def as_batch(graphs: Any, reading: Reading, info: DatasetInfo) -> GraphBatch:
    """Convert graphs or molecules to a batch.

    Args:
        graphs: A PyG `Data` or `Batch`, a `GraphBatch`, a `GraphStore`, a SMILES
            string, or a list of `Data`, SMILES strings or networkx graphs.
        reading: Attributes of networkx graphs that are features.
        info: Description of the training data, which tells the features of molecules.

    Raises:
        GraphError: If a graph is malformed.
        OptionError: If SMILES strings are given, and the network needs other features.
    """
    if isinstance(graphs, GraphBatch):
        return graphs
    if isinstance(graphs, GraphStore):
        return with_node_features(graphs).union()
    given = [graphs] if isinstance(graphs, str) else as_items(graphs)
    if not given:
        raise GraphError("there are no graphs; give at least one.")
    items = [_without_targets(item) for item in given]
    if are_smiles(items):
        rows = molecules_in_list(items, featurizer=need_featurizer(info))
    else:
        rows = graphs_in_list(items, reading.node_attr, reading.edge_attr)
    if rows.bad:
        raise GraphError(f"{rows.bad[0]}; correct this graph.")
    return with_node_features(rows.store).union()


def _without_targets(item: Any) -> Any:
    """Return a PyG graph without `y`, which a prediction does not need."""
    if hasattr(item, "edge_index") and getattr(item, "y", None) is not None:
        item = item.clone()
        item.y = None
    return item
