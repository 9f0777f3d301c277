"""Choose the modules of a model that are uplifted, by name or type."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import nn

from gnnak.errors import OptionError

Selector = str | type
"""A name of a module, such as "encoder.conv1", which may contain `*`; the name of a
class; or a class."""
Selectors = Selector | Sequence[Selector] | None
"""One selector or several; None = no selector is given."""
T = TypeVar("T")


def matches(selector: Selector, name: str, module: nn.Module) -> bool:
    """Return whether a selector names a module, a module around it, or its type.

    Args:
        selector: Name, pattern or class; see `Selector`.
        name: Name of the module in the model, as in `model.named_modules()`.
        module: The module.

    >>> matches("convs.*", "convs.0", nn.Identity())
    True
    >>> matches("encoder", "encoder.convs.0", nn.Identity())
    True
    """
    if isinstance(selector, type):
        return isinstance(module, selector)
    if selector in {cls.__name__ for cls in type(module).__mro__[:-1]}:
        return True
    parts = name.split(".")
    heads = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return any(fnmatchcase(head, selector) for head in heads)


def listed(option: str, given: Selectors) -> list[Selector]:
    """Return selectors as a list.

    Args:
        option: Name of the option, for the error message.
        given: One selector, several or None.

    Raises:
        OptionError: If a selector is neither a string nor a class.
    """
    if given is None:
        return []
    many: list[Selector] = []
    if isinstance(given, str | type) or not isinstance(given, Iterable):
        many.append(given)
    else:
        many.extend(given)
    for selector in many:
        if not isinstance(selector, str | type):
            raise OptionError(
                f"{option} has {selector!r}; give names of modules, such as 'convs.0', "
                "or classes, such as GCNConv."
            )
    return many


def find(given: Mapping[Selector, T], name: str, module: nn.Module) -> T | None:
    """Return the value of the first selector that matches a module, else None."""
    for selector, value in given.items():
        if matches(selector, name, module):
            return value
    return None


def check_used(
    option: str, selectors: Sequence[Selector], modules: Mapping[str, nn.Module]
) -> None:
    """Raise `OptionError` if a selector matches no module.

    Args:
        option: Name of the option, for the error message.
        selectors: The selectors.
        modules: The modules to choose from, by name.
    """
    for selector in selectors:
        if not any(matches(selector, *item) for item in modules.items()):
            shown = repr(selector)
            if isinstance(selector, type):
                shown = selector.__name__
            known = ", ".join(
                f"{name or 'the model'} ({type(module).__name__})"
                for name, module in modules.items()
            )
            raise OptionError(
                f"{option}={shown} matches no conv of the model: {known}."
            )
