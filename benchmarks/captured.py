"""Find out which PyG convs and models `TrainingStep` captures, plain and uplifted.

Each is trained for a few epochs through `GraphLoader` and `TrainingStep`. Run on a GPU

    python -m benchmarks.captured [--out FILE]
"""

import argparse
import gc
import logging
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch

import gnnak
from benchmarks.markdown import markdown
from gnnak.datasets import load_dataset
from gnnak.graphs import to_pyg
from gnnak.training.records.results import Record, append_record, environment

WIDTH, GRAPHS, BATCH, EPOCHS = 32, 1280, 64, 3
DEGREES = torch.tensor([0, 40, 60, 30, 5])
PNA = {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": DEGREES}


def _linear() -> nn.Module:
    return nn.Linear(WIDTH, WIDTH)


CONVS: dict[str, Callable[[], nn.Module]] = {
    "GINConv": lambda: pyg.GINConv(_linear()),
    "GINEConv": lambda: pyg.GINEConv(_linear()),
    "GCNConv": lambda: pyg.GCNConv(WIDTH, WIDTH),
    "SAGEConv": lambda: pyg.SAGEConv(WIDTH, WIDTH),
    "GraphConv": lambda: pyg.GraphConv(WIDTH, WIDTH),
    "GATConv": lambda: pyg.GATConv(WIDTH, WIDTH),
    "GATv2Conv": lambda: pyg.GATv2Conv(WIDTH, WIDTH),
    "TransformerConv": lambda: pyg.TransformerConv(WIDTH, WIDTH),
    "PNAConv": lambda: pyg.PNAConv(WIDTH, WIDTH, **PNA),
    "TAGConv": lambda: pyg.TAGConv(WIDTH, WIDTH),
    "ChebConv": lambda: pyg.ChebConv(WIDTH, WIDTH, K=2),
    "ARMAConv": lambda: pyg.ARMAConv(WIDTH, WIDTH),
    "SGConv": lambda: pyg.SGConv(WIDTH, WIDTH),
    "LEConv": lambda: pyg.LEConv(WIDTH, WIDTH),
    "ResGatedGraphConv": lambda: pyg.ResGatedGraphConv(WIDTH, WIDTH),
    "GatedGraphConv": lambda: pyg.GatedGraphConv(WIDTH, 2),
    "EdgeConv": lambda: pyg.EdgeConv(nn.Linear(2 * WIDTH, WIDTH)),
    "CGConv": lambda: pyg.CGConv(WIDTH),
    "GENConv": lambda: pyg.GENConv(WIDTH, WIDTH),
}
MODELS: dict[str, Callable[[], nn.Module]] = {
    "GIN": lambda: pyg.GIN(WIDTH, WIDTH, 3, norm="BatchNorm"),
    "GCN": lambda: pyg.GCN(WIDTH, WIDTH, 3),
    "GraphSAGE": lambda: pyg.GraphSAGE(WIDTH, WIDTH, 3),
    "GAT": lambda: pyg.GAT(WIDTH, WIDTH, 3),
    "PNA": lambda: pyg.PNA(WIDTH, WIDTH, 3, **PNA),
    "EdgeCNN": lambda: pyg.EdgeCNN(WIDTH, WIDTH, 3),
}


class Net(nn.Module):
    """Atom and bond embeddings, a conv or model of PyG, a pooling and a Linear.

    Args:
        gnn: The conv or model.
        reads_edges: Whether it is called with edge states.
    """

    def __init__(self, gnn: nn.Module, reads_edges: bool) -> None:
        super().__init__()
        self.atoms, self.bonds = nn.Embedding(28, WIDTH), nn.Embedding(4, WIDTH)
        self.gnn, self.reads_edges = gnn, reads_edges
        self.head = nn.Linear(WIDTH, 1)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor
    ) -> Tensor:
        """Predict one number for each graph, [g]."""
        edges = (self.bonds(edge_attr.flatten()),) if self.reads_edges else ()
        h = self.gnn(self.atoms(x.flatten()), edge_index, *edges)
        return self.head(pyg.global_add_pool(h, batch)).flatten()


def loss(output: Tensor, batch: Batch) -> Tensor:
    """Return the mean absolute error."""
    return (output - batch.y.flatten()).abs().mean()


def train(name: str, uplifted: bool, device: str) -> Record:
    """Train a conv or model for a few epochs, and say whether steps were captured."""
    gc.collect()
    torch.manual_seed(0)
    gnn = (CONVS | MODELS)[name]()
    model: nn.Module = Net(gnn, name == "GINEConv")
    subgraphs = gnnak.EgoNets(2) if uplifted else None
    if subgraphs is not None:
        model = gnnak.uplift(model, subgraphs)
    model = model.to(device).train()
    graphs = to_pyg(load_dataset("zinc").store.subset(slice(0, GRAPHS)))
    loader = gnnak.GraphLoader(graphs, BATCH, device=device, subgraphs=subgraphs)
    step = gnnak.TrainingStep(model, loss, torch.optim.Adam(model.parameters()))
    for _ in range(EPOCHS):
        began = time.perf_counter()
        for batch in loader:
            value = step(batch)
        spent = float(value) * 0 + time.perf_counter() - began
    return {
        "name": name,
        "kind": "model" if name in MODELS else "conv",
        "uplifted": uplifted,
        "captured": step.reason is None and device == "cuda",
        "reason": step.reason,
        "seconds_a_step": spent / len(loader),
    }


def main() -> None:
    """Train all convs and models, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="file that records are appended to")
    parser.add_argument("--only", help="names with commas between them")
    options = parser.parse_args()
    logging.getLogger("gnnak").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    for name in options.only.split(",") if options.only else [*CONVS, *MODELS]:
        for uplifted in (False, True):
            record = train(name, uplifted, device)
            shown = "yes" if record["captured"] else f"no: {record['reason']}"
            kind = "uplifted" if uplifted else "plain"
            rows.append([name, kind, shown, f"{1e3 * record['seconds_a_step']:.1f} ms"])
            print(*rows[-1], sep="  ", flush=True)
            if options.out is not None:
                append_record(
                    options.out, record | {"environment": environment(device)}
                )
    print(markdown(["name", "model", "captured", "a step"], rows))


if __name__ == "__main__":
    main()
