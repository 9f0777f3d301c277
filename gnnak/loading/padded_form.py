"""Look up the padded form of a PyG batch, with the present fields of the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from gnnak.loading.forms import (
    FORM,
    STORED,
    PaddedForm,
    Unpadded,
    can_pad,
    describe_obstacle,
    is_structure,
    version_of,
)
from gnnak.loading.items import Item


def padded_form(batch: Any) -> PaddedForm | str:
    """Return the padded form of a PyG batch, with the present fields of the batch.

    A batch that the loader has not padded is padded now. A field that was added,
    replaced or changed in place since the batch was padded is padded now, with zeros.

    Args:
        batch: A batch of a `GraphLoader`, or anything else.

    Returns:
        The padded form, or a text that says why there is none.
    """
    form: Any = getattr(batch, "__dict__", {}).get(FORM)
    if isinstance(form, Unpadded | PaddedForm):
        form.padder.demand.use()
    if isinstance(form, Unpadded):
        form = form.pad(batch)
        if isinstance(form, PaddedForm):
            batch.__dict__[FORM] = form
    if isinstance(form, str):
        return form
    if not isinstance(form, PaddedForm):
        return (
            "this batch has no padded form; use batches of a GraphLoader on the GPU, "
            "without pad=False and without a Budget"
        )
    now = dict(batch._store.items())
    given, extra = form.item.batch, dict(form.item.extra)
    for name in form.fields.keys() - now.keys():
        return f"the field {name!r} of the batch was removed"
    for name, value in now.items():
        before, version, axis = form.fields.get(name, (None, 0, None))
        same = value is before and version == version_of(value)
        if same and not getattr(value, "requires_grad", False):
            continue
        padded = None
        if not is_structure(name, before):
            padded = _pad(value, axis or _axis_of(value, form.item), form.item)
        if padded is None:
            return describe_obstacle(name, value)
        if name in STORED and name not in extra:
            given = replace(given, **{name: padded})  # type: ignore[arg-type]
        else:
            extra[name] = padded
    return replace(form, item=replace(form.item, batch=given, extra=extra))


def _axis_of(value: object, item: Item) -> str | None:
    """Return the axis of a field, by its number of rows; None if it is not unique."""
    assert item.sizes is not None
    if not isinstance(value, Tensor) or not value.dim():
        return None
    names = [n for n in ("graphs", "nodes", "edges") if item.sizes[n] == value.size(0)]
    return names[0] if len(names) == 1 else None


def _pad(value: object, axis: str | None, item: Item) -> Tensor | None:
    """Return a field with zeros as padding; None if the field cannot be padded."""
    assert item.sizes is not None
    if axis is None or not can_pad(value, item.sizes[axis], item.batch.device):
        return None
    assert isinstance(value, Tensor)
    padded = value.new_zeros(getattr(item.shape, axis), *value.shape[1:])
    padded[: value.size(0)] = value
    return padded
