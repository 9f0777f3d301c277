"""Refuse options of subgraph GNNs that have no effect on a model."""

from dataclasses import fields

from gnnak.errors import OptionError
from gnnak.models.members import MEMBERS, Member
from gnnak.models.options import FamilyOptions
from gnnak.typing import PairEncoding

SIZES: dict[str, PairEncoding] = {"max_distance": "distance", "num_steps": "rrwp"}
"""Maps options that set the size of an encoding of (root, node) to the encoding."""


def check_family_options(
    model: str, member: str | None, options: FamilyOptions
) -> None:
    """Raise `OptionError` if an option has no effect on a model.

    Options that have their default value are not checked.

    Args:
        model: The name of the model, for error messages.
        member: The subgraph GNN that the name begins with, a key of `MEMBERS`; None =
            the model is a base GNN, GNN-AK or GNN-AK+.
        options: The options; see `ModelOptions.family`.

    >>> check_family_options("ds-gin", "ds", FamilyOptions(order="SV"))
    Traceback (most recent call last):
    gnnak.errors.OptionError: model.family.order is 'SV', but ds-gin ignores this \
option; leave it out, or use a model whose name begins with sswl or sswl+.
    """
    for field in fields(options):
        name, value = field.name, getattr(options, field.name)
        if value == field.default:
            continue
        readers = [key for key, each in MEMBERS.items() if _reads(each, name)]
        if member not in readers:
            names = f"{', '.join(readers[:-1])} or {readers[-1]}"
            raise OptionError(
                f"model.family.{name} is {value!r}, but {model} ignores this option; "
                f"leave it out, or use a model whose name begins with {names}."
            )
        pairs = MEMBERS[member].pairs if options.pairs is None else options.pairs
        if name in SIZES and SIZES[name] not in pairs:
            raise OptionError(
                f"model.family.{name} is {value!r}, but the input of {model} has no "
                f"encoding {SIZES[name]!r}; leave the option out, or add the encoding "
                "to model.family.pairs."
            )


def _reads(member: Member, option: str) -> bool:
    """Return whether an option of `FamilyOptions` can have an effect on a member."""
    if option == "order":
        return member.takes_order
    return option == "reduce" or member.takes_pairs
