"""Split the user's data into training, validation and test graphs, or into folds."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.benchmarks import folds_by_group, stratified_folds
from gnnak.errors import FileFormatError, GraphError, OptionError, counted
from gnnak.graphs.readers.smiles import import_rdkit
from gnnak.typing import check_known

CODES = "0 (train), 1 (validation) or 2 (test)"
PART_NAMES = {
    **dict.fromkeys(("train", "training", "0"), 0),
    **dict.fromkeys(("validation", "valid", "val", "dev", "1"), 1),
    **dict.fromkeys(("test", "2"), 2),
}
"""Words for train (0), validation (1) and test (2) in a split column, in lower case."""


def random_split(num_graphs: int, seed: int, strata: Tensor | None = None) -> Tensor:
    """Split graphs 80 : 10 : 10 at random, each class of `strata`, [g], separately."""
    order = np.random.default_rng([seed, 79]).permutation(num_graphs)
    if strata is not None:
        order = order[np.argsort(strata.numpy()[order], kind="stable")]
    # Sorted by class, graphs take turns, so each part gets its share of each class.
    turn = np.resize([0, 0, 0, 0, 1, 0, 0, 0, 0, 2], num_graphs)
    if 3 <= num_graphs < 10:
        turn[:3] = [0, 1, 2]
    split = torch.empty(num_graphs, dtype=torch.long)
    split[torch.from_numpy(order)] = torch.from_numpy(turn).long()
    return split


def random_folds(
    num_graphs: int, num_folds: int, seed: int, classes: Tensor | None
) -> Tensor:
    """Return test masks of random folds, [folds, g]; `classes` are spread evenly."""
    if classes is None:
        return folds_by_group(torch.arange(num_graphs), num_folds, seed)
    return stratified_folds(classes, num_folds, seed)


def scaffold_groups(smiles: Sequence[str]) -> list[list[int]]:
    """Group molecules' positions by Bemis-Murcko scaffold, the largest group first."""
    find = import_rdkit("rdkit.Chem.Scaffolds.MurckoScaffold").MurckoScaffoldSmiles
    quiet = import_rdkit("rdkit.rdBase").BlockLogs()
    groups: dict[str, list[int]] = {}
    for position, text in enumerate(smiles):
        groups.setdefault(find(smiles=text), []).append(position)
    del quiet
    return sorted(groups.values(), key=lambda group: (-len(group), group[0]))


def scaffold_split(smiles: Sequence[str]) -> Tensor:
    """Split molecules 80 : 10 : 10 by scaffold, as in MoleculeNet (Wu et al. 2018).

    All molecules of a scaffold go to the first part with room for them, beginning with
    the most frequent scaffold. A part that stays empty gets a rare scaffold.
    """
    split = torch.empty(len(smiles), dtype=torch.long)
    room = [share * len(smiles) for share in (0.8, 0.1, 0.1)]
    groups = scaffold_groups(smiles)
    if len(groups) < 3:
        told = f"the molecules have {counted(len(groups), 'scaffold')}, but split"
        raise OptionError(f"{told} 'scaffold' needs three; use --split random.")
    parts = [0]
    room[0] -= len(groups[0])
    for group in groups[1:]:
        part = next((p for p in (0, 1) if len(group) <= room[p] + 1e-9), 2)
        room[part] -= len(group)
        parts.append(part)
    for empty in {0, 1, 2} - set(parts):
        # The last group of a part that has several groups is a small one.
        place = max(i for i, part in enumerate(parts) if parts.count(part) > 1)
        parts[place] = empty
    for group, part in zip(groups, parts, strict=True):
        split[group] = part
    return split


def scaffold_folds(smiles: Sequence[str], num_folds: int, seed: int) -> Tensor:
    """Assign molecules to folds, [folds, g]; every scaffold is in one fold only."""
    group = torch.empty(len(smiles), dtype=torch.long)
    for number, members in enumerate(scaffold_groups(smiles)):
        group[members] = number
    return folds_by_group(group, num_folds, seed)


def column_split(name: str, texts: Sequence[str]) -> Tensor:
    parts = [PART_NAMES.get(text.strip().lower()) for text in texts]
    if None in parts:
        text = texts[parts.index(None)][:40]
        raise FileFormatError(f"{name} has {text!r}; write train, validation or test.")
    return torch.tensor(parts, dtype=torch.long)


def check_split(split: object, num_graphs: int, what: str = "graph") -> Tensor:
    """Return the user's split as a tensor, [g] or [n]; raise an error if malformed."""
    least = -1 if what == "node" else 0
    if isinstance(split, list) and split and all(isinstance(p, str) for p in split):
        return check_split(column_split("split", split), num_graphs, what)
    try:
        codes = torch.as_tensor(split)
    except (TypeError, ValueError, RuntimeError) as error:
        told = f"split is not a name or a list of numbers; for every {what}, give"
        raise OptionError(f"{told} {CODES}.") from error
    whole = not codes.is_floating_point() and not codes.is_complex()
    inside = whole and codes.numel() and codes.min() >= least and codes.max() <= 2
    fits = codes.shape == (num_graphs,)
    if not fits or not inside:
        wrong = "other values" if fits else f"shape {list(codes.shape)}"
        told = f"split has {wrong}; give {counted(num_graphs, 'number')}, one for every"
        raise GraphError(f"{told} {what}: {CODES}.")
    return codes.to(torch.long)


def check_column(name: str, columns: Sequence[str], source: str) -> None:
    if not columns:
        raise OptionError(f"{source} has no columns; leave out the column {name!r}.")
    check_known("column", name, columns, of=f" in {source}")
