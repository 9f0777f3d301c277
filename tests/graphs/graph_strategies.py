"""Random stores for property tests, and a comparison of all their fields."""

from dataclasses import fields

import torch
from hypothesis import strategies as st
from torch import Tensor

from gnnak.graphs import GraphBatch, GraphStore
from gnnak.graphs.store import with_reverse_edges


def int_tensor(values: list, columns: int | None = None) -> Tensor:
    tensor = torch.tensor(values, dtype=torch.long)
    return tensor if columns is None else tensor.reshape(-1, columns)


@st.composite
def stores(draw, max_graphs: int = 5, undirected: bool = False) -> GraphStore:
    """Any store, empty graphs, self loops and parallel edges included."""
    sizes = draw(st.lists(st.integers(0, 5), max_size=max_graphs))
    edges = []
    for size in sizes:
        node = st.integers(0, max(size - 1, 0))
        longest = 8 if size else 0
        edges.append(draw(st.lists(st.tuples(node, node), max_size=longest)))
    counts = [len(pairs) for pairs in edges]
    flat = [pair for pairs in edges for pair in pairs]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))

    def numbers(rows: int) -> Tensor | None:
        kind = draw(st.sampled_from(["none", "whole", "real"]))
        if kind == "none":
            return None
        whole = torch.randint(-2, 3, (rows, 2), generator=generator)
        return whole if kind == "whole" else whole / 2

    node_targets = draw(st.booleans())
    y = numbers(sum(sizes) if node_targets else len(sizes))
    store = GraphStore(
        int_tensor(sizes),
        int_tensor(counts),
        int_tensor(flat, 2).t().contiguous(),
        numbers(sum(sizes)),
        numbers(sum(counts)),
        y,
        node_targets and y is not None,
    ).check()
    return with_reverse_edges(store) if undirected else store


def assert_same(first: object, second: object) -> None:
    """All fields of two records are the same, to the bit and the dtype."""
    assert type(first) is type(second)
    for field in fields(first):  # type: ignore[arg-type]
        one, other = getattr(first, field.name), getattr(second, field.name)
        if isinstance(one, Tensor):
            assert one.dtype == other.dtype, field.name
            assert one.tolist() == other.tolist(), field.name
            assert one.shape == other.shape, field.name
        elif isinstance(one, GraphStore | GraphBatch):
            assert_same(one, other)
        else:
            assert one == other, field.name
