"""Count the tensor operations of a call, and those that synchronise on a GPU."""

from collections.abc import Callable

from torch.utils._python_dispatch import TorchDispatchMode

VIEWS = ("select.", "slice.", "view.", "unbind.", "detach.", "alias.", "unsqueeze.")
"""Operations that compute nothing; they are counted only on request."""
SYNCHRONISING = ("_local_scalar_dense.", "nonzero.", "masked_select.", "equal.")
"""Operations after which the host waits for a GPU."""


class OperationCount(TorchDispatchMode):
    """Counts the tensor operations in a `with` block.

    Args:
        views: Whether views are counted, too.

    Attributes:
        names: The names of all operations, in order.
    """

    def __init__(self, views: bool = False) -> None:
        super().__init__()
        self.views = views
        self.names: list[str] = []

    @property
    def total(self) -> int:
        """Number of operations."""
        return len(self.names)

    @property
    def synchronising(self) -> int:
        """Number of operations that would synchronise on a GPU.

        `tolist` is not counted, since it is not an operation on a CPU.
        """
        return sum(name.startswith(SYNCHRONISING) for name in self.names)

    def __torch_dispatch__(
        self, function: Callable, types: object, args: tuple = (), kwargs: object = None
    ) -> object:
        name = str(function).removeprefix("aten.")
        if self.views or not name.startswith(VIEWS):
            self.names.append(name)
        return function(*args, **(kwargs or {}))  # type: ignore[arg-type]
