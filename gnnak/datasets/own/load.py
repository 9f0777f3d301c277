"""Load the user's data as a `Dataset`; categorical features get a category "other"."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gnnak.datasets.assemble import MAX_CATEGORIES
from gnnak.datasets.cache import with_node_features
from gnnak.datasets.own import molecules, splits
from gnnak.datasets.own.objects import check_attributes, is_frame, lacks_attribute
from gnnak.datasets.own.options import OwnData
from gnnak.datasets.own.read import Reading, as_rows
from gnnak.datasets.own.targets import Column, Targets, as_text, encode_targets
from gnnak.datasets.own.which import (
    default_names,
    find_columns,
    find_targets,
    refuse_features,
    with_node_targets,
    with_points,
)
from gnnak.datasets.record import DEFAULTS, Dataset, DatasetInfo, check_metric
from gnnak.errors import FileFormatError, GraphError, OptionError, counted
from gnnak.graphs import GraphStore
from gnnak.graphs.readers.files import format_stem
from gnnak.graphs.readers.npz import MASKS
from gnnak.graphs.readers.rows import (
    BadRow,
    FeatureUse,
    GraphRows,
    check_any,
    joined_rows,
    refuse,
    refuse_nodes,
)
from gnnak.graphs.readers.smiles import ATOM_FEATURES, BOND_FEATURES
from gnnak.graphs.readers.table import read_table
from gnnak.nn.features import Categorical, Continuous, Features, describe

Parts = tuple[Tensor | None, Tensor | None]
"""A split, [g], and folds, [folds, g]; one of the two is None."""


def choose_split(
    own: OwnData, rows: GraphRows, given: Any, classes: Tensor | None, seed: int
) -> Parts:
    """Use the user's split `given`; if it is None, split the graphs as `own` says."""
    if len(rows) < 3:
        bad = len(rows.bad)
        why = f" ({counted(bad, 'row')} left out, such as {rows.bad[0]})" if bad else ""
        count = counted(len(rows), "usable graph")
        told = "give at least three, for training, validation and test, or one graph"
        of_nodes = "with a target of every node"
        raise FileFormatError(f"{rows.source} has {count}{why}; {told} {of_nodes}.")
    if given is not None:
        if isinstance(given, Iterable) and not isinstance(given, Tensor):
            given = list(given)
        # There may also be parts of the bad rows.
        if hasattr(given, "__len__") and len(given) == rows.num_rows != len(rows):
            return splits.check_split(given, rows.num_rows)[rows.position], None
        return splits.check_split(given, len(rows)), None
    if own.split == "scaffold" and rows.molecules is None:
        raise OptionError("split 'scaffold' needs molecules; use another split.")
    if own.folds is not None:
        if len(rows) < own.folds:
            told = f"folds is {own.folds}, but there are {len(rows)} graphs"
            raise OptionError(f"{told}; lower folds.")
        if own.split != "scaffold":
            return None, splits.random_folds(len(rows), own.folds, seed, classes)
        return None, splits.scaffold_folds(rows.molecules or (), own.folds, seed)
    if own.split is None and rows.split is not None:
        return rows.split, None
    if own.split is None and rows.folds is not None:
        return None, rows.folds
    if own.split == "scaffold":
        return splits.scaffold_split(rows.molecules or ()), None
    if own.split_column is not None:
        name = own.split_column
        splits.check_column(name, list(rows.columns), rows.source)
        texts = [str(value) for value in rows.column(name)]
        return splits.column_split(f"column {name}", texts), None
    return splits.random_split(len(rows), seed, classes), None


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
    size = int(rows.store.node_ptr[-1])
    if given is not None:
        given = list(given) if isinstance(given, tuple) else given
        return splits.check_split(given, size, "node")
    if own.split == "random" or (own.split is None and own.folds is not None):
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


MOST_TOLD = 100
"""Largest number of left-out rows that `DatasetInfo.skipped` lists."""


class OwnDataset(NamedTuple):
    """The user's own data, ready for training."""

    dataset: Dataset
    own: OwnData
    """The user's options, with the task, metric and targets that the data imply."""
    bad: tuple[str, ...]
    """The rows that were left out, with the reasons, such as "row 7: logp is empty"."""


def load_own(
    own: OwnData, data: Any = None, y: Any = None, seed: int = 0, split: Any = None
) -> OwnDataset:
    """Load the user's own files or, if `own.path` is None, `data` with targets `y`.

    `split`, [g], says for each graph whether it is for training, validation or test;
    if it is None, `own.split` says so.
    """
    rows, targets, left_out, given = _read(own, data, y, split, seed)
    task, metric = targets.task, own.metric or DEFAULTS[targets.task]
    one_graph = rows.is_one_graph
    check_metric(metric, task)
    one_column = targets.y.dim() == 2 and targets.y.size(1) == 1
    values = targets.y[:, 0] if one_column and task != "multilabel" else targets.y
    node_task = rows.store.node_targets
    store = replace(with_node_features(rows.store), y=values, node_targets=node_task)
    classes = targets.y if task == "classification" and not node_task else None
    folds = None
    if not one_graph:
        given, folds = choose_split(own, rows, given, classes, seed)
    skipped = left_out[:MOST_TOLD]
    if len(left_out) > MOST_TOLD:
        skipped = (*skipped, f"and {len(left_out) - MOST_TOLD} more rows")
    featurizer = None if rows.molecules is None else "ogb"
    _check_finite(rows)
    nodes, edges = describe_features(rows.store, featurizer)
    info = DatasetInfo(
        name=data_name(own.path),
        title=data_name(own.path),
        task=task,
        metric=metric,
        num_outputs=targets.num_outputs,
        node_features=nodes,
        edge_features=edges,
        source=Path(own.path).name if own.path else "Python list",
        protocols=("split",) if folds is None else ("held-out",),
        node_task=node_task,
        targets=targets.names,
        classes=targets.classes,
        featurizer=featurizer,
        skipped=skipped,
        own_data=True,
        one_graph=one_graph,
    )
    found = replace(own, task=task, metric=metric, targets=targets.names)
    use = _feature_use(own, rows, targets)
    data = Dataset(info, store, given, folds, use, rows.one_way)
    return OwnDataset(data.check(), found, left_out)


def _feature_use(own: OwnData, rows: GraphRows, targets: Targets) -> FeatureUse:
    use, used = rows.features, {*targets.names, own.split_column}
    if rows.molecules is not None:
        atoms = tuple(name for name, *_ in ATOM_FEATURES)
        bonds = tuple(name for name, *_ in BOND_FEATURES)
        use = FeatureUse(atoms, bonds, unused_graphs=tuple(rows.columns))
        if rows.columns:
            used.add(molecules.find_smiles(rows.source, own.smiles, list(rows.columns)))
    if masks := [name for name in MASKS if name in use.unused_nodes]:
        told = "%s: the masks %s are ignored; graphs are split, not their nodes."
        logging.getLogger("gnnak").warning(told, rows.source, ", ".join(masks))
    return use.without({*used, *masks})


def data_name(path: str | None) -> str:
    """Return a name for the data: the file's name without suffixes, or `graphs`."""
    return "graphs" if path is None else format_stem(Path(path)) or "graphs"


def _read(
    own: OwnData, data: Any, y: Any, split: Any, seed: int
) -> tuple[GraphRows, Targets, tuple[str, ...], Any]:
    if own.split == "files" or own.validation or own.test:
        (found, split), y = _joined(own), None
    else:
        found = _rows(data if own.path is None else own.path, own)
    rows = with_node_targets(own, found, y)
    if rows.is_one_graph:
        targets, split = targets_and_split(own, rows, split, seed)
        return rows, targets, tuple(map(str, targets.bad)), split
    rows, targets = _without_bad(own, rows, find_targets(own, rows, y))
    return rows, targets, tuple(map(str, rows.bad)), split


def _check_files(files: list[str]) -> None:
    train, validation, *test = (Path(file).resolve() for file in files)
    if test and test[0] in (train, validation):
        name = "training" if test[0] == train else "validation"
        told = f"{name} and test graphs are in the same file {files[2]}"
        raise OptionError(f"{told}; give another file for the test graphs.")
    if train == validation:
        logging.getLogger("gnnak").warning(
            "training and validation graphs are in the same file %s, so validation "
            "scores do not tell how good the model is for new graphs.",
            files[0],
        )


def _joined(own: OwnData) -> tuple[GraphRows, Tensor]:
    if own.path is None or not own.validation:
        raise OptionError(
            "split 'files' needs files; give the training graphs as the data, "
            "--validation, and --test unless there are no test graphs."
        )
    if own.labels is not None:
        told = "a table of labels cannot be combined with split 'files'"
        raise OptionError(f"{told}; put the targets into the files.")
    files = [file for file in (own.path, own.validation, own.test) if file]
    _check_files(files)
    parts = [_rows(file, own) for file in files]
    names = set(parts[0].columns)
    for part in parts[1:]:
        if set(part.columns) != names:
            other = ", ".join(sorted(map(str, names ^ set(part.columns)))[:5])
            told = f"{parts[0].source} and {part.source} differ in the columns {other}"
            raise FileFormatError(f"{told}; give files with the same columns.")
    counts = torch.tensor([part.num_rows for part in parts])
    split = torch.arange(len(parts)).repeat_interleave(counts)
    return joined_rows(parts, ", ".join(part.source for part in parts)), split


def _without_bad(
    own: OwnData, rows: GraphRows, targets: Targets
) -> tuple[GraphRows, Targets]:
    if rows.store.node_targets:
        if targets.bad:
            how = "give every node a target (nodes of all graphs are counted together)"
            refuse_nodes(rows.source, targets.bad, len(targets.y), how)
    elif targets.bad:
        kept, reasons = torch.ones(len(rows), dtype=torch.bool), []
        for row in targets.bad:
            kept[row.number - 1] = False
            reasons.append(BadRow(int(rows.position[row.number - 1]) + 1, row.reason))
        rows = rows.subset(kept.nonzero().flatten(), reasons)
        targets = targets._replace(y=targets.y[kept], bad=())
    if not own.skip_bad:
        refuse(rows.source, rows.bad, rows.num_rows)
    if not len(rows):
        told = f"has no usable rows ({rows.bad[0]})"
        raise FileFormatError(f"{rows.source} {told}; correct them.")
    return rows, targets


def load_labelled(
    own: OwnData, data: Any, y: Any, info: DatasetInfo, fold: int | None
) -> tuple[GraphRows, Targets, str | None]:
    """Return graphs, targets, and "test" if only test nodes are scored, else None."""
    featurizer = molecules.find_featurizer(info) or "ogb"
    own = replace(own, task=info.task)
    named = replace(own, targets=own.targets or info.targets)
    rows = _rows(data, named, featurizer, trained=True)
    if rows.molecules is not None:
        molecules.need_featurizer(info)
    may_have_more = not own.targets and (y is None or is_frame(y))
    if not own.targets and y is None:
        present = {*rows.columns, *rows.node_columns}
        if own.labels is not None:
            present = set(read_table(own.labels)[0])
        if present:  # else y of the graphs has no names
            found = tuple(name for name in info.targets if name in present)
            own = replace(own, targets=found or info.targets)
    rows = with_node_targets(own, rows, y)
    columns, numbers = find_columns(own, rows, y)
    if rows.store.node_targets != info.node_task:
        given, wanted = ("graph", "node") if info.node_task else ("node", "graph")
        told = f"{rows.source} has targets of {given}s, but the network predicts"
        raise GraphError(f"{told} targets of {wanted}s; put those into the graphs.")
    columns = _matched(columns, info, rows.source, may_have_more)
    test = nodes_for_test(rows, fold) if rows.is_one_graph else None
    if test is not None:
        columns = [(name, hidden(values, test)) for name, values in columns]
    targets = encode_targets(columns, info.task, numbers, info.class_names)
    if rows.is_one_graph:
        known = labelled(columns)
        bad = [row for row in targets.bad if known[row.number - 1]]
        refuse_nodes(rows.source, bad, known.numel(), "correct them")
        return rows, targets, None if test is None else "test"
    return *_without_bad(own, rows, targets), None


def _matched(
    columns: list[Column], info: DatasetInfo, source: str, may_have_more: bool
) -> list[Column]:
    """Return one column for each target of the network: by name, else by position."""
    given, names = dict(columns), [name for name, _ in columns]
    wanted = info.targets
    others = [name for name in names if name not in wanted]
    missing = [name for name in wanted if name not in given]
    if may_have_more and wanted and not missing:
        others = []
    outputs = 1 if info.task == "classification" else info.num_outputs
    if len(names) != outputs and (others or not wanted or not names):
        predicted = f" ({', '.join(wanted[:10])})" if wanted else ""
        raise GraphError(
            f"{source} has {counted(len(names), 'target')} ({', '.join(names)}), "
            f"but the network predicts {outputs}{predicted}; give one column for each."
        )
    if not wanted:
        return columns
    column_of = dict(zip(missing, others, strict=False))
    if tuple(names) != default_names(len(names)):
        told = "column %s is compared with target %s."
        for target, name in column_of.items():
            logging.getLogger("gnnak").warning(told, name, target)
    unknown = [None] * len(columns[0][1])
    sources = [column_of.get(target, target) for target in wanted]
    return [(name, given.get(name, unknown)) for name in sources]


def _rows(
    data: Any, own: OwnData, featurizer: str = "ogb", trained: bool = False
) -> GraphRows:
    """Read graphs, check their attributes, and write decimal commas as points."""
    named = own.node_attr, own.edge_attr
    rows = as_rows(data, Reading(own.smiles, *named, own.graphs, featurizer, trained))
    check_any(rows)
    if rows.molecules is not None and any(named) and not trained:
        told = f"{rows.source} has molecules, whose features are those of atoms and"
        flags = "--node-attr and --edge-attr (node_attr, edge_attr)"
        raise OptionError(f"{told} bonds; leave out {flags}.")
    use, about = rows.features, (rows.source, trained)
    nodes, edges = use.nodes + use.unused_nodes, use.edges + use.unused_edges
    empty = not int(rows.store.node_ptr[-1]), not int(rows.store.edge_ptr[-1])
    check_attributes("node", own.node_attr, nodes, edges, *about, empty[0])
    check_attributes("edge", own.edge_attr, edges, nodes, *about, empty[1])
    if not rows.decimal_commas:
        return rows
    columns = with_points(rows.columns, rows.source, own.targets, own.task)
    return replace(rows, columns=columns)


def _check_finite(rows: GraphRows) -> None:
    store = rows.store
    for key, ptr in (("x", store.node_ptr), ("edge_attr", store.edge_ptr)):
        values = getattr(store, key)
        if values is None or bool(values.isfinite().all()):
            continue
        row = int((~values.isfinite()).nonzero()[0, 0])
        graph = int(torch.searchsorted(ptr, row, right=True)) - 1
        which = f"node {row - int(ptr[graph])}"
        if key == "edge_attr":
            which = "the edge from {} to {}".format(*store.edge_index[:, row].tolist())
        place = f"{which} of graph {int(rows.position[graph])} (numbered from 0)"
        told = f"{rows.source}: {key} of {place} is not a finite number"
        raise GraphError(f"{told}; correct it.")


def describe_features(
    store: GraphStore, featurizer: str | None
) -> tuple[Features, Features | None]:
    if featurizer is not None:
        kind = molecules.FEATURIZERS[featurizer]
        return kind.nodes, kind.edges
    nodes = _described("x", store.x) or Categorical((1,))
    return nodes, _described("edge_attr", store.edge_attr)


def fit_features(
    key: str, values: Tensor | None, wanted: Features | None, is_empty: bool = False
) -> Tensor | None:
    """Convert features of new graphs; unknown categories become the last, "other".

    If `is_empty`, the graphs have no nodes or edges, and `values` may be None.
    """
    if wanted is None:
        return None
    columns = len(wanted.sizes) if isinstance(wanted, Categorical) else wanted.channels
    if values is None:
        if not is_empty:
            raise lacks_attribute("node" if key == "x" else "edge", key)
        values = torch.zeros(0, columns, dtype=torch.long)
    values = values[:, None] if values.dim() == 1 else values
    if values.dim() != 2 or values.size(1) != columns:
        told = f"{key} has shape {list(values.shape)}, but the network was trained with"
        raise GraphError(
            f"{told} {columns} columns; give the same features as in training."
        )
    if isinstance(wanted, Continuous):
        return values if values.is_floating_point() else values.float()
    if values.is_floating_point():
        told = f"{key} has real numbers, but the network was trained with categories"
        raise GraphError(f"{told}; give whole numbers.")
    if values.numel() and values.min() < 0:
        raise GraphError(f"{key} has the category {int(values.min())}; give 0 or more.")
    return torch.minimum(values, torch.tensor(wanted.sizes, device=values.device) - 1)


def _described(key: str, values: Tensor | None) -> Features | None:
    """Describe features like `describe`, but add a category "other" to each column."""
    if values is None:
        return None
    found = describe(values)
    if not isinstance(found, Categorical):
        return found
    if max(found.sizes) >= MAX_CATEGORIES:
        told = f"{key} has the category {max(found.sizes) - 1}; give categories below"
        raise GraphError(f"{told} {MAX_CATEGORIES - 1}, or convert to float.")
    return Categorical(tuple(size + 1 for size in found.sizes))
