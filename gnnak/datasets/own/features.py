"""Describe the features of own data, and make new data fit a trained network.

Categories have one more value than the data show, "other": new data may have
categories that the training graphs do not have.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gnnak.datasets.assemble import MAX_CATEGORIES
from gnnak.datasets.own.molecules import FEATURIZERS
from gnnak.errors import GraphError
from gnnak.graphs import GraphStore
from gnnak.nn.features import Categorical, Continuous, Features, describe


def describe_features(
    store: GraphStore, featurizer: str | None
) -> tuple[Features, Features | None]:
    """Return the descriptions of node features and of edge features.

    Args:
        store: The graphs of the user.
        featurizer: Name of the featurizer of molecules, whose features have known
            sizes; None = the sizes are those of the data, and one more category,
            "other".

    Raises:
        GraphError: If features are not finite, or categories are negative or too large.
    """
    if featurizer is not None:
        return FEATURIZERS[featurizer].nodes, FEATURIZERS[featurizer].edges
    nodes = _described("x", store.x)
    return nodes or Categorical((1,)), _described("edge_attr", store.edge_attr)


def with_node_features(store: GraphStore) -> GraphStore:
    """Return the graphs with one constant node feature, if they have none."""
    if store.x is not None:
        return store
    nodes = int(store.node_ptr[-1])
    return replace(store, x=torch.zeros(nodes, 1, dtype=torch.long))


def fit_features(
    key: str, values: Tensor | None, wanted: Features | None
) -> Tensor | None:
    """Make the features of new graphs fit a trained network.

    Categories that the network does not know become the last category, "other".
    Integers become floating-point numbers if the network was trained on those.

    Args:
        key: Name of the features in error messages: `x` or `edge_attr`.
        values: The features, [rows, c] or [rows]; None if the graphs have none.
        wanted: Description of the features that the network was trained on.

    Raises:
        GraphError: If the number of columns differs, or the network was trained with
            features and the graphs have none, or the other way round.
    """
    if wanted is None or values is None:
        if wanted is not None:
            raise GraphError(
                f"the graphs have no {key}, but the network needs {wanted}."
            )
        return None
    values = values[:, None] if values.dim() == 1 else values
    columns = len(wanted.sizes) if isinstance(wanted, Categorical) else wanted.channels
    if values.dim() != 2 or values.size(1) != columns:
        raise GraphError(
            f"{key} has shape {list(values.shape)}, but the network was trained with "
            f"{columns} columns; give the same features as in training."
        )
    if isinstance(wanted, Continuous):
        return values if values.is_floating_point() else values.float()
    if values.is_floating_point():
        raise GraphError(
            f"{key} has real numbers, but the network was trained with categories; "
            "give whole numbers."
        )
    if values.numel() and values.min() < 0:
        raise GraphError(f"{key} has the category {int(values.min())}; give 0 or more.")
    return torch.minimum(values, torch.tensor(wanted.sizes, device=values.device) - 1)


def _described(key: str, values: Tensor | None) -> Features | None:
    """Describe features, with one more category than the data show."""
    if values is None:
        return None
    if values.is_floating_point() and not values.isfinite().all():
        raise GraphError(
            f"{key} has entries that are not finite numbers; correct them."
        )
    found = describe(values)
    if not isinstance(found, Categorical):
        return found
    if max(found.sizes) >= MAX_CATEGORIES:
        raise GraphError(
            f"{key} has the category {max(found.sizes) - 1}; give categories below "
            f"{MAX_CATEGORIES - 1}, or convert to float for real numbers."
        )
    return Categorical(tuple(size + 1 for size in found.sizes))
