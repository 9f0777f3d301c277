"""Loaders of the real-world data sets: superpixels, molecules and the TU collection."""

import gzip
import hashlib
import io
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnak.datasets.archive import fetch, open_member, opened_archive, read_tensors
from gnnak.datasets.assemble import build, download, read_or_download
from gnnak.datasets.cache import Request, cached_path, find_file, load_cached
from gnnak.datasets.record import Dataset, DatasetInfo
from gnnak.errors import FileFormatError, GraphError
from gnnak.graphs import GraphFile, GraphStore, from_pyg, read_npz
from gnnak.graphs.ragged import counts_of, pointers
from gnnak.graphs.readers.files import refusing
from gnnak.graphs.readers.npz import MASKS, split_of_masks
from gnnak.graphs.readers.smiles import ATOM_FEATURES, BOND_FEATURES
from gnnak.graphs.store import store_graphs, with_new_edges, with_reverse_edges
from gnnak.nn.features import Categorical, Continuous
from gnnak.typing import check_count

SPLITS = ("train", "val", "test")
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, RuntimeError)
"""Errors that reading malformed data raises."""


def concatenated(stores: Iterable[GraphStore]) -> GraphFile:
    parts = list(stores)
    sizes = torch.tensor([len(part) for part in parts])
    split = torch.arange(len(parts)).repeat_interleave(sizes)
    return GraphFile(GraphStore.concatenate(parts), split)


SIZES = {
    "zinc": ((10_000, 1_000, 1_000), 277_864),
    "cifar10": ((45_000, 5_000, 10_000), 7_058_005),
    "molhiv": ((32_901, 4_113, 4_113), 1_049_163),
}
"""Sizes of data sets without a checksum in `PINNED`: the numbers of training,
validation and test graphs, and the number of nodes in all graphs."""


def _checked(name: str, file: GraphFile) -> GraphFile:
    assert file.split is not None
    parts = tuple(file.split.bincount(minlength=3).tolist())
    found = parts, int(file.store.num_nodes.sum())
    known = SIZES.get(name, found)
    if found != known:
        shown, wanted = (f"{' / '.join(map(str, n))} graphs" for n, _ in (found, known))
        raise FileFormatError(
            f"the archive of {name} has {shown} (train / validation / test) with "
            f"{found[1]} nodes, not {wanted} with {known[1]} nodes; it was changed."
        )
    return file


CIFAR10_URL = "https://data.pyg.org/datasets/benchmarking-gnns/CIFAR10_v2.zip"
CIFAR10_MEMBER = "CIFAR10_v2.pt"


def fetch_cifar10(folder: Path) -> GraphFile:
    """Download CIFAR10; `x`, [n, 5], has red, green, blue, row and column as 0..255."""
    with (
        opened_archive(CIFAR10_URL, folder, "CIFAR10_v2.zip") as archive,
        tempfile.TemporaryFile(dir=folder) as content,
    ):
        with open_member(archive, CIFAR10_MEMBER) as member:
            shutil.copyfileobj(member, content)
        content.seek(0)
        told = f"{CIFAR10_MEMBER} is damaged, or contains more than tensors"
        with refusing(f"{told}; it is not read, because it could run code."):
            parts = torch.load(content, map_location="cpu", weights_only=True)
        with refusing(f"{CIFAR10_MEMBER} does not contain superpixels.", *MALFORMED):
            file = concatenated(_superpixels(part) for part in parts)
        return _checked("cifar10", file)


def _superpixels(graphs: list[dict[str, Any]]) -> GraphStore:
    """Convert dicts of `x` (colours), `pos`, `edge_index`, `y` to undirected graphs."""
    colour = torch.cat([graph["x"] for graph in graphs])
    place = torch.cat([graph["pos"] for graph in graphs])
    x = torch.cat([colour, place], dim=1).mul(255).round().clamp(0, 255).long()
    y = torch.cat([torch.as_tensor(graph["y"]).view(1).long() for graph in graphs])
    bare = store_graphs([(graph["edge_index"], len(graph["x"])) for graph in graphs])
    return with_reverse_edges(_merged(replace(bare, x=x, y=y).check()))


def _merged(store: GraphStore) -> GraphStore:
    graph = torch.arange(len(store)).repeat_interleave(store.num_edges)
    total, first = int(store.node_ptr[-1]), store.node_ptr[graph]
    low, high = (store.edge_index + first).sort(dim=0).values
    pair = (low * total + high).unique()
    ends = torch.stack([pair // total, pair % total])
    graph = torch.bucketize(ends[0], store.node_ptr[1:], right=True)
    return with_new_edges(store, graph, ends - store.node_ptr[graph], None)


MOLECULES = "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1"
"""Archive of all 250 000 molecules of ZINC, as pickles of tensors."""
INDEX = (
    "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/{commit}/"
    "data/molecules/{split}.index"
)
"""Address of a file that lists which molecules of `MOLECULES` are in ZINC-12K."""
COMMITS = {
    "train": "1068260d2d58cbe616d3d34de9a3c1fbf8332715",
    "val": "7125b402b4f386e1897549cebf76fcab32738e21",
    "test": "7125b402b4f386e1897549cebf76fcab32738e21",
}


def fetch_zinc(folder: Path) -> GraphFile:
    positions = {}
    for split in SPLITS:
        url = INDEX.format(commit=COMMITS[split], split=split)
        index = fetch(url, folder, f"zinc-{split}.index")
        positions[split] = index.read_text().replace(",", " ").split()
    with opened_archive(MOLECULES, folder, "molecules.zip") as archive:
        parts = [_part(archive, *each) for each in positions.items()]
        return _checked("zinc", concatenated(parts))


def _part(archive: zipfile.ZipFile, split: str, positions: list[str]) -> GraphStore:
    name = f"molecules/{split}.pickle"
    with open_member(archive, name) as file:
        molecules = read_tensors(file)
    told = f"molecules.zip: {name} does not contain the molecules of ZINC."
    with refusing(told, *MALFORMED):
        return graphs_of([molecules[int(position)] for position in positions])


def graphs_of(molecules: Sequence[dict[str, Any]]) -> GraphStore:
    """Convert molecules (dicts of tensors) to graphs; bond type 0 means no bond."""
    atoms = [m["atom_type"].decode().long().view(-1, 1) for m in molecules]
    bonds = [m["bond_type"].decode().long() for m in molecules]
    edges = [matrix.nonzero().t() for matrix in bonds]
    types = [matrix[tuple(ends)] for matrix, ends in zip(bonds, edges, strict=True)]
    targets = [m["logP_SA_cycle_normalized"].decode().float() for m in molecules]
    return replace(
        store_graphs(list(zip(edges, map(len, atoms), strict=True))),
        x=torch.cat(atoms),
        edge_attr=torch.cat(types)[:, None],
        y=torch.cat([target.view(1) for target in targets]),
    ).check()


TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip"
TU_NAMES = {
    "mutag": "MUTAG",
    "ptc": "PTC_MR",
    "proteins": "PROTEINS",
    "nci1": "NCI1",
    "imdb-b": "IMDB-BINARY",
    "reddit-b": "REDDIT-BINARY",
}
"""Maps names of data sets in gnnak to names in the TU collection."""


def fetch_tu(name: str, folder: Path) -> GraphFile:
    """Download a data set of the TU collection; drop self loops and edge labels."""
    title = TU_NAMES[name]
    with opened_archive(TU_URL.format(name=title), folder, f"{title}.zip") as archive:

        def read(part: str) -> Tensor:
            with open_member(archive, f"{title}/{title}_{part}.txt") as file:
                rows = np.loadtxt(file, np.int64, delimiter=",", ndmin=2)
            return torch.from_numpy(rows)

        told = f"{title}.zip is not a data set of the TU collection"
        with refusing(told, *MALFORMED, reason=True):
            graph = read("graph_indicator")[:, 0] - 1
            labels = read("graph_labels")[:, 0]
            edges = read("A").t() - 1
            has_x = f"{title}/{title}_node_labels.txt" in archive.namelist()
            x = read("node_labels")[:, :1] if has_x else None
            return GraphFile(_tu_store(graph, edges, x, labels))


def _tu_store(
    graph: Tensor, edges: Tensor, x: Tensor | None, labels: Tensor
) -> GraphStore:
    """Build a store from labels of nodes, `x`, [n, 1], and of graphs, `labels`, [g]."""
    nodes, graphs = graph.numel(), labels.numel()
    if (graph.diff() < 0).any() or not 0 <= int(graph[0]) <= int(graph[-1]) < graphs:
        raise ValueError("the nodes are not sorted by graph")
    if not 0 <= int(edges.min()) <= int(edges.max()) < nodes:
        raise ValueError(f"an edge joins a node beyond the {nodes} nodes")
    code = (edges[0] * nodes + edges[1])[edges[0] != edges[1]].unique()
    source, target = code // nodes, code % nodes
    num_nodes = counts_of(graph, graphs)
    first = pointers(num_nodes)[:-1][graph[source]]
    return GraphStore(
        num_nodes,
        counts_of(graph[source], graphs),
        torch.stack([source - first, target - first]),
        x=None if x is None else x - x.min(),
        y=labels.unique(return_inverse=True)[1],
    ).check()


def fetch_nodes(name: str, folder: Path) -> GraphFile:
    """Download a graph through PyG; if it has no masks, split its nodes at random."""
    from torch_geometric.datasets import Amazon, Coauthor, HeterophilousGraphDataset

    root = str(folder / name)
    kinds: dict[str, Callable[[], Any]] = {
        "minesweeper": lambda: HeterophilousGraphDataset(root, "Minesweeper"),
        "tolokers": lambda: HeterophilousGraphDataset(root, "Tolokers"),
        "computers": lambda: Amazon(root, "Computers"),
        "coauthor-physics": lambda: Coauthor(root, "Physics"),
    }
    data = kinds[name]()[0]
    masks = {key: data[key] for key in MASKS if key in data}
    split = node_split(data.y) if not masks else split_of_masks(masks, data.num_nodes)
    return GraphFile(from_pyg([data], node_targets=True), split)


def node_split(y: Tensor) -> Tensor:
    """Split nodes of each class in `y`: 60 % training, 20 % validation, 20 % test.

    >>> node_split(torch.zeros(5, dtype=torch.long)).bincount()
    tensor([3, 1, 1])
    """
    order = torch.from_numpy(np.random.default_rng(80).permutation(y.numel()))
    order = order[torch.argsort(y[order], stable=True)]
    rank, size = torch.empty_like(order), y.bincount()
    rank[order] = torch.arange(order.numel()) - pointers(size)[y[order]]
    share = (rank + 0.5) / size[y]
    return (share >= 0.6).long() + (share >= 0.8).long()


def load_nodes(info: DatasetInfo, request: Request) -> Dataset:
    """Load one graph with classes of nodes; ignore the seed and target of `request`."""
    file_name = f"node-{info.name}.npz"
    path = find_file(file_name, request.data_dir)
    if path is not None:
        return build(info, read_npz(path, required=("y",)), path.name)
    # PyG stores what it downloads, so there is no cache file.
    file = download(file_name, partial(fetch_nodes, info.name))
    file = replace(file, store=with_reverse_edges(file.store))
    return build(info, file, "downloaded")


OGB_URL = "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/{name}.zip"
OGB_NAMES = {"molhiv": "hiv", "molpcba": "pcba"}
"""Maps names of data sets in gnnak to names of archives at OGB."""
MAX_TEXT = 2**31
"""Largest size of a CSV file, in bytes."""
EMPTY = re.compile(rb"(?:(?<=[,\n])|^)(?=[,\r\n]|$)")
"""Matches a missing number in a CSV file."""


def fetch_ogb(name: str, folder: Path) -> GraphFile:
    title = OGB_NAMES[name]
    url = OGB_URL.format(name=title)
    with opened_archive(url, folder, f"ogbg-{title}.zip") as archive:

        def read(part: str, kind: Any = np.int64) -> Tensor:
            with open_member(archive, f"{title}/{part}.csv.gz") as member:
                content = gzip.GzipFile(fileobj=member).read(MAX_TEXT + 1)
            if len(content) > MAX_TEXT:
                raise ValueError(f"{part} has more than {MAX_TEXT} bytes")
            return read_csv(content, kind)

        told = f"{title}.zip is not a molecule data set of OGB"
        with refusing(told, *MALFORMED, EOFError, gzip.BadGzipFile, reason=True):
            store = GraphStore(
                read("raw/num-node-list")[:, 0],
                read("raw/num-edge-list")[:, 0],
                read("raw/edge").t().contiguous(),
                x=read("raw/node-feat"),
                edge_attr=read("raw/edge-feat"),
                y=read("raw/graph-label", np.float32),
            ).check()
            split = torch.full((len(store),), -1)
            for code, part in enumerate(("train", "valid", "test")):
                split[read(f"split/scaffold/{part}")[:, 0]] = code
            file = GraphFile(with_reverse_edges(store), split).check()
        return _checked(name, file)


def read_csv(content: bytes, kind: Any) -> Tensor:
    r"""Parse a CSV file as a matrix of dtype `kind`; empty float cells become NaN."""
    content = content.rstrip(b"\r\n")
    if kind is np.float32:
        content = EMPTY.sub(b"nan", content)
    lines = io.BytesIO(content)
    return torch.from_numpy(np.loadtxt(lines, kind, delimiter=",", ndmin=2))


def folds_by_group(group: Tensor, num_folds: int, seed: int = 0) -> Tensor:
    """Put each group of graphs into one random fold; return test masks, [folds, g]."""
    check_count("num_folds", num_folds, least=2)
    groups = int(group.max()) + 1 if group.numel() else 0
    order = np.random.default_rng([seed, 77]).permutation(groups)
    fold = torch.empty(groups, dtype=torch.long)
    fold[torch.from_numpy(order)] = torch.arange(groups) % num_folds
    return (fold[group] == torch.arange(num_folds)[:, None]).long()


def stratified_folds(y: Tensor, num_folds: int, seed: int = 0) -> Tensor:
    """Return test masks, [folds, g], for folds with equal shares of the classes `y`."""
    check_count("num_folds", num_folds, least=2)
    order = torch.from_numpy(np.random.default_rng([seed, 78]).permutation(y.numel()))
    order = order[torch.argsort(y[order], stable=True)]
    fold = torch.empty_like(y)
    fold[order] = torch.arange(y.numel()) % num_folds
    return (fold == torch.arange(num_folds)[:, None]).long()


NEIGHBORS = 8
CHUNK = 256


def superpixel_edges(store: GraphStore) -> GraphStore:
    r"""Join each superpixel to eight of the nine superpixels most similar in position.

    The similarity of nodes $i$ and $j$ at distance $d_{ij}$ is $(A_{ij} + A_{ji}) / 2$
    with $A_{ij} = \exp\big(-(d_{ij} / s_i)^2\big)$, where $s_i$ is the mean of $d_{ij}$
    over the eight nodes nearest to $i$. `numpy.argpartition` returns the nine
    superpixels in no particular order. As in the published graphs, the last one that it
    returns is left out. `x`, [n, 5], is scaled to 0..1.
    """
    if store.x is None or store.x.size(1) != 5:
        raise GraphError("superpixels need x [n, 5]: red, green, blue, row, column.")
    ptr = pointers(store.num_nodes)
    position = store.x[:, 3:].double() / 255
    none = torch.zeros(0, dtype=torch.long)
    parts = [(none, none.view(2, 0))]
    for size in store.num_nodes.unique().tolist():
        for graphs in (store.num_nodes == size).nonzero().flatten().split(CHUNK):
            nodes = ptr[graphs, None] + torch.arange(size)
            parts.append(_edges_of(graphs, position[nodes]))
    graph, edges = (torch.cat(part, dim=-1) for part in zip(*parts, strict=True))
    edges, x = edges[:, graph.argsort(stable=True)], store.x.float() / 255
    counts = counts_of(graph, len(store))
    return GraphStore(store.num_nodes, counts, edges, x, y=store.y)


def _edges_of(graphs: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """Find the edges of graphs of one size: return each edge's graph, [e], and ends."""
    size = position.size(1)
    similarity = _similarity(position)
    if size <= NEIGHBORS + 1:
        joined = ~torch.eye(size, dtype=torch.bool).expand_as(similarity)
    else:
        joined = torch.zeros_like(similarity, dtype=torch.bool)
        joined.scatter_(2, _neighbors(similarity), True)
        joined |= joined.transpose(1, 2).clone()
    row, source, target = joined.nonzero().t()
    return graphs[row], torch.stack([source, target])


def _similarity(position: Tensor) -> Tensor:
    """Return the similarity of all pairs of nodes of each graph, [g, nodes, nodes]."""
    mode = "donot_use_mm_for_euclid_dist"
    distance = torch.cdist(position, position, compute_mode=mode)
    # The nearest node of a node is the node itself, with distance 0.
    near = distance.topk(min(NEIGHBORS + 1, distance.size(2)), dim=2, largest=False)
    scale = near.values.sum(dim=2, keepdim=True) / NEIGHBORS
    similarity = torch.exp(-((distance / scale.clamp(min=1e-8)) ** 2))
    return (similarity + similarity.transpose(1, 2)) / 2


def _neighbors(similarity: Tensor) -> Tensor:
    """Return each node's neighbours as in `superpixel_edges`, [g, nodes, 8]."""
    size = similarity.size(2)
    itself = torch.eye(size, dtype=torch.bool)
    order = similarity.masked_fill(itself, -1.0).argsort(dim=2, stable=True)
    # For 32-bit and 64-bit numbers, argpartition's order depends on the processor.
    place = torch.arange(size, dtype=torch.int16).expand_as(order)
    rank = torch.empty(order.shape, dtype=torch.int16).scatter_(2, order, place)
    parted = np.argpartition(rank.numpy(), size - NEIGHBORS - 2, axis=2)
    return torch.from_numpy(parted[:, :, -NEIGHBORS - 1 : -1])


ATOM_TYPES, BOND_TYPES = 28, 4
"""Number of atom types and of bond types in ZINC; bond type 0 does not occur."""
MAX_PIXEL = 255.0
"""Largest colour or coordinate in the superpixel file."""


def load_zinc(info: DatasetInfo, request: Request) -> Dataset:
    file, source = read_or_download("zinc12k.npz", request, fetch_zinc)
    atoms, bonds = Categorical((ATOM_TYPES,)), Categorical((BOND_TYPES,))
    return build(info, file, source, atoms, bonds)


def load_ogb(info: DatasetInfo, request: Request) -> Dataset:
    fetched = partial(fetch_ogb, info.name)
    file, source = read_or_download(f"{info.name}.npz", request, fetched)
    atoms = Categorical(tuple(size for _, size, _ in ATOM_FEATURES))
    bonds = Categorical(tuple(size for _, size, _ in BOND_FEATURES))
    return build(info, file, source, atoms, bonds)


def load_tu(info: DatasetInfo, request: Request) -> Dataset:
    """Load a data set of the TU collection; draw ten folds if its file has none.

    As in the GIN paper, `x` is the one-hot node label or, in IMDB-B, the one-hot node
    degree. In REDDIT-B, all nodes have the same feature.
    """
    name = info.name
    required = () if name in ("imdb-b", "reddit-b") else ("x",)
    fetched = partial(fetch_tu, name)
    file, source = read_or_download(f"tu-{name}.npz", request, fetched, required)
    if file.folds is None and file.store.y is not None:
        folds = stratified_folds(file.store.y.long(), 10, request.seed)
        file = replace(file, folds=folds)
        source = f"{source}, folds drawn (seed {request.seed})"
    if name == "imdb-b":
        batch = file.store.union()
        degrees = counts_of(batch.edge_index[1], batch.num_nodes)
        file = replace(file, store=replace(file.store, x=degrees[:, None]))
    dataset = build(info, file, source)
    if name == "reddit-b":
        return dataset
    assert dataset.store.x is not None
    tags, index = dataset.store.x[:, 0].unique(return_inverse=True)
    x = torch.nn.functional.one_hot(index, tags.numel()).float()
    info = replace(dataset.info, node_features=Continuous(tags.numel()))
    return replace(dataset, info=info, store=replace(dataset.store, x=x))


def load_cifar10(info: DatasetInfo, request: Request) -> Dataset:
    """Load CIFAR10 as graphs of superpixels, joined by `superpixel_edges`."""
    file_name = "cifar10-superpixels.npz"
    path = find_file(file_name, request.data_dir)
    if path is None:
        fetched = partial(download, file_name, fetch_cifar10)
        pixels = load_cached(cached_path("cifar10-superpixels"), fetched)
    else:
        pixels = read_npz(path, allow_no_edges=True, required=("x",))
        x = pixels.store.x
        if x is None or x.size(1) != 5 or not ((x >= 0) & (x <= MAX_PIXEL)).all():
            told = "x must have five columns of numbers from 0 to 255"
            raise FileFormatError(f"{path.name}: {told}; give a file of cifar10.")
    file = pixels
    if not pixels.store.num_edges.any():
        key = cached_path("cifar10-edges", _digest(pixels.store))
        file = load_cached(key, partial(_with_edges, pixels, request))
    assert file.store.x is not None
    store = replace(file.store, x=file.store.x.float() / MAX_PIXEL)
    file = replace(file, store=store)
    return build(info, file, "downloaded" if path is None else path.name)


def _with_edges(pixels: GraphFile, request: Request) -> GraphFile:
    """Add the edges of `superpixel_edges`, in one direction only; `x` is unchanged."""
    parts, step = [], 16 * CHUNK
    total = len(pixels.store)
    for first in range(0, total, step):
        chosen = pixels.store.subset(slice(first, min(first + step, total)))
        joined = superpixel_edges(chosen)
        source, target = joined.edge_index  # each edge comes in both directions
        once, counts = joined.edge_index[:, source < target], joined.num_edges // 2
        parts.append(replace(joined, x=chosen.x, num_edges=counts, edge_index=once))
        request.progress(min(first + step, total), total)
    return replace(pixels, store=GraphStore.concatenate(parts))


def _digest(store: GraphStore) -> str:
    assert store.x is not None
    content = hashlib.sha256(store.num_nodes.numpy().tobytes())
    content.update(store.x.to(torch.uint8).numpy().tobytes())
    return content.hexdigest()[:16]
