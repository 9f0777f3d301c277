"""Find the tensors that calls of a model store in attributes of its modules.

A loss might read them, although it should read only the outputs of the model.
"""

from collections.abc import Iterator

from torch import Tensor, nn

from gnnak.training.own_loop.module_numbers import MOST_LEVELS, OF_LIBRARIES


class StoredTensors:
    """Tells which tensors a call of a model has stored.

    These are attributes of modules, and entries of lists, tuples and dicts that are
    attributes of modules, but no weights and buffers.

    Args:
        model: The model, before the call.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        # References to all tensors seen, since the id of a freed tensor may be used
        # again.
        self._seen: dict[int, Tensor] = {}
        self.new()

    def new(self) -> dict[tuple[nn.Module, str], list[Tensor]]:
        """Return the tensors that were stored since the last call of this method.

        Returns:
            The tensors by module and name of the attribute. Entries of dicts have names
            of their own: a model may cache tensors by the number of nodes.
        """
        found: dict[tuple[nn.Module, str], list[Tensor]] = {}
        for module in self.model.modules():
            for name, value in _attributes(module):
                inside = _tensors_in(value)
                tensors = [each for each in inside if id(each) not in self._seen]
                if tensors:
                    found[module, name] = tensors
        for tensors in found.values():
            self._seen |= {id(tensor): tensor for tensor in tensors}
        return found


def _attributes(module: nn.Module) -> Iterator[tuple[str, object]]:
    """Yield the names and values of a module's attributes, and of entries of dicts."""
    for name, value in vars(module).items():
        if name in OF_LIBRARIES:
            continue
        if isinstance(value, dict):
            for key, entry in dict.items(value):
                yield f"{name}[{key!r}]", entry
        else:
            yield name, value


def _tensors_in(value: object, levels: int = MOST_LEVELS) -> Iterator[Tensor]:
    """Yield a value that is a tensor, or the tensors in a list, tuple or dict.

    Args:
        value: Any value.
        levels: Number of levels of lists, tuples and dicts to look at.
    """
    if isinstance(value, Tensor):
        yield value
    elif levels and isinstance(value, dict | list | tuple):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _tensors_in(entry, levels - 1)
