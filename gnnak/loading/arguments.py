"""Check the arguments of a `GraphLoader`."""

from __future__ import annotations

import torch

from gnnak.errors import OptionError
from gnnak.sampling.drop import SubgraphDrop
from gnnak.subgraphs.extractors import Extractor


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
    if isinstance(extractor, type):
        name = extractor.__name__
        raise OptionError(
            f"subgraphs is the class {name}; give an object, such as {name}(...)."
        )
    if extractor is not None and not isinstance(extractor, Extractor):
        raise OptionError(
            f"subgraphs is {extractor!r}; give an extractor, such as gnnak.EgoNets(3)."
        )
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
