"""Check that a user's graphs are PyG `Data` objects, one for each graph."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from gnnak.errors import GraphError, OptionError
from gnnak.typing import as_count
from gnnak.wording import counted, described, kind_of


def check_is_list(graphs: object) -> None:
    """Raise `GraphError` if a user gave one `Data` or `Batch` instead of a list."""
    from torch_geometric.data import Batch, Data  # takes seconds to import

    if isinstance(graphs, Batch):
        raise GraphError(
            "this is one Batch; give a list of its graphs, batch.to_data_list()."
        )
    if isinstance(graphs, Data):
        raise GraphError("this is one Data; give a list of them.")


def check_is_graph(number: int, value: object) -> None:
    """Raise `GraphError` unless a value is a PyG `Data` of one graph.

    Args:
        number: The position of the value in the list of graphs, for the message.
        value: The value.
    """
    from torch_geometric.data import Batch, Data

    if isinstance(value, Batch):
        size = getattr(value, "_num_graphs", None)
        content = "" if size is None else f" of {counted(size, 'graph')}"
        raise GraphError(
            f"graph {number} is a Batch{content}; give the graphs themselves, for "
            "example batch.to_data_list()."
        )
    if not isinstance(value, Data):
        kind = kind_of(value)
        raise GraphError(f"graph {number} is {kind}; give PyG Data objects.")


def check_has_values(fields: Iterable[tuple[str, object]]) -> None:
    """Raise `GraphError` if a field of the graphs is on PyTorch's meta device.

    Args:
        fields: The name and the value of each field, of all graphs or of the first one.
    """
    for name, value in fields:
        if isinstance(value, Tensor) and value.is_meta:
            raise GraphError(
                f"{name} of the graphs is on the meta device, so it has no values; "
                "give graphs on 'cpu' or 'cuda'."
            )


def as_num_nodes(value: object, of: str = "") -> int:
    """Return the field `num_nodes` of a graph as an int.

    Args:
        value: The value of the field: a whole number, or a tensor of one.
        of: Text appended to the name of the field in the message.

    Raises:
        GraphError: If the field has another value.

    >>> as_num_nodes(2.5, " of graph 3")
    Traceback (most recent call last):
    gnnak.errors.GraphError: num_nodes of graph 3 is 2.5; give a whole number of at \
least 0.
    """
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    try:
        return as_count("num_nodes", value)
    except OptionError as error:
        raise GraphError(
            f"num_nodes{of} is {described(value)}; give a whole number of at least 0."
        ) from error
