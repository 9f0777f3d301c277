"""Find the tensors that calls of a model store in attributes of its modules.

A loss might read them, although it should read only the outputs of the model.
"""

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gnnak.training.own_loop.module_numbers import OF_LIBRARIES


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
            The tensors by module and name of the attribute.
        """
        found: dict[tuple[nn.Module, str], list[Tensor]] = {}
        for module in self.model.modules():
            for name, value in vars(module).items():
                if name in OF_LIBRARIES:
                    continue
                if not isinstance(value, Tensor | list | tuple | dict):
                    continue
                leaves = tree_leaves(value)
                tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
                tensors = [each for each in tensors if id(each) not in self._seen]
                if tensors:
                    found[module, name] = tensors
        for tensors in found.values():
            self._seen |= {id(tensor): tensor for tensor in tensors}
        return found
