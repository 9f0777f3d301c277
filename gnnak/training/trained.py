"""Load trained networks from disk or the Hugging Face hub, and predict with them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from gnnak.datasets.cache import with_node_features
from gnnak.datasets.own.load import fit_features
from gnnak.datasets.own.molecules import find_featurizer, need_featurizer
from gnnak.datasets.own.objects import are_smiles, as_items, without_targets
from gnnak.datasets.own.options import OwnData, as_names, as_text
from gnnak.datasets.own.read import Reading, as_rows, is_data_file
from gnnak.datasets.record import DatasetInfo
from gnnak.errors import FileFormatError, GraphError, reason_of
from gnnak.graphs import GraphBatch, GraphStore
from gnnak.optional import import_optional
from gnnak.training.evaluation import Evaluation, evaluate_labelled
from gnnak.training.losses import Scaler
from gnnak.training.predictions import Predictions, predict
from gnnak.training.records.checkpoint import (
    CARD,
    CONFIG,
    WEIGHTS,
    Checkpoint,
    is_folder,
    load_checkpoint,
    load_folder,
    save_folder,
)


def download(name: str, revision: str | None = None) -> Path:
    """Download a network from the Hugging Face hub if not cached; return its folder."""
    hub = _import_hub(f"there is no file or folder {name}, and downloading it from the")
    try:
        found = hub.snapshot_download(
            name, revision=revision, allow_patterns=[CONFIG, WEIGHTS, CARD]
        )
    except Exception as error:  # the hub's client raises errors of many types
        raise FileFormatError(
            f"{name} is not here, and cannot be downloaded from the Hugging Face hub: "
            f"{reason_of(error)}; check the name and the connection."
        ) from error
    return Path(found)


def upload(folder: Path, name: str, private: bool = False) -> str:
    """Upload a folder to the hub; create the repository `name` if it does not exist."""
    hub = _import_hub("uploading to the")
    try:
        address = hub.create_repo(name, private=private, exist_ok=True)
        hub.upload_folder(repo_id=name, folder_path=str(folder))
    except Exception as error:  # the hub's client raises errors of many types
        raise FileFormatError(
            f"{name} cannot be uploaded to the Hugging Face hub: {reason_of(error)}; "
            "log in with `hf auth login`, and check the name."
        ) from error
    return str(address)


def _import_hub(purpose: str) -> Any:
    use = f"{purpose} Hugging Face hub needs"
    return import_optional("huggingface_hub", use, "huggingface_hub")


SHIPPED = Path(__file__).parents[1] / "pretrained"
"""The folder of the networks that are installed with the package."""
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
"""The form of a name on the Hugging Face hub, `owner/name`."""
FilePath = str | os.PathLike[str]


def shipped_names() -> list[str]:
    return sorted(path.name for path in SHIPPED.glob("*") if is_folder(path))


def find_local(path: FilePath) -> Checkpoint:
    """Read a checkpoint from a file or folder, or by name if installed with gnnak."""
    if not isinstance(path, str | os.PathLike):
        raise FileFormatError(
            f"the path is {path!r}; give the path of a checkpoint or of a folder of "
            "save_pretrained."
        )
    where = Path(path)
    if is_folder(where):
        return load_folder(where)
    name, shipped = os.fspath(path).lower(), shipped_names()
    if name in shipped and not where.is_file():
        return load_folder(SHIPPED / name)
    if shipped and not where.exists():
        raise FileFormatError(
            f"there is no file {where}; give a checkpoint, a folder of "
            "save_pretrained, or a network that is installed with gnnak: "
            f"{', '.join(shipped)}."
        )
    if where.is_dir():
        inside = where / "best.ckpt"
        if inside.is_file():
            return load_checkpoint(inside)
        if (where / "last.ckpt").is_file():
            raise FileFormatError(
                f"{where} is an unfinished run; finish it with gnnak train and "
                "--resume, which writes best.ckpt."
            )
        raise FileFormatError(
            f"the folder {where} has no config.json and no best.ckpt; give a "
            "checkpoint, or a folder of save_pretrained."
        )
    if is_data_file(where):
        raise FileFormatError(
            f"{where} is a file with data, not a model; give the best.ckpt of a run, "
            "or a folder of save_pretrained."
        )
    return load_checkpoint(where)


def find(path: FilePath, revision: str | None = None) -> Checkpoint:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    if HUB_NAME.fullmatch(name) and not Path(name).exists():
        return load_folder(download(name, revision))
    return find_local(path)


def as_batch(graphs: Any, reading: Reading, info: DatasetInfo) -> GraphBatch:
    if isinstance(graphs, GraphBatch):
        return graphs
    if isinstance(graphs, GraphStore):
        return with_node_features(graphs).union()
    given = [graphs] if isinstance(graphs, str) else as_items(graphs)
    if not given:
        raise GraphError("there are no graphs; give at least one.")
    items = [without_targets(item) for item in given]
    if are_smiles(items):
        need_featurizer(info)
    rows = as_rows(items, reading)
    if rows.bad:
        raise GraphError(f"{rows.bad[0]}; correct this graph.")
    return with_node_features(rows.store).union()


class TrainedModel(nn.Module):
    """A trained network with all that predictions need: features, units and classes.

    Args:
        checkpoint: Weights, options and description of the data of a run.

    Attributes:
        network: The network, which takes tensors or a `GraphBatch`.
        checkpoint: The checkpoint, which `save` writes.
        info: Task, metric, features, targets and classes of the training data.
        config: All options of the run.
        reading: The columns and attributes that are read from new data.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.checkpoint = checkpoint
        self.network = checkpoint.network()
        self.info, self.config = checkpoint.info, checkpoint.config
        own, featurizer = self.config.data.own, find_featurizer(self.info) or "ogb"
        attributes = own.node_attr, own.edge_attr
        self.reading = Reading(own.smiles, *attributes, None, featurizer, True)
        scaling = checkpoint.info.scaling
        self.scaler = None if scaling is None else Scaler(scaling)
        self.eval()

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.network.parameters()).device

    def forward(
        self,
        graphs: Any,
        edge_index: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        num_graphs: int | None = None,
    ) -> Tensor:
        """Predict for graphs; the result is differentiable.

        Args:
            graphs: A PyG `Data` or `Batch`, a `GraphBatch`, a `GraphStore`, a SMILES
                string, or a list of `Data`, SMILES strings or networkx graphs. Or node
                features x, [n, c]; then `edge_index` is needed.
            edge_index: Directed edges, [2, e], if `graphs` is a tensor.
            edge_attr: Edge features, [e, c], if `graphs` is a tensor.
            batch: Index of the graph of each node, [n]; if None, there is one graph.
            num_graphs: Number of graphs; if None, `batch.max() + 1`.

        Returns:
            Outputs, [g, outputs]: one row per graph or, in node tasks, per node. In
            regression, these are targets in their own units. In classification and
            multilabel tasks, they are logits.

        Raises:
            GraphError: If a graph is malformed, or its features differ from training.
        """
        if not isinstance(graphs, Tensor):
            graphs = as_batch(graphs, self.reading, self.info)
            edge_index, edge_attr = graphs.edge_index, graphs.edge_attr
            batch, num_graphs = graphs.batch, graphs.num_graphs
            graphs = graphs.x
        device, info = self.device, self.info
        x = fit_features("x", graphs.to(device), info.node_features)
        no_edges = edge_index is not None and not edge_index.numel()
        edges = fit_features("edge_attr", edge_attr, info.edge_features, no_edges)
        outputs = self.network(
            x,
            None if edge_index is None else edge_index.to(device),
            None if edges is None else edges.to(device),
            None if batch is None else batch.to(device),
            num_graphs=num_graphs,
        )
        return outputs if self.scaler is None else self.scaler.restore(outputs)

    def predict(
        self,
        graphs: Any,
        batch_size: int | None = None,
        nodes: object = None,
        smiles: str | None = None,
    ) -> Predictions:
        """Predict for many graphs, in their order, without gradients.

        Args:
            graphs: Path of a file or folder, or a list; see `gnnak.train`.
            batch_size: Graphs per forward pass; if None, 256. A batch that does not fit
                into memory is split.
            nodes: In node tasks, the nodes of one graph to predict for, as a mask or as
                a list of numbers; if None, all.
            smiles: Column with SMILES strings; if None, as in training.

        Returns:
            The predictions: values in the units of the targets, or probabilities. Rows
            that cannot be used are NaN.
        """
        return predict([self], graphs, batch_size, smiles=smiles, nodes=nodes)

    def evaluate(
        self,
        graphs: Any,
        y: Any = None,
        *,
        metric: str | None = None,
        smiles: str | None = None,
        target: str | Sequence[str] | None = None,
        labels: FilePath | None = None,
        skip_bad: bool = False,
        batch_size: int | None = None,
    ) -> Evaluation:
        """Score the model on new graphs whose targets are known.

        If `graphs` is one graph with a `test_mask`, only its test nodes are scored.

        Args:
            graphs: Path of a file or folder, or a list; see `gnnak.train`.
            y: Targets, [g] or [g, targets], or a pandas frame. NaN marks unknown
                targets. If None, the targets are read from `graphs` or `labels`.
            metric: Name of the metric; if None, the metric of the training.
            smiles: Column with SMILES strings; if None, as in training.
            target: Columns or attributes with the targets; if None, as in training.
            labels: Table with the targets, one row per graph.
            skip_bad: Whether to leave out rows that are no graph or have no target,
                instead of raising an error.
            batch_size: Graphs per forward pass; if None, 256.

        Returns:
            The score. If there are several targets, also the score of each of them.

        Raises:
            GnnakError: If the graphs, the targets or the metric do not fit the model.

        >>> model = load("best.ckpt")  # doctest: +SKIP
        >>> model.evaluate("labelled.csv", metric="r2").score  # doctest: +SKIP
        """
        reading = self.reading
        own = OwnData(
            smiles=smiles or reading.smiles,
            targets=as_names(target),
            labels=as_text(labels),
            metric=metric,
            skip_bad=skip_bad,
            node_attr=reading.node_attr,
            edge_attr=reading.edge_attr,
        )
        return evaluate_labelled(self, own, graphs, y, batch_size)

    def embed(
        self, graphs: Any, batch_size: int | None = None, smiles: str | None = None
    ) -> Tensor:
        """Return embeddings, [g, c], on the CPU: the inputs of the network's head.

        There is one row per graph or, in node tasks, per node. Rows that cannot be used
        are NaN.

        Args:
            graphs: Path of a file or folder, or a list; see `gnnak.train`.
            batch_size: Graphs per forward pass; if None, 256.
            smiles: Column with SMILES strings; if None, as in training.
        """
        found = predict([self], graphs, batch_size, embeddings=True, smiles=smiles)
        assert found.embeddings is not None
        return torch.from_numpy(found.embeddings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint, which `gnnak.load` reads."""
        self.checkpoint.save(Path(path))

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder with `model.safetensors`, `config.json` and a model card.

        `gnnak.from_pretrained` reads the folder, and so does `gnnak predict`.
        """
        save_folder(self.checkpoint, Path(folder))

    def push_to_hub(self, name: str, private: bool = False) -> str:
        """Upload the files of `save_pretrained` to the Hugging Face hub.

        Needs the package huggingface_hub, and a login (`hf auth login`).

        Args:
            name: `owner/name` on the hub.
            private: Whether a new repository is private.

        Returns:
            The address of the repository.
        """
        with TemporaryDirectory() as folder:
            save_folder(self.checkpoint, Path(folder), name)
            return upload(Path(folder), name, private)

    @classmethod
    def from_pretrained(
        cls, path: str | os.PathLike[str], revision: str | None = None
    ) -> TrainedModel:
        """Read a trained model; see `gnnak.from_pretrained`."""
        return cls(find(path, revision))

    def __repr__(self) -> str:
        info = self.info
        names = ", ".join(info.targets[:3]) + (", ..." if len(info.targets) > 3 else "")
        scores = {k: s for k, s in self.checkpoint.scores.items() if s is not None}
        shown = ", ".join(f"{k} {info.metric} {s:.4g}" for k, s in scores.items())
        return (
            f"TrainedModel({self.config.model.name!r}, {info.task} of "
            f"{names or info.name}, {shown})"
        )


def load(path: str | os.PathLike[str]) -> TrainedModel:
    """Read a trained model from this machine, without executing code in its files.

    Args:
        path: A checkpoint (`best.ckpt` of a run), a folder of `save_pretrained`, or the
            name of a network that is installed with gnnak.

    Returns:
        The trained model, on the CPU and in evaluation mode.

    Raises:
        FileFormatError: If there is no such file.
        CheckpointError: If a file is damaged or was not written by this version.
    """
    return TrainedModel(find_local(path))


def from_pretrained(
    path: str | os.PathLike[str], revision: str | None = None
) -> TrainedModel:
    """Read a trained model as `load` does, or download it from the Hugging Face hub.

    Downloads need the package huggingface_hub; it is imported only for a download.

    Args:
        path: As for `load`, or `owner/name` on the hub.
        revision: Branch, tag or commit on the hub; if None, the newest.

    Returns:
        The trained model, on the CPU and in evaluation mode.

    Raises:
        FileFormatError: If there is no such file, or the download fails.
        CheckpointError: If a file is damaged or was not written by this version.
        MissingPackageError: If the hub is needed, but huggingface_hub is missing.
    """
    return TrainedModel.from_pretrained(path, revision)
