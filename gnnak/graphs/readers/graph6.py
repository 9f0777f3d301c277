r"""The graph6 format: one simple undirected graph per line, in printable characters.

A line has the number of nodes, n, then the bits of the upper triangle of the adjacency
matrix, column by column: $(0,1), (0,2), (1,2), (0,3), \ldots$, padded with zeros. Six
bits are a number, written as the character with this number plus 63 as its code. n is
one character if n <= 62, else `~` and three characters, or `~~` and six. See
https://users.cecs.anu.edu.au/~bdm/data/formats.txt
"""

import numpy as np
import torch

from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs.readers.files import FilePath, read_bytes, write_bytes
from gnnak.graphs.store import (
    GraphStore,
    store_graphs,
    with_reverse_edges,
    without_reverse_edges,
)

HEADER = b">>graph6<<"
OTHERS = {b":": "sparse6", b"&": "digraph6", b";": "incremental sparse6"}


def read_graph6(path: FilePath) -> GraphStore:
    """Read a graph6 file as `parse_graph6` does.

    Args:
        path: The file, with one graph per line.
    """
    return parse_graph6(read_bytes(path), name=str(path))


def parse_graph6(text: str | bytes, name: str = "graph6 text") -> GraphStore:
    """Parse graph6 text: one graph per line. Skips blank lines and the header.

    Args:
        text: One or more lines in the graph6 format.
        name: Name of the text in error messages.

    Returns:
        The graphs; the reverse edge of each edge comes directly after it.

    >>> parse_graph6("Bw").edge_index
    tensor([[0, 1, 0, 2, 1, 2],
            [1, 0, 2, 0, 2, 1]])
    """
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    graphs = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        line = line.strip()
        if number == 1:
            line = line.removeprefix(HEADER).strip()
        if not line:
            continue
        try:
            size, ends = _decode(line)
        except ValueError as error:
            told = f"{name}, line {number}: {error}"
            raise FileFormatError(f"{told}; see docs/formats.md#graph6.") from error
        graphs.append((torch.from_numpy(ends), size))
    return with_reverse_edges(store_graphs(graphs))


def format_graph6(store: GraphStore) -> str:
    r"""Return the graphs of a store as graph6 text, one per line, without features.

    `GraphError` is raised for self loops, duplicate edges and one-way edges.

    >>> format_graph6(parse_graph6("Bw\n?\n@"))
    'Bw\n?\n@\n'
    """
    bare = GraphStore(store.num_nodes, store.num_edges, store.edge_index).check()
    once = without_reverse_edges(bare.to("cpu"))
    if once is None:
        told = "an edge has no reverse edge"
        raise GraphError(f"{told}; graph6 is for undirected graphs only.")
    sizes = once.num_nodes.tolist()
    columns = np.split(once.edge_index.numpy(), once.edge_ptr[1:-1].tolist(), axis=1)
    lines = []
    for graph, (size, ends) in enumerate(zip(sizes, columns, strict=False)):
        low, high = ends.min(axis=0), ends.max(axis=0)
        place = high * (high - 1) // 2 + low
        if (low == high).any() or np.unique(place).size != place.size:
            told = f"graph {graph} has a self loop or an edge twice"
            raise GraphError(f"{told}; graph6 is for simple graphs only.")
        lines.append(_encode(size, place) + "\n")
    return "".join(lines)


def write_graph6(path: FilePath, store: GraphStore) -> None:
    """Write the graphs of a store to a graph6 file, as `format_graph6` does.

    Args:
        path: The file; an existing file is replaced.
        store: The graphs, simple and undirected.
    """
    write_bytes(path, format_graph6(store).encode("ascii"))


def _decode(line: bytes) -> tuple[int, np.ndarray]:
    """Return the number of nodes, and the edges, [2, e]; or raise `ValueError`."""
    if line[:1] in OTHERS:
        raise ValueError(f"this is {OTHERS[line[:1]]}; convert it to graph6")
    value = np.frombuffer(line, np.uint8)
    wrong = np.flatnonzero((value < 63) | (value > 126))
    if wrong.size:
        at = int(wrong[0])
        told = f"byte {at + 1} is {int(value[at])}"
        raise ValueError(f"{told}; graph6 has only 63 to 126 ('?' to '~')")
    size, rest = _decode_size(value - 63)
    pairs = size * (size - 1) // 2
    if rest.size != -(-pairs // 6):
        told = f"{size} nodes need {-(-pairs // 6)} characters after their number"
        raise ValueError(f"{told}, got {rest.size}; the line is truncated or damaged")
    bits = np.unpackbits(rest[:, None], axis=1)[:, 2:].reshape(-1)
    place = np.flatnonzero(bits)
    if place.size and place[-1] >= pairs:
        raise ValueError("the padding bits are not zero; the line is damaged")
    return size, _ends(place)


def _decode_size(six: np.ndarray) -> tuple[int, np.ndarray]:
    start, stop = (0, 1) if six[0] < 63 else (1, 4)
    if six[:2].tolist() == [63, 63]:
        start, stop = 2, 8
    if six.size < stop:
        raise ValueError("the number of nodes is incomplete; the line is truncated")
    size = 0
    for digit in six[start:stop].tolist():
        size = size * 64 + digit
    return size, six[stop:]


def _ends(place: np.ndarray) -> np.ndarray:
    """Convert positions in the sequence of bits to edges, [2, e]."""
    high = ((np.sqrt(8.0 * place + 1) + 1) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > place
    high += high * (high + 1) // 2 <= place
    return np.stack([place - high * (high - 1) // 2, high])


def _encode(size: int, place: np.ndarray) -> str:
    digits, prefix = (1, "") if size < 63 else (3, "~") if size < 258048 else (6, "~~")
    places = reversed(range(digits))
    number = "".join(chr(63 + (size >> 6 * place & 63)) for place in places)
    bits = np.zeros((-(-(size * (size - 1) // 2) // 6), 6), np.uint8)
    bits.reshape(-1)[place] = 1
    six = bits @ np.array([32, 16, 8, 4, 2, 1], np.uint8) + np.uint8(63)
    return prefix + number + six.tobytes().decode("ascii")
