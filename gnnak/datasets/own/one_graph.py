"""Targets and splits of the nodes of one graph, in the user's own data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gnnak.datasets.own import splits
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.own.targets import Column, Targets, as_text, encode_targets
from gnnak.datasets.own.which import find_columns, refuse_features
from gnnak.errors import FileFormatError, OptionError, counted
from gnnak.graphs.readers.rows import GraphRows, refuse_nodes


def targets_and_split(
    own: OwnData, rows: GraphRows, given: Any, seed: int
) -> tuple[Targets, Tensor]:
    """Return the nodes' targets and split, [n] or [folds, n]; unused nodes have -1."""
    columns, _ = find_columns(own, rows, None)
    refuse_features(rows, columns)
    split = _known_split(own, rows, given)
    used = labelled(columns)
    if split is not None:
        used = (split.reshape(-1, used.numel()) >= 0).any(dim=0)
        columns = [(name, hidden(values, used)) for name, values in columns]
    targets = encode_targets(columns, own.task)
    bad = [row for row in targets.bad if used[row.number - 1]]
    if own.skip_bad:
        used = used.clone()
        used[[row.number - 1 for row in bad]] = False
    else:
        how = "correct them, or leave them out of the masks or with --skip-bad"
        refuse_nodes(rows.source, bad, used.numel(), f"{how} (skip_bad=True)")
    if split is None:
        split = _random_split(own, rows, used, targets, seed)
    return targets._replace(bad=tuple(bad)), torch.where(used, split, -1)


def nodes_for_test(rows: GraphRows, fold: int | None) -> Tensor | None:
    """Return the mask of test nodes, [n]; None if no node is for testing."""
    split = rows.split
    if split is not None and split.dim() == 2:
        split = split[fold] if fold is not None and fold < len(split) else None
    return split == 2 if split is not None and bool((split == 2).any()) else None


def labelled(columns: Sequence[Column]) -> Tensor:
    """Return a mask, [n], of the nodes with at least one known target."""
    known = [[as_text(value) is not None for value in values] for _, values in columns]
    return torch.tensor(known).any(dim=0)


def hidden(values: Sequence[Any], used: Tensor) -> list[Any]:
    """Replace the targets of all nodes outside the mask `used`, [n], by None."""
    pairs = zip(values, used.tolist(), strict=True)
    return [value if is_used else None for value, is_used in pairs]


def _known_split(own: OwnData, rows: GraphRows, given: Any) -> Tensor | None:
    """Return the split from the user or the file, or None to split at random."""
    size = int(rows.store.node_ptr[-1])
    if given is not None:
        given = list(given) if isinstance(given, tuple) else given
        return splits.check_split(given, size, "node")
    if own.folds is not None or own.split == "random":
        if own.split not in (None, "random"):
            told = f"folds cannot be combined with split {own.split!r}"
            raise OptionError(f"{told}; leave out one of both.")
        return None
    if own.split_column is not None:
        name = own.split_column
        splits.check_column(name, list(rows.node_columns), rows.source)
        texts = [str(value) for value in rows.node_columns[name]]
        return splits.column_split(f"attribute {name}", texts)
    if own.split is not None:
        raise OptionError(
            f"split {own.split!r} is for many graphs, but {rows.source} is one graph, "
            "whose nodes are split; use --split random or masks in the file."
        )
    of_nodes = rows.split is not None and rows.split.size(-1) == size
    return rows.split if of_nodes else None


def _random_split(
    own: OwnData, rows: GraphRows, used: Tensor, targets: Targets, seed: int
) -> Tensor:
    """Return a random split of the used nodes, [n], or one per fold, [folds, n]."""
    node, count = used.nonzero().flatten(), int(used.sum())
    if count < (own.folds or 3):
        told = f"{rows.source} has {counted(count, 'node')} with a known target"
        raise FileFormatError(f"{told}; give at least {own.folds or 3}.")
    classes = targets.y[node] if targets.task == "classification" else None
    if own.folds is None:
        split = torch.full(used.shape, -1)
        split[node] = splits.random_split(count, seed, classes)
        return split
    is_test = splits.random_folds(count, own.folds, seed, classes)
    parts = torch.full((own.folds, used.numel()), -1)
    # One fold is for test, the next for validation.
    parts[:, node] = 2 * is_test + is_test.roll(-1, dims=0)
    return parts
