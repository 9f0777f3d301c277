"""Check the arguments of a `GraphLoader`."""

from __future__ import annotations

import torch

from gnnak.errors import GraphError, OptionError
from gnnak.graphs.attributes import Attributes
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.extractors import check_extractor


def usable_device(device: torch.device | str | None) -> torch.device | None:
    """Return a device as a `torch.device`; raise `OptionError` if it cannot be used."""
    if device is None:
        return None
    try:
        return torch.zeros(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).splitlines() or [""])[0].rstrip(".")
        raise OptionError(f"device {device!r} cannot be used: {reason}.") from error


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
