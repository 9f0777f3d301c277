"""Copy and pickle tensors without the other tensors that share their memory."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor

UNSAVED = "_unsaved"
"""The attribute for values that hold only tensors of other attributes; deep copies and
pickles leave it out."""


class Compact:
    """Base class of dataclasses of tensors; deep copies and pickles are compact.

    A data loader splits one block of memory into the tensors of many batches. Python
    would pickle the whole block once for each of these tensors.
    """

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for a pickle or a deep copy."""
        kept = {name: value for name, value in vars(self).items() if name != UNSAVED}
        return _without_others(kept)

    def __copy__(self) -> Self:
        """Return a shallow copy, which shares all tensors."""
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        return found


def _without_others(value: Any) -> Any:
    """Copy tensors that use a part of their memory only; also those in a dict."""
    if isinstance(value, dict):
        return {name: _without_others(part) for name, part in value.items()}
    if isinstance(value, Tensor) and value.untyped_storage().nbytes() > value.nbytes:
        return value.clone()
    return value
