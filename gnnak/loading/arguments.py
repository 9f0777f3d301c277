"""Check the arguments of a `GraphLoader`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import torch

from gnnak.errors import GraphError, OptionError
from gnnak.graphs.readers.pyg_fields import Attributes
from gnnak.loading.order import Budget
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.extractors import check_extractor
from gnnak.typing import as_count, check_flag, check_known

ASSEMBLED = "batches are assembled on the device, so leave it out."
UNSUPPORTED = {
    "dataset": "give the graphs as first argument, as in GraphLoader(graphs, 32).",
    "sampler": "give the graphs in your order, as torch.utils.data.Subset(graphs, "
    "order), or shuffle=True.",
    "batch_sampler": "give batch_size, a number of graphs or a gnnak.Budget.",
    "generator": "give seed, which the order of the graphs depends on.",
    "follow_batch": "give each graph a field of zeros with one row per row of the "
    "other field, such as pos_batch for pos.",
    "exclude_keys": "remove these fields from the graphs first.",
    "collate_fn": "convert the batches, which are PyG batches, in your loop.",
    "num_workers": ASSEMBLED,
    "pin_memory": ASSEMBLED,
    "pin_memory_device": ASSEMBLED,
    "persistent_workers": ASSEMBLED,
    "prefetch_factor": ASSEMBLED,
    "worker_init_fn": ASSEMBLED,
    "multiprocessing_context": ASSEMBLED,
    "timeout": ASSEMBLED,
    "in_order": ASSEMBLED,
}
"""Arguments of PyG's `DataLoader` that `GraphLoader` does not take, and what to do."""


def arguments_of(kind: type) -> tuple[str, ...]:
    """Return the names of the arguments of a class, without those that `**` collects.

    >>> arguments_of(Budget)
    ('nodes', 'copies')
    """
    given = inspect.signature(kind).parameters.values()
    return tuple(each.name for each in given if each.kind is not each.VAR_KEYWORD)


def refuse(unsupported: Iterable[str], known: Iterable[str]) -> None:
    """Raise `OptionError` if a loader got an argument that it does not take.

    Args:
        unsupported: The names of such arguments.
        known: The names of the arguments that the loader takes.
    """
    for name in unsupported:
        if name in UNSUPPORTED:
            raise OptionError(f"GraphLoader takes no {name}; {UNSUPPORTED[name]}")
        check_known("argument", name, known, of=" of GraphLoader")


def check_batch_size(batch_size: object, drop_last: object) -> int | Budget:
    """Return the argument `batch_size`, a number as an int.

    Raises `OptionError` if it is neither a count nor a `Budget`, or if it is a `Budget`
    and `drop_last` is True.
    """
    if not isinstance(batch_size, Budget):
        return as_count("batch_size", batch_size, least=1)
    if drop_last:
        raise OptionError(
            "batches of a Budget have no fixed number of graphs, so drop_last has no "
            "meaning; leave it out, or give a number as batch_size."
        )
    return batch_size


def check_flags(pad: object, **flags: object) -> None:
    """Raise `OptionError` unless these arguments are bools, or `pad` is None."""
    for name, value in flags.items():
        check_flag(name, value)
    if pad is not None:
        check_flag("pad", pad)


def usable_device(device: torch.device | str | None) -> torch.device | None:
    """Return a device as a `torch.device`; raise `OptionError` if it cannot be used."""
    if device is None:
        return None
    try:
        found = torch.zeros(0, device=device).device
    except (RuntimeError, AssertionError, TypeError, ImportError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise OptionError(
            f"device {device!r} cannot be used: {reason}; give 'cpu' or another device."
        ) from error
    if found.type == "meta":
        raise OptionError(
            f"device {str(device)!r} cannot be used: its tensors have no values; give "
            "'cpu' or 'cuda'."
        )
    return found


def check_subgraphs(extractor: object, drop: object) -> None:
    """Check the arguments `subgraphs` and `drop` of a loader.

    Raises `OptionError` if one of them has the wrong type, or if `drop` is given
    without `subgraphs`.
    """
    if extractor is not None:
        check_extractor("subgraphs", extractor)
    if drop is None:
        return
    if not isinstance(drop, SubgraphDrop):
        raise OptionError(
            f"drop is {drop!r}; give a SubgraphDrop, such as "
            "gnnak.SubgraphDrop('random', min_coverage=3)."
        )
    if extractor is None:
        raise OptionError(
            "drop samples rooted subgraphs, but there are none; give subgraphs too, "
            "such as subgraphs=gnnak.EgoNets(3)."
        )


def check_field_names(fields: Attributes, extractor: object) -> None:
    """Raise `GraphError` if the loader's subgraphs would replace a field of the user.

    Args:
        fields: The fields of the graphs, besides features and targets.
        extractor: The argument `subgraphs` of the loader.
    """
    names = {*fields.tensors, *fields.objects}
    if extractor is not None and "subgraphs" in names:
        raise GraphError(
            "the graphs have a field 'subgraphs', but the loader stores the rooted "
            "subgraphs of a batch under this name; rename the field."
        )
